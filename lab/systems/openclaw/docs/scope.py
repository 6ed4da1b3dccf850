"""Which documents a scope may see (E-47): the scope's token, the repos asked for, the check afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.recordings.model import GLOBAL
from lab.utf16 import WHITESPACE

ScopeMap = Mapping[str, Sequence[str]]
_REMNANT = re.compile(r"\A\[?(?:iso|scope):")


def scope_token(scope: str) -> str:
    """A scope in lower case, without what a tag left on it: ``[scope:`` in front, slashes, a bracket behind."""
    bare = _REMNANT.sub("", scope.strip(WHITESPACE).lower())
    return bare.lstrip("/").rstrip("]").strip(WHITESPACE)


def is_scoped(scope: str) -> bool:
    """Whether a scope narrows the search at all: neither empty nor ``global``."""
    return scope_token(scope) not in ("", GLOBAL)


def short_key(token: str) -> str:
    """The first segment of a scope token, split at ``/`` and ``:``; the whole token where that is empty.

    The plugin takes remnants of a tag off once more: ``scope:iso:a`` has the token ``iso:a`` and the segment ``a``.
    """
    token = scope_token(token)
    return re.split("[/:]", token, maxsplit=1)[0] or token


def pushdown_repos(scope: str, strategy: str, scope_map: ScopeMap) -> list[str]:
    """Repos that the search itself is limited to; empty means all of them.

    ``repo_prefix``: the scope's first segment. ``map``: the entries mapped to the scope, then those of its first
    segment, that name no folder; unique whatever their case. Any other strategy asks for nothing.
    """
    if not is_scoped(scope):
        return []
    if strategy == "repo_prefix":
        return [key for key in (short_key(scope_token(scope)),) if key]
    if strategy != "map":
        return []
    repos: dict[str, str] = {}
    for entry in _mapped(scope_token(scope), scope_map):
        if "/" not in entry:
            repos.setdefault(entry.lower(), entry)
    return list(repos.values())


def matches_scope(repo: str, path: str, scope: str, strategy: str, scope_map: ScopeMap) -> bool:
    """Whether a document belongs to a scope. Case is ignored.

    Without a scope, and under ``none`` or a strategy of another name, everything does. Under ``map`` a scope that is
    mapped to nothing matches nothing.
    """
    if not is_scoped(scope):
        return True
    token, repo, path = scope_token(scope), repo.lower(), path.lower()
    if strategy == "repo_prefix":
        key = short_key(token)
        return not key or _inside(repo, path, key)
    if strategy == "path_prefix":
        folder = token.replace(":", "/")
        return path == folder or path.startswith(f"{folder}/") or f"/{folder}/" in path
    if strategy == "map":
        entries = (entry.lower() for entry in _mapped(token, scope_map))
        return any(path == entry or _inside(repo, path, entry) for entry in entries)
    return True


def _inside(repo: str, path: str, name: str) -> bool:
    return repo == name or path.startswith(f"{name}/")


def _mapped(token: str, scope_map: ScopeMap) -> list[str]:
    """The entries of a scope, then those of its first segment, without the slashes in front."""
    entries = [*scope_map.get(token, ()), *scope_map.get(short_key(token), ())]
    return [bare for entry in entries if (bare := entry.strip(WHITESPACE).lstrip("/"))]
