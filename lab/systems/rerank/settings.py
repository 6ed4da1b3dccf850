"""The settings of a reranker (``lab.rerank``), and their check before a run (RR-1, RR-6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.base.errors import UnusableInput
from lab.embedding.http import stays_private
from lab.systems.external.settings import read_settings

CANDIDATES, TIMEOUT_MS = 20, 2000


@dataclass(frozen=True, slots=True)
class Rerank:
    """The endpoint (None: no reranking), the model that requests name, and the bounds of a request.

    ``candidates`` is the number of first hits that it may reorder. An answer later than ``timeout_ms`` is not used.
    ``key_env`` names the environment variable with the API key. ``allow_remote``: texts may leave this machine.
    """

    url: str | None = None
    model: str | None = None
    candidates: int = CANDIDATES
    timeout_ms: int = TIMEOUT_MS
    key_env: str | None = None
    allow_remote: bool = False


def checked(settings: Rerank, where: str, *, allow_remote: bool, live: bool) -> Rerank:
    """Return the settings with the permission of the run. Raises :class:`UnusableInput` for those that cannot be used.

    An address must not contain a key, must be on this machine or allowed, and gets a key only over TLS or within this
    machine. If ``live``, the variable with the key must be set.
    """
    if settings.url is None:
        return settings
    where = f"{where}: lab.rerank"
    remote = settings.allow_remote or allow_remote
    endpoint = {"url": settings.url, **({"key_env": settings.key_env} if settings.key_env else {})}
    host = read_settings(endpoint, where, allow_remote=remote)
    if settings.key_env and not stays_private(settings.url):
        raise UnusableInput(f"{where}: the key would cross the network unencrypted; give an https:// address")
    if live:
        host.require_present(where)
    return replace(settings, allow_remote=remote)


def refuse(settings: Rerank, where: str, system: str) -> None:
    """Raise :class:`UnusableInput` if a system that does not rerank has settings for it."""
    if settings.url is not None:
        raise UnusableInput(f"{where}: lab.rerank: {system} does not rerank; bm25, vector, hybrid and verbatim do")
