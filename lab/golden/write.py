<<<<<<< HEAD
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
=======
"""Golden sets written in the project's own form, and files that replace no others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import cannot_write, dump_json, write_whole
from lab.golden.model import Judgement, Probe


def golden_bytes(probes: Iterable[Probe]) -> bytes:
    """A golden set, one probe a line; reading it gives the same probes."""
    return b"".join(dump_json(_line(probe), indent=None) for probe in probes)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet.

    The same content again changes nothing; other content is :class:`UnusableInput`, for it may be somebody's work.
    """
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        write_whole(path, data)
        return
    except OSError as error:
        raise cannot_write(path, error) from error
    if before != data:
        raise UnusableInput(f"{path}: is there already and says something else; remove it, or choose another --out")


def _line(probe: Probe) -> dict[str, Any]:
    where: dict[str, Any] = {"turn": probe.turn}
    if probe.turn is None:
        where = {"id": probe.id, "conversation": probe.conversation, "query": probe.query}
    return {
        "kind": "probe",
        **where,
        **({"type": probe.slices["type"]} if "type" in probe.slices else {}),
        "reason": probe.reason,
        "relevant": [_judgement(one, {"grade": one.grade}) for one in probe.relevant],
        "forbidden": [_judgement(one, {}) for one in probe.forbidden],
    }


def _judgement(one: Judgement, grade: dict[str, int]) -> dict[str, Any]:
    return {"memory": one.memory, **grade, "reason": one.reason}
>>>>>>> goldtools
