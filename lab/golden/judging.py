"""A judge's work on a pool (the memories to judge, by turn): the decisions, and the golden set that results.

The decisions are stored in a side file (``NAME.judging`` beside ``NAME.jsonl``), which is written after each decision.
Everything else is derived from them: the marks of a turn, its unjudged memories, and the golden set. Undo removes the
last decision.

    {"kind": "judging", "schema": "lab.judging.v1", "judge": NAME, "pool": SHA256, "golden": [SHA256, SHA256],
     "unjudged": {TURN: [KEY, …]}}
    {"turn": KEY, "what": "grade", "memory": KEY, "value": "2"}
    {"turn": KEY, "what": "rest", "refused": [KEY, …]}

The kinds of decisions are:

* ``grade``: a memory is graded 0, 1, 2 or f (forbidden);
* ``note``: the reason for the grade of a memory;
* ``reason``: the reason for the judgement of the turn;
* ``add``: a memory that no arm pooled is added;
* ``done``: the turn is finished, with its type; memories without a grade stay unjudged;
* ``rest``: the remaining memories without a grade are not relevant;
* ``nothing``: the turn needs no memory, so every memory that is not forbidden is graded 0;
* ``skip``: the turn is skipped.

``rest`` and ``nothing`` list the memories that they grade 0, because the judge has not seen memories that are pooled
later. ``golden`` holds the SHA-256 of the golden set before and after the last write. A golden set that matches neither
was edited by hand and is not overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json_lines, sha256_file, write_atomically
from lab.base.shape import field as field_of
from lab.base.shape import optional
from lab.golden.files import golden_bytes
from lab.golden.model import NOTHING, Aside, GoldenSet, Judgement, Probe, capture_id, marks
from lab.golden.pool import Pool

SCHEMA, ENDING = "lab.judging.v1", ".judging"
NO, FORBIDDEN = "0", "f"
GRADES = (NO, "1", "2", FORBIDDEN)
ABOUT_A_MEMORY = ("grade", "note", "add")
REFUSING = ("rest", "nothing")
KINDS = (*ABOUT_A_MEMORY, *REFUSING, "reason", "done", "skip")


class Decision(NamedTuple):
    """One decision of a judge.

    ``what`` is one of :data:`KINDS`. ``value`` is a grade, a note, a reason, or the type of a finished turn.
    ``refused`` lists the memories that the decision grades 0.
    """

    turn: str
    what: str
    memory: str = ""
    value: str = ""
    refused: tuple[str, ...] = ()


@dataclass(slots=True)
class Sheet:
    """The decisions on one turn.

    ``items`` lists the memories to judge. ``marks`` and ``notes`` map memories to grades and to the reasons for them.
    ``type`` and ``reason`` are those of the turn. ``state`` is ``open``, ``done`` or ``skipped``.
    """

    turn: str
    items: list[str]
    marks: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    type: str = ""
    state: str = "open"

    @property
    def conversation(self) -> str:
        """The conversation of the turn."""
        return self.turn.split("/")[0]

    @property
    def unjudged(self) -> list[str]:
        """Memories without a grade."""
        return [key for key in self.items if key not in self.marks]

    @property
    def relevant(self) -> list[str]:
        """Memories of grade 2, then those of grade 1."""
        return [key for grade in ("2", "1") for key in self.items if self.marks.get(key) == grade]

    def take(self, decision: Decision) -> None:
        """Apply a decision."""
        memory, value = decision.memory, decision.value
        # A pool that was rebuilt with less depth may lack a judged memory; its judgement is kept.
        if memory and memory not in self.items:
            self.items.append(memory)
        if decision.what == "grade":
            self.marks[memory] = value
            if self.state == "skipped" or (self.type == NOTHING and self.relevant):
                self.type, self.state = "", "open"
        elif decision.what == "note":
            self.notes[memory] = value
        elif decision.what == "reason":
            self.reason = value
        elif decision.what in REFUSING:
            self.marks |= dict.fromkeys(decision.refused, NO)
        if decision.what == "nothing":
            self.type, self.state = NOTHING, "done"
        elif decision.what == "done":
            self.type, self.state = value, "done"
        elif decision.what == "skip":
            self.state = "skipped"

    def probe(self, *, capture: bool = False) -> Probe:
        """Return the turn as a probe of a golden set, or its candidates as a capture."""
        forbidden = [key for key in self.items if self.marks.get(key) == FORBIDDEN]
        return Probe(
            capture_id(self.turn) if capture else self.turn,
            self.conversation,
            self.turn,
            None,
            tuple(Judgement(key, int(self.marks[key]), self.notes.get(key, "")) for key in self.relevant),
            tuple(Judgement(key, 1, self.notes.get(key, "")) for key in forbidden),
            {} if capture else {"type": self.type},
            self.reason,
            tuple(key for key in self.items if self.marks.get(key) == NO),
            capture,
        )


class Judging:
    """A judge's decisions on a pool. Every change is saved before the method returns."""

    def __init__(self, pool: Pool, out: Path, judge: str, decisions: Iterable[Decision] = ()) -> None:
        self.pool = pool
        self.out = out
        self.judge = judge
        self.decisions = list(decisions)
        self._sheets: dict[str, Sheet] | None = None
        self._written = _state(out)

    def sheet(self, turn: str) -> Sheet:
        """Return the decisions on a turn so far."""
        return self._sheets_by_turn()[turn]

    def sheets(self) -> list[Sheet]:
        """Return the sheets of all turns in the order of the pool."""
        return list(self._sheets_by_turn().values())

    def _sheets_by_turn(self) -> dict[str, Sheet]:
        """Return the sheets that result from the decisions, cached until the next decision."""
        if self._sheets is None:
            self._sheets = {turn.turn: Sheet(turn.turn, list(turn.keys)) for turn in self.pool.turns}
            for decision in self.decisions:
                self._sheets[decision.turn].take(decision)
        return self._sheets

    def decide(self, decision: Decision) -> None:
        """Apply a decision and save it."""
        self.decisions.append(decision)
        self._sheets = None
        self.save()

    def undo(self) -> Decision | None:
        """Remove the last decision and return it, or return None if there is none."""
        if not self.decisions:
            return None
        last = self.decisions.pop()
        self._sheets = None
        self.save()
        return last

    def save(self) -> None:
        """Write the side file, then the golden set.

        If the process is killed between the two writes, the next start writes the golden set.
        """
        done = [sheet for sheet in self.sheets() if sheet.state == "done"]
        golden = golden_bytes(sheet.probe(capture=self.pool.captures) for sheet in done)
        after = sha256(golden).hexdigest()
        header = {
            "kind": "judging",
            "schema": SCHEMA,
            "judge": self.judge,
            "pool": sha256(self.pool.as_bytes()).hexdigest(),
            "golden": [self._written, after],
            "unjudged": {sheet.turn: sheet.unjudged for sheet in done if sheet.unjudged},
            "open": [sheet.turn for sheet in self.sheets() if sheet.state != "done"],
        }
        lines: list[dict[str, Any]] = [header]
        lines += [{name: value for name, value in decision._asdict().items() if value} for decision in self.decisions]
        write_atomically(side_file(self.out), b"".join(dump_json(line, indent=None) for line in lines))
        write_atomically(self.out, golden)
        self._written = after

    def progress(self) -> dict[str, Any]:
        """Return the counts of turns and judgements so far."""
        sheets = self.sheets()
        done = [sheet for sheet in sheets if sheet.state == "done"]
        return {
            "judge": self.judge,
            "turns": len(sheets),
            "done": len(done),
            "skipped": sum(sheet.state == "skipped" for sheet in sheets),
            "open": sum(sheet.state == "open" for sheet in sheets),
            "judgements": sum(len(sheet.marks) for sheet in done),
            "relevant": sum(len(sheet.relevant) for sheet in done),
            "unjudged": sum(len(sheet.unjudged) for sheet in done),
        }


