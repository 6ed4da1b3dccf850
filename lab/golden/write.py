"""Golden sets written in the project's own form, so that :mod:`lab.golden.read` reads the same probes again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lab.errors import UnusableInput
from lab.golden.model import Judgement, Probe


def golden_lines(probes: Iterable[Probe]) -> bytes:
    """Probes as JSON Lines, in their order; :class:`UnusableInput` for one that the form cannot hold."""
    return "".join(json.dumps(_line(probe), ensure_ascii=False) + "\n" for probe in probes).encode()


def _line(probe: Probe) -> dict[str, Any]:
    line: dict[str, Any] = {"kind": "probe"}
    if probe.turn is None:
        line |= {"id": probe.id, "conversation": probe.conversation, "query": probe.query}
    elif probe.id == probe.turn:
        line |= {"turn": probe.turn}
    else:
        raise UnusableInput(f"probe {probe.id} is not called as its turn, {probe.turn}, which the form cannot hold")
    if set(probe.slices) == {"type"}:
        line |= probe.slices
    elif probe.slices:
        line |= {"slices": probe.slices}
    if probe.reason:
        line |= {"reason": probe.reason}
    line |= {"relevant": [_judgement(one) for one in probe.relevant]}
    return line | ({"forbidden": [_judgement(one) for one in probe.forbidden]} if probe.forbidden else {})


def _judgement(judgement: Judgement) -> dict[str, Any]:
    line: dict[str, Any] = {"memory": judgement.memory}
    if judgement.grade != 1:
        line |= {"grade": judgement.grade}
    return line | ({"reason": judgement.reason} if judgement.reason else {})
