"""Match documents with scopes (E-47): the scope's token, the repos searched, and the check of the results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.base.utf16 import WHITESPACE
from lab.recordings.model import GLOBAL

ScopeMap = Mapping[str, Sequence[str]]
_REMNANT = re.compile(r"\A\[?(?:iso|scope):")


def scope_token(scope: str) -> str:
    """Return a scope in lower case without remnants of a tag: a leading ``[scope:``, slashes, a closing bracket."""
    token = _REMNANT.sub("", scope.strip(WHITESPACE).lower())
    return token.lstrip("/").rstrip("]").strip(WHITESPACE)


def is_scoped(scope: str) -> bool:
    """Whether a scope narrows the search: it is neither empty nor ``global``."""
    return scope_token(scope) not in ("", GLOBAL)


def short_key(token: str) -> str:
    """Return the first segment of a scope token, split at ``/`` and ``:``; the full token if that is empty.

    The plugin removes remnants of a tag again: ``scope:iso:a`` has the token ``iso:a`` and the segment ``a``.
    """
    token = scope_token(token)
    return re.split("[/:]", token, maxsplit=1)[0] or token


def pushdown_repos(scope: str, strategy: str, scope_map: ScopeMap) -> list[str]:
    """Return the repos that the search is limited to; empty means all.

    ``repo_prefix``: the scope's first segment. ``map``: the entries mapped to the scope, then those of its first
    segment, except folders; unique ignoring case. Other strategies set no limit.
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

    Without a scope, and under ``none`` or an unknown strategy, every document does. Under ``map``, an unmapped scope
    matches nothing.
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
    """Return the entries of a scope, then those of its first segment, without leading slashes."""
    entries = [*scope_map.get(token, ()), *scope_map.get(short_key(token), ())]
    return [path for entry in entries if (path := entry.strip(WHITESPACE).lstrip("/"))]
