"""Reader of golden sets in the ``lab`` format: JSON Lines, one probe per line.

    {"kind": "probe", "turn": TURN, "type": "standing_rule", "reason": TEXT,
     "relevant": [{"memory": KEY, "grade": 2, "reason": TEXT}], "forbidden": [{"memory": KEY, "reason": TEXT}],
     "irrelevant": [KEY]}

A probe that is not a turn of the recording has ``id``, ``conversation`` and ``query`` instead of ``turn``; it is posed
after the last turn. ``condition`` names a planted harm (:data:`lab.golden.model.CONDITIONS`). ``slices`` adds subgroups
to ``type`` and ``condition``: ``{"language": "zh"}``. ``answer`` is the right answer in words. ``irrelevant`` lists the
memories that were judged not relevant; a memory that is in none of the three lists was not judged.

A line of the kind ``capture`` has a turn and the three lists. It says which of the turn's candidates should be kept:

    {"kind": "capture", "turn": TURN, "relevant": [{"memory": KEY, "grade": 2}], "forbidden": [{"memory": KEY}],
     "irrelevant": [KEY]}
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import atomic_folder, cannot_write, dump_json, folder_matches, read_json_lines, write_atomically
from lab.base.shape import expect, json_type, optional
from lab.base.utf16 import has_lone_surrogate
from lab.golden.model import GoldenSet, Judgement, Probe, capture_id

# The highest grade. Other data sets use larger scales; higher grades would dominate a mean.
HIGHEST = 100
CAPTURE = "capture"
KINDS = ("probe", CAPTURE)
FIELDS = {
    *("kind", "turn", "id", "conversation", "query", "answer", "reason"),
    *("type", "condition", "slices", "relevant", "forbidden", "irrelevant"),
}


def read_golden(path: Path) -> GoldenSet:
    """Read a golden set from a file, or from the ``*.jsonl`` files of a folder in name order."""
    if path.is_dir():
        files = sorted(child for child in path.glob("*.jsonl") if not child.name.startswith("."))
        if not files:
            raise UnusableInput(f"{path}: no *.jsonl file in this folder")
    else:
        files = [path]
    judged = [_probe(line, f"{file}:{number}") for file in files for number, line in read_json_lines(file)]
    return GoldenSet(
        tuple(probe for probe in judged if not probe.capture),
        captures=tuple(probe for probe in judged if probe.capture),
    )


def _probe(line: dict[str, Any], at: str) -> Probe:
    if line.get("kind") in ("recording", "session", "turn", "memory"):
        raise UnusableInput(f"{at}: this is a {line['kind']} line of a recording, not a probe of a golden set")
    unknown = set(line) - FIELDS
    if unknown:
        raise UnusableInput(f"{at}: a probe has no field {sorted(unknown)[0]!r}")
    if line.get("kind") not in KINDS:
        raise UnusableInput(f'{at}: "kind" must be "probe" or "capture"')
    turn, query = line.get("turn"), line.get("query")
    capture = line["kind"] == CAPTURE
    if capture and turn is None:
        raise UnusableInput(f"{at}: a capture needs a turn, whose candidates it judges")
    if (turn is None) == (query is None):
        raise UnusableInput(f"{at}: a probe needs either a turn or a query, not both")
    identity: Any = turn
    conversation: Any = line.get("conversation")
    if turn is not None:
        if not isinstance(turn, str) or turn.count("/") < 2:
            raise UnusableInput(f"{at}: turn {turn!r} is not <conversation>/<session>/<turn>")
        conversation = turn.split("/")[0]
    else:
        identity = line.get("id")
        if not isinstance(query, str) or not isinstance(identity, str) or not isinstance(conversation, str):
            raise UnusableInput(f"{at}: a probe with a query needs the strings id, conversation and query")
    slices = _slices(line, at)
    for name in (identity, conversation, *slices, *slices.values()):
        if has_lone_surrogate(name):
            raise UnusableInput(f"{at}: {name!r} contains a lone surrogate (half a character); use another name")
    relevant = _judgements(line.get("relevant", []), f"{at}: relevant")
    forbidden = _judgements(line.get("forbidden", []), f"{at}: forbidden")
    return Probe(
        capture_id(identity) if capture else identity,
        conversation,
        turn,
        query,
        relevant=relevant,
        forbidden=forbidden,
        slices=slices,
        reason=optional(line, "reason", str, "", at),
        irrelevant=_irrelevant(line.get("irrelevant", []), (*relevant, *forbidden), f"{at}: irrelevant"),
        capture=capture,
        answer=optional(line, "answer", str, "", at),
    )


def _slices(line: dict[str, Any], at: str) -> dict[str, str]:
    named: dict[str, str] = {}
    for name in ("type", "condition"):
        if name in line:
            named[name] = optional(line, name, str, "", at)
    for name, value in optional(line, "slices", dict, {}, at).items():
        named[name] = expect(value, str, f"{at}: slices.{name}")
    return named


def _judgements(value: Any, at: str) -> tuple[Judgement, ...]:
    if not isinstance(value, list):
        raise UnusableInput(f"{at}: expected a list")
    judged = []
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("memory"), str):
            raise UnusableInput(f'{at}: each judgement is {{"memory": KEY, "grade": 1 or 2, "reason": TEXT}}')
        grade = item.get("grade", 1)
        if isinstance(grade, bool) or not isinstance(grade, int) or not 1 <= grade <= HIGHEST:
            raise UnusableInput(f"{at}: grade {grade!r} of {item['memory']} is not an integer from 1 to {HIGHEST}")
        judged.append(Judgement(item["memory"], grade, optional(item, "reason", str, "", at)))
    return tuple(judged)


def _irrelevant(value: Any, judged: Iterable[Judgement], at: str) -> tuple[str, ...]:
    """Return the keys of a list without duplicates, none of which is ``judged`` otherwise."""
    keys = expect(value, list, at)
    for number, key in enumerate(keys):
        if not isinstance(key, str):
            raise UnusableInput(f"{at}: entry {number + 1}: expected the key of a memory, found {json_type(key)}")
    if len(set(keys)) < len(keys):
        raise UnusableInput(f"{at}: {next(key for key in keys if keys.count(key) > 1)} is listed twice")
    listed = set(keys)
    for judgement in judged:
        if judgement.memory in listed:
            raise UnusableInput(f"{at}: {judgement.memory} is also relevant or forbidden; remove it from one list")
    return tuple(keys)


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
        **({"answer": probe.answer} if probe.answer else {}),
        "reason": probe.reason,
        "relevant": [_judgement(judgement, {"grade": judgement.grade}) for judgement in probe.relevant],
        "forbidden": [_judgement(judgement, {}) for judgement in probe.forbidden],
        **({"irrelevant": list(probe.irrelevant)} if probe.irrelevant else {}),
    }


def _judgement(judgement: Judgement, grade: dict[str, int]) -> dict[str, Any]:
    return {"memory": judgement.memory, **grade, "reason": judgement.reason}
