"""Merge the judgements of a writer and two judges, with the settled disagreements, into one golden set.

python tests/trials/merge_judges.py WRITER SECOND THIRD --settled SETTLED.jsonl --out FOLDER

WRITER, SECOND and THIRD are golden sets: folders, or files. FOLDER receives one file for each conversation, and is
never overwritten. A line of SETTLED decides one disagreement; other fields, such as the votes, are ignored:

    {"turn": PROBE, "memory": KEY, "what": "relevant" | "forbidden", "settled": 0 | 1 | 2, "why": TEXT}

* **Votes.** Each set that has the probe votes twice on a memory: what its grade is (0, 1 or 2), and whether it is
  forbidden. A memory that a set does not list has the vote 0 if the set lists no irrelevant memory of that probe and
  the memory is not one of a haystack: such a set judges whole conversations. Otherwise the set has not judged it.
* **Result.** Equal votes hold, and a settled line decides, whatever the votes. A memory of grade 0 that is not
  forbidden is irrelevant if a set or a settled line names it. Everything else of a probe is the writer's.
* **Reasons.** A judgement keeps the writer's reason if the writer lists it so, or else the first judge's who does; or
  else that of the settled line.

Exit code 1, with the list, while a disagreement is not settled; nothing is written then. Equal input gives equal bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import LabError, UnusableInput
from lab.base.files import read_json_lines
from lab.base.shape import field, optional
from lab.golden.files import golden_bytes, read_golden, write_new_folder
from lab.golden.model import FORBIDDEN, GoldenSet, Judgement, Probe, by_id, is_added, marks

RELEVANT = "relevant"
MOST = {RELEVANT: 2, FORBIDDEN: 1}
NAMES = ("writer", "second", "third")


class Settled(NamedTuple):
    """How a disagreement was decided: the grade, or 1 for forbidden, and why."""

    value: int
    why: str


class Item(NamedTuple):
    """What is voted on: a memory of a probe, and whether on its relevance or on its being forbidden."""

    probe: str
    memory: str
    what: str


class Merged(NamedTuple):
    """The merged set, and the disagreements that are not settled with the votes, None for a set without one."""

    golden: GoldenSet
    open: dict[Item, tuple[int | None, ...]]


def read_settled(path: Path) -> dict[Item, Settled]:
    """Read the settled disagreements. Raises :class:`UnusableInput`, which names the line."""
    settled: dict[Item, Settled] = {}
    for number, line in read_json_lines(path):
        at = f"{path}:{number}"
        item = Item(*(field(line, name, str, at) for name in ("turn", "memory", "what")))
        value = field(line, "settled", int, at)
        if item.what not in MOST:
            raise UnusableInput(f'{at}: "what" must be "relevant" or "forbidden", not {item.what!r}')
        if not 0 <= value <= MOST[item.what]:
            raise UnusableInput(
                f"{at}: settled {value} of {item.what} is not a whole number from 0 to {MOST[item.what]}"
            )
        if item in settled:
            raise UnusableInput(f"{at}: {item.memory} at {item.probe} is settled twice as {item.what}")
        settled[item] = Settled(value, optional(line, "why", str, "", at))
    return settled


def merge(sets: Sequence[GoldenSet], settled: Mapping[Item, Settled]) -> Merged:
    """Return the merged golden set of a writer and the judges after it (see the module's docstring).

    Raises :class:`UnusableInput` for a probe that the writer does not have, and for a memory that is settled as both
    relevant and forbidden.
    """
    writer, *judges = (by_id(golden) for golden in sets)
    named: dict[str, list[str]] = {}
    for probe in [name for judge in judges for name in judge] + [item.probe for item in settled]:
        if probe not in writer:
            raise UnusableInput(f"probe {probe}: was judged or settled, but the writer's set does not have it")
    for item in settled:
        named.setdefault(item.probe, []).append(item.memory)
    unsettled: dict[Item, tuple[int | None, ...]] = {}
    merged = [
        _merge_probe([judge.get(name) for judge in (writer, *judges)], named.get(name, ()), settled, unsettled)
        for name in writer
    ]
    return Merged(GoldenSet(tuple(merged)), unsettled)


def _merge_probe(
    probes: Sequence[Probe | None],
    named: Sequence[str],
    settled: Mapping[Item, Settled],
    unsettled: dict[Item, tuple[int | None, ...]],
) -> Probe:
    writer = probes[0]
    assert writer is not None
    listed = [marks(probe) if probe else {} for probe in probes]
    relevant, forbidden, irrelevant = list[Judgement](), list[Judgement](), list[str]()
    for key in dict.fromkeys((*(key for known in listed for key in known), *named)):
        mark = [_mark(probe, known, key) for probe, known in zip(probes, listed, strict=True)]
        decided: dict[str, int] = {}
        for what in (RELEVANT, FORBIDDEN):
            item, votes = Item(writer.id, key, what), tuple(_vote(one, what) for one in mark)
            given = {vote for vote in votes if vote is not None}
            if item in settled:
                decided[what] = settled[item].value
            elif len(given) == 1:
                (decided[what],) = given
            else:
                unsettled[item] = votes
                decided[what] = 0
        grade = decided[RELEVANT]
        if grade and decided[FORBIDDEN]:
            raise UnusableInput(
                f"probe {writer.id}: {key} would be both relevant and forbidden; settle one of them as 0"
            )
        if grade:
            relevant.append(Judgement(key, grade, _reason(probes, RELEVANT, key, settled)))
        elif decided[FORBIDDEN]:
            forbidden.append(Judgement(key, 1, _reason(probes, FORBIDDEN, key, settled)))
        else:
            irrelevant.append(key)
    return replace(writer, relevant=tuple(relevant), forbidden=tuple(forbidden), irrelevant=tuple(sorted(irrelevant)))


def _mark(probe: Probe | None, known: Mapping[str, str], key: str) -> str | None:
    """Return the mark that a set gives a memory; None if it has not judged it."""
    if probe is None or key in known or probe.irrelevant or is_added(key):
        return known.get(key)
    return "0"


def _vote(mark: str | None, what: str) -> int | None:
    if mark is None:
        return None
    return int(mark == FORBIDDEN) if what == FORBIDDEN else 0 if mark == FORBIDDEN else int(mark)


def _reason(probes: Sequence[Probe | None], what: str, key: str, settled: Mapping[Item, Settled]) -> str:
    for probe in probes:
        for judgement in (probe.relevant if what == RELEVANT else probe.forbidden) if probe else ():
            if judgement.memory == key and judgement.reason:
                return judgement.reason
    probe = probes[0]
    decision = settled.get(Item(probe.id, key, what)) if probe else None
    return decision.why if decision else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in NAMES:
        parser.add_argument(name, type=Path)
    parser.add_argument("--settled", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        merged = merge([read_golden(getattr(given, name)) for name in NAMES], read_settled(given.settled))
        if merged.open:
            for item, votes in merged.open.items():
                said = ", ".join(
                    f"{name} {'–' if vote is None else vote}" for name, vote in zip(NAMES, votes, strict=True)
                )
                print(f"{item.probe}  {item.memory}  {item.what}: {said}")
            print(f"error: {len(merged.open)} disagreements are not settled in {given.settled}", file=sys.stderr)
            return 1
        probes: dict[str, list[Probe]] = {}
        for probe in merged.golden.probes:
            probes.setdefault(probe.conversation, []).append(probe)
        write_new_folder(given.out, {f"{name}.jsonl": golden_bytes(of) for name, of in probes.items()})
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    kinds = (RELEVANT, FORBIDDEN, "irrelevant")
    counts = [f"{sum(len(getattr(probe, kind)) for probe in merged.golden.probes)} {kind}" for kind in kinds]
    print(f"{given.out}: {len(merged.golden.probes)} probes; {', '.join(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
