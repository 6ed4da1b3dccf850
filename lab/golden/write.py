"""Golden sets written in the project's own form, and files that replace no others."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import atomic_folder, cannot_write, dump_json, folder_matches, write_atomically
from lab.golden.model import Judgement, Probe


def golden_bytes(probes: Iterable[Probe]) -> bytes:
    """A golden set, one probe a line; reading it gives the same probes.

    :class:`UnusableInput` for a probe that the form cannot hold.
    """
    return b"".join(dump_json(_line(probe), indent=None) for probe in probes)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet.

    The same content again changes nothing; other content is :class:`UnusableInput`, for it may be somebody's work.
    """
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        write_atomically(path, data)
        return
    except OSError as error:
        raise cannot_write(path, error) from error
    if before != data:
        raise UnusableInput(f"{path}: is there already and says something else; remove it, or choose another --out")


def write_new_folder(path: Path, files: dict[str, bytes]) -> None:
    """Write a folder of just these files, whole or not at all; as of :func:`write_new`, nothing is replaced."""
    if not folder_matches(path, {name: sha256(data).hexdigest() for name, data in files.items()}):
        with atomic_folder(path) as folder:
            for name, data in files.items():
                write_atomically(folder / name, data)


def _line(probe: Probe) -> dict[str, Any]:
    where: dict[str, Any] = {"turn": probe.turn}
    if probe.turn is None:
        where = {"id": probe.id, "conversation": probe.conversation, "query": probe.query}
    elif probe.id != probe.turn:
        raise UnusableInput(f"probe {probe.id} is not called as its turn, {probe.turn}, which the form cannot hold")
    # A type alone has a field of its own.
    slices = probe.slices if set(probe.slices) <= {"type"} else {"slices": probe.slices}
    return {
        "kind": "probe",
        **where,
        **slices,
        "reason": probe.reason,
        "relevant": [_judgement(one, {"grade": one.grade}) for one in probe.relevant],
        "forbidden": [_judgement(one, {}) for one in probe.forbidden],
    }


def _judgement(one: Judgement, grade: dict[str, int]) -> dict[str, Any]:
    return {"memory": one.memory, **grade, "reason": one.reason}
