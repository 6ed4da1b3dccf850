"""Write golden sets in the ``lab`` format, and new files and folders that never overwrite others."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import atomic_folder, cannot_write, dump_json, folder_matches, write_atomically
from lab.golden.model import Judgement, Probe


def golden_bytes(probes: Iterable[Probe]) -> bytes:
    """Return probes and captures as JSON Lines, one per line; reading them returns equal ones.

    Raises :class:`UnusableInput` for a probe that the format cannot represent.
    """
    return b"".join(dump_json(_line(probe), indent=None) for probe in probes)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet.

    If it exists with the same content, nothing changes. Raises :class:`UnusableInput` if it has other content, which
    may be someone's work.
    """
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        write_atomically(path, data)
        return
    except OSError as error:
        raise cannot_write(path, error) from error
    if before != data:
        raise UnusableInput(f"{path}: already exists with other content; remove it, or choose another --out")


def write_new_folder(path: Path, files: dict[str, bytes]) -> None:
    """Write a folder with exactly these files, atomically; like :func:`write_new`, it overwrites nothing."""
    if not folder_matches(path, {name: sha256(data).hexdigest() for name, data in files.items()}):
        with atomic_folder(path) as folder:
            for name, data in files.items():
                write_atomically(folder / name, data)


def _line(probe: Probe) -> dict[str, Any]:
    where: dict[str, Any] = {"turn": probe.turn}
    if probe.turn is None:
        where = {"id": probe.id, "conversation": probe.conversation, "query": probe.query}
    elif not probe.capture and probe.id != probe.turn:
        raise UnusableInput(f"probe {probe.id}: its id must equal its turn, {probe.turn}, in the lab format")
    # Type and condition without other slices have their own fields.
    slices = probe.slices if set(probe.slices) <= {"type", "condition"} else {"slices": probe.slices}
    return {
        "kind": "capture" if probe.capture else "probe",
        **where,
        **slices,
        "reason": probe.reason,
        "relevant": [_judgement(judgement, {"grade": judgement.grade}) for judgement in probe.relevant],
        "forbidden": [_judgement(judgement, {}) for judgement in probe.forbidden],
        **({"irrelevant": list(probe.irrelevant)} if probe.irrelevant else {}),
    }


def _judgement(judgement: Judgement, grade: dict[str, int]) -> dict[str, Any]:
    return {"memory": judgement.memory, **grade, "reason": judgement.reason}