def side_file(golden: Path) -> Path:
    """Return the path of the side file of a golden set."""
    return golden.with_suffix(ENDING)


def open_judging(pool: Pool, out: Path, judge: str) -> Judging:
    """Start a judge's work or resume it.

    The pool may have grown since. Raises :class:`UnusableInput` if ``out`` is a golden set without a side file or
    was edited since, or if the side file belongs to another judge or names turns that the pool does not have.
    """
    if out.suffix != ".jsonl":
        raise UnusableInput(f"{out}: the name of a golden set must end in .jsonl")
    side = side_file(out)
    if not side.exists():
        if out.exists():
            raise UnusableInput(f"{out}: already exists, without {side.name}; choose another --out")
        return Judging(pool, out, judge)
    name, decisions, states, *_ = read_decisions(side)
    if name != judge:
        raise UnusableInput(f"{side}: belongs to judge {name!r}; to judge as {judge}, choose another --out")
    if states and out.exists() and _state(out) not in states:
        raise UnusableInput(
            f"{out}: was edited after judging, and continuing would overwrite the edits; to continue from {side.name}, "
            "move the file away, or choose another --out"
        )
    known = {turn.turn for turn in pool.turns}
    unknown_turns = sorted({decision.turn for decision in decisions} - known)
    if unknown_turns:
        raise UnusableInput(
            f"{side}: judges {unknown_turns[0]}, which is not in this pool; use the pool that was judged"
        )
    return Judging(pool, out, judge, decisions)


