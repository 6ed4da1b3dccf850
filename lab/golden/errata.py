"""Errata of a golden set: which judgements are wrong, what is right, and who says so.

Errata overlay a golden set and never change its files. A file is JSON Lines, one erratum a line:

    {"kind": "erratum", "probe": ID, "error": "wrong_citation", "was": [KEY],
     "relevant": [{"memory": KEY, "grade": 1}], "answer": TEXT, "by": TEXT, "reason": TEXT}

``probe`` is the id of a probe, or the key of its turn. ``was`` lists the memories that the set calls relevant, so that
errata of another version of the set are noticed. Without ``relevant`` the evidence stays, and only the answer is wrong.
A memory that is not relevant any more is judged irrelevant.

The audit of LoCoMo (``errors.json`` of dial481/locomo-audit) is read as published: its entries name a question by its
words and evidence by ids of turns, which the recordings resolve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json, read_json_lines
from lab.base.regex import regex
from lab.base.shape import expect, field, optional
from lab.golden.model import GoldenSet, Judgement, Probe, by_id

AUDIT = "dial481/locomo-audit"
_FIELDS = {"kind", "probe", "error", "was", "relevant", "answer", "by", "reason"}
# The keys of the memories of each conversation.
Keys = Mapping[str, Collection[str]]
_EVIDENCE = regex(r"D:?0*(\d+):0*(\d+)")


@dataclass(frozen=True, slots=True)
class Erratum:
    """What is wrong with a probe. ``relevant`` is None if its evidence holds, ``answer`` None if its answer does.

    ``changes`` says whether another memory is relevant, or with another grade, than in the set.
    """

    probe: str
    error: str
    relevant: tuple[Judgement, ...] | None
    answer: str | None
    by: str
    reason: str
    changes: bool


@dataclass(frozen=True, slots=True)
class Errata:
    """The errata of a file that a set has the probes of; ``elsewhere`` counts those of questions that it lacks."""

    path: Path
    entries: tuple[Erratum, ...]
    elsewhere: int = 0

    @property
    def corrections(self) -> dict[str, tuple[Judgement, ...]]:
        """Return the right evidence by probe, of the errata that change it."""
        return {one.probe: one.relevant for one in self.entries if one.relevant is not None and one.changes}

    def kinds(self) -> dict[str, int]:
        """Return how many errata there are of each kind of error, most frequent first."""
        return dict(Counter(one.error for one in self.entries).most_common())

    def reach(self, golden: GoldenSet) -> dict[str, int]:
        """Return how many errata each conversation of a golden set has, also 0."""
        named = by_id(golden)
        found = Counter(named[one.probe].conversation for one in self.entries)
        return {name: found[name] for name in dict.fromkeys(probe.conversation for probe in golden.probes)}

    def lines(self, golden: GoldenSet) -> list[dict[str, Any]]:
        """Return the errata of a golden set as the lines of a file."""
        was = {one.id: sorted(one.grades) for one in golden.probes}
        return [
            {
                "kind": "erratum",
                "probe": one.probe,
                "error": one.error,
                "was": was[one.probe],
                **({"relevant": [_judgement(each) for each in one.relevant]} if one.relevant is not None else {}),
                **({"answer": one.answer} if one.answer is not None else {}),
                "by": one.by,
                "reason": one.reason,
            }
            for one in self.entries
        ]


def _judgement(one: Judgement) -> dict[str, Any]:
    return {"memory": one.memory, "grade": one.grade}


def read_errata(path: Path, keys: Keys, golden: GoldenSet) -> Errata:
    """Read errata of a golden set, in the project's form or as the audit of LoCoMo is published.

    ``keys`` are those of the memories of each conversation.

    Raises :class:`UnusableInput`, with file and line, for an unknown probe or memory, for errata of another version of
    the set, and for two errata of one probe.
    """
    if path.suffix == ".json":
        found, elsewhere = _published(path, keys, golden)
    else:
        found, elsewhere = _own(path, keys, golden), 0
    twice = [name for name, count in Counter(one.probe for _, one in found).items() if count > 1]
    if twice:
        at = [where for where, one in found if one.probe == twice[0]][1]
        raise UnusableInput(f"{at}: a second erratum of {twice[0]}; join them")
    return Errata(path, tuple(one for _, one in found), elsewhere)


def corrected(golden: GoldenSet, errata: Errata) -> GoldenSet:
    """Return a golden set with its errata applied."""
    right = errata.corrections
    probes = tuple(_corrected(probe, right[probe.id]) if probe.id in right else probe for probe in golden.probes)
    return replace(golden, probes=probes)


def _corrected(probe: Probe, relevant: tuple[Judgement, ...]) -> Probe:
    keys = {one.memory for one in relevant}
    dropped = [one.memory for one in probe.relevant if one.memory not in keys]
    irrelevant = dict.fromkeys(key for key in (*probe.irrelevant, *dropped) if key not in keys)
    forbidden = tuple(one for one in probe.forbidden if one.memory not in keys)
    return replace(probe, relevant=relevant, irrelevant=tuple(irrelevant), forbidden=forbidden)


def _own(path: Path, keys: Keys, golden: GoldenSet) -> list[tuple[str, Erratum]]:
    probes = by_id(golden)
    found = []
    for number, line in read_json_lines(path):
        at = f"{path}:{number}"
        if line.get("kind") != "erratum":
            raise UnusableInput(f'{at}: "kind" must be "erratum"')
        if unknown := set(line) - _FIELDS:
            raise UnusableInput(f"{at}: an erratum has no field {min(unknown)!r}")
        name = field(line, "probe", str, at)
        if name not in probes:
            raise UnusableInput(f"{at}: the golden set has no probe {name!r}; errata of another version of the set?")
        probe = probes[name]
        was = [expect(key, str, f"{at}: was") for key in optional(line, "was", list, [], at)]
        if was and set(was) != set(probe.grades):
            raise UnusableInput(
                f"{at}: {name}: the set calls {_listed(probe.grades)} relevant, the erratum {_listed(was)}: errata of "
                "another version of the set"
            )
        relevant = None
        if "relevant" in line:
            relevant = tuple(
                Judgement(
                    _known(field(one, "memory", str, at), keys[probe.conversation], at),
                    optional(one, "grade", int, probe.grades.get(one["memory"], 1), at),
                )
                for one in expect(line["relevant"], list, f"{at}: relevant")
            )
        answer = optional(line, "answer", str, "", at) or None
        if relevant is None and answer is None:
            raise UnusableInput(f"{at}: neither relevant nor answer: what is right?")
        error, by = field(line, "error", str, at), field(line, "by", str, at)
        reason = optional(line, "reason", str, "", at)
        found.append((at, Erratum(name, error, relevant, answer, by, reason, _changes(probe, relevant))))
    return found


def _published(path: Path, keys: Keys, golden: GoldenSet) -> tuple[list[tuple[str, Erratum]], int]:
    """Read the audit of LoCoMo; return also how many of its entries have a question that the set lacks."""
    entries = expect(read_json(path), list, str(path))
    questions: dict[str, list[Probe]] = {}
    for probe in golden.probes:
        questions.setdefault(str(probe.query), []).append(probe)
    found, elsewhere, others = [], 0, list[str]()
    for number, entry in enumerate(entries):
        at = f"{path}: [{number}]"
        question = field(expect(entry, dict, at), "question", str, at)
        cited, right = (
            _ids(field(entry, name, list, at), f"{at}: {name}") for name in ("cited_evidence", "correct_evidence")
        )
        known = [
            probe
            for probe in questions.get(question, ())
            if set(probe.grades) == _named(cited, keys[probe.conversation])
        ]
        if not known:
            elsewhere += 1
            if question in questions and len(others) < 1:
                others.append(f"{at}: the set cites other evidence for {question[:60]!r} than {', '.join(cited)}")
            continue
        probe = known[0]
        relevant = None
        answer = str(entry["correct_answer"]) if entry.get("correct_answer") != entry.get("golden_answer") else None
        # Evidence that the reader of the set repairs is named, though nothing changes.
        if set(right) != set(cited) or answer is None:
            lost = [one for one in right if not _named([one], keys[probe.conversation])]
            if lost:
                raise UnusableInput(f"{at}: correct_evidence: {lost[0]} is no turn of {probe.conversation}")
            relevant = tuple(Judgement(key) for one in right for key in _named([one], keys[probe.conversation]))
        error, reason = field(entry, "error_type", str, at).lower(), field(entry, "reasoning", str, at)
        found.append((at, Erratum(probe.id, error, relevant, answer, AUDIT, reason, _changes(probe, relevant))))
    # Two people may ask the same question, so a single one proves nothing.
    if others and len(found) < elsewhere:
        raise UnusableInput(f"{others[0]}: errata of another version of the set, or its memories are no turns")
    return found, elsewhere


def _changes(probe: Probe, relevant: tuple[Judgement, ...] | None) -> bool:
    return relevant is not None and {one.memory: one.grade for one in relevant} != probe.grades


def _ids(evidence: Iterable[Any], at: str) -> list[str]:
    """Return the ids of turns in evidence, as the reader of the set repairs them."""
    texts = [expect(text, str, at) for text in evidence]
    return list(dict.fromkeys(f"D{one[1]}:{one[2]}" for text in texts for one in _EVIDENCE.finditer(text)))


def _named(ids: Iterable[str], keys: Collection[str]) -> set[str]:
    """Return the keys of the memories of some turns."""
    ends = tuple(f"/{one}#0" for one in ids)
    return {key for key in keys if key.endswith(ends)} if ends else set()


def _known(key: str, keys: Collection[str], at: str) -> str:
    if key not in keys:
        raise UnusableInput(f"{at}: relevant: the conversation has no memory {key!r}")
    return key


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(sorted(keys)) or "nothing"
