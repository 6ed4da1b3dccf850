"""Let a remote model reorder the first hits of a search: bounded, recorded, and open to failure (RR-1 to RR-6)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.embedding.address import stays_private
from lab.retrieval.clamp import Clamp, clamp
from lab.systems.external.answers import RECORD, Chain, Exchange, Recorder, folder_of, read_exchanges, save_identity
from lab.systems.external.protocol import HostFailed
from lab.systems.external.session import EndpointChannel
from lab.systems.external.settings import read_settings
from lab.systems.openclaw.config.settings import Rerank
from lab.systems.spec import LIVE, RECORDED


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


_OP = "rerank"
_LIMITS = Clamp()


class Reranked(NamedTuple):
    """An order of texts: their positions, best first.

    ``sent`` is the number of first texts that the reranker was given. ``reason`` says why the order is still that of
    the search (None: the reranker decided it). ``nanoseconds`` is the time to its answer, even if that is a recorded
    one.
    """

    order: tuple[int, ...]
    sent: int = 0
    reason: str | None = None
    nanoseconds: int = 0

    @property
    def moved(self) -> int:
        """The number of texts whose position has changed."""
        return sum(at != position for at, position in enumerate(self.order))

    def receipt(self) -> dict[str, object]:
        """Return what a receipt says: the number of texts sent, and how many moved or why none did (RR-5)."""
        if self.reason is not None:
            return {"candidates": self.sent, "reason": self.reason}
        return {"candidates": self.sent, "moved": self.moved}


def rerank(
    query: str,
    texts: Sequence[str],
    settings: Rerank,
    *,
    arm: str = _OP,
    answers: str = LIVE,
    must_record: bool = True,
) -> Reranked:
    """Return the order in which the reranker puts the first ``settings.candidates`` texts; the rest follow unchanged.

    If anything goes wrong with the request, the order stays that of ``texts``, with a reason (RR-3). Answers are
    recorded under ``arm``; with ``answers`` :data:`lab.systems.spec.RECORDED` no request is sent, and a missing answer
    raises :class:`CannotMeasure` (RR-4). So does an answer that cannot be recorded, if ``must_record``.
    """
    unchanged = tuple(range(len(texts)))
    sent = min(settings.candidates, len(texts))
    if settings.url is None or sent < 2:
        return Reranked(unchanged)
    body = _request(query, texts[:sent], settings)
    folder = folder_of({"rerank": settings.url, "model": settings.model})
    recorder, chain = Recorder(folder, _OP), Chain().add(_OP, body, ())
    exchange = _recorded(recorder.path(chain), chain, answers)
    if exchange is None and answers == RECORDED:
        raise CannotMeasure(f"arm {arm}: no recorded answer of the reranker to this query; {RECORD}")
    if exchange is None:
        exchange = _ask(body, sent, settings, chain)
        recorder.add(exchange)
        with nullcontext() if must_record else suppress(CannotMeasure):
            save_identity(folder, arm, {"name": settings.url, "version": settings.model or ""})
            recorder.save("")
    try:
        order = exchange.outcome()["order"]
    except HostFailed as error:
        return Reranked(unchanged, sent, error.kind, exchange.ns)
    return Reranked((*order, *unchanged[sent:]), sent, None, exchange.ns)


def _request(query: str, texts: Sequence[str], settings: Rerank) -> bytes:
    """Return the body of a request, without lone surrogates and each text cut as for an embedder (RR-2)."""
    query, *documents = (clamp(text.encode("utf-8", "replace").decode(), _LIMITS).text for text in (query, *texts))
    model = {"model": settings.model} if settings.model else {}
    return json.dumps({**model, "query": query, "documents": documents, "top_n": len(documents)}).encode()


def _recorded(path: Path, chain: str, answers: str) -> Exchange | None:
    """Return the recorded answer to a request; None too for a damaged or failed one that can be replaced (RR-4)."""
    try:
        known = read_exchanges(path) if path.is_file() else []
    except (CannotMeasure, OSError):
        if answers == RECORDED:
            raise
        known = []
    found = next((exchange for exchange in known if exchange.chain == chain), None)
    return found if found is None or answers == RECORDED or found.failure is None else None


def _ask(body: bytes, sent: int, settings: Rerank, chain: str) -> Exchange:
    """Send a request; return the order of the answer, or the failure, with the time that it took."""
    result: dict[str, Any] | None = None
    failure: tuple[str, str, str] | None = None
    started = time.perf_counter_ns()
    try:
        answer = EndpointChannel(settings.url or "", settings.key_env).ask(body, settings.timeout_ms / 1000, _OP)
        result = {"order": order_in(answer, sent)}
    except HostFailed as error:
        failure = (error.kind, "", _OP)
    spent = time.perf_counter_ns() - started
    if spent > settings.timeout_ms * 1_000_000:
        result, failure = None, ("timed_out", "", _OP)
    return Exchange(chain, spent, result, failure)


def order_in(answer: bytes, sent: int) -> list[int]:
    """Return the positions of the texts by falling score; equal scores keep the order of the search.

    Raises :class:`HostFailed`, which never quotes the answer, unless it scores each of the ``sent`` texts once (RR-3).
    """
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        raise HostFailed("not_json", op=_OP) from None
    results = value.get("results") if isinstance(value, dict) else None
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise HostFailed("bad_answer", op=_OP)
    scores: dict[int, float] = {}
    for result in results:
        index, score = result.get("index"), result.get("relevance_score")
        if type(index) is not int or not 0 <= index < sent:
            raise HostFailed("unknown_index", op=_OP)
        if index in scores:
            raise HostFailed("index_twice", op=_OP)
        if type(score) not in (int, float) or not abs(score) < math.inf:
            raise HostFailed("score_not_finite", op=_OP)
        scores[index] = score
    if len(scores) < sent:
        raise HostFailed("too_few", op=_OP)
    return sorted(scores, key=lambda index: (-scores[index], index))