class SideFile(NamedTuple):
    """The content of a side file.

    ``states`` holds the SHA-256 values that the golden set may have; ``unjudged`` holds the ungraded memories by turn,
    ``open`` the turns of the pool that are not judged yet.
    """

    judge: str
    decisions: list[Decision]
    states: list[str]
    unjudged: dict[str, list[str]]
    open: list[str]


def read_decisions(path: Path) -> SideFile:
    """Read a side file. Raises :class:`UnusableInput` for a damaged file."""
    lines = list(read_json_lines(path))
    if not lines or lines[0][1].get("schema") != SCHEMA:
        raise UnusableInput(f"{path}: is not a side file of schema {SCHEMA}")
    header, at = lines[0][1], f"{path}:1"
    return SideFile(
        field_of(header, "judge", str, at),
        [_decision(line, f"{path}:{number}") for number, line in lines[1:]],
        optional(header, "golden", list, [], at),
        optional(header, "unjudged", dict, {}, at),
        optional(header, "open", list, [], at),
    )


def aside(golden: Path) -> Aside:
    """Read the side files of a golden set, a file or a folder, and merge the judgements of several judges.

    A missing side file is skipped. Raises :class:`UnusableInput` for a damaged one.
    """
    files = sorted(golden.glob(f"*{ENDING}")) if golden.is_dir() else [side_file(golden)]
    beside = Aside({}, {})
    for file in files:
        if not file.is_file():
            continue
        side = read_decisions(file)
        sheets: dict[str, Sheet] = {}
        for decision in side.decisions:
            sheets.setdefault(decision.turn, Sheet(decision.turn, [])).take(decision)
        for turn, sheet in sheets.items():
            beside.refused.setdefault(turn, set()).update(key for key, mark in sheet.marks.items() if mark == NO)
        beside = beside._replace(open=tuple(dict.fromkeys((*beside.open, *map(str, side.open)))))
        for turn, keys in side.unjudged.items():
            beside.unjudged.setdefault(turn, set()).update(map(str, keys))
    return beside


def judged_keys(golden: GoldenSet, beside: Aside) -> dict[str, set[str]]:
    """Return all memories that were judged for each probe, in a golden set or in the side files beside it."""
    return {probe.id: {*marks(probe), *beside.refused.get(probe.id, ())} for probe in golden.judged}


def _state(golden: Path) -> str:
    """Return the SHA-256 of a golden set, or "" if it does not exist."""
    return sha256_file(golden) if golden.is_file() else ""


def _decision(line: dict[str, Any], at: str) -> Decision:
    decision = Decision(
        field_of(line, "turn", str, at),
        field_of(line, "what", str, at),
        optional(line, "memory", str, "", at),
        optional(line, "value", str, "", at),
        tuple(map(str, optional(line, "refused", list, [], at))),
    )
    if decision.what not in KINDS or (decision.what == "grade" and decision.value not in GRADES):
        raise UnusableInput(f"{at}: invalid decision: {decision.what} {decision.value}".rstrip())
    if (decision.what in ABOUT_A_MEMORY) != bool(decision.memory):
        raise UnusableInput(
            f"{at}: a decision {decision.what!r} must {'name a' if not decision.memory else 'not name a'} memory"
        )
    return decision
