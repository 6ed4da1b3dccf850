"""The work of one judge on a pool: decisions in their order, and the golden set that they come to.

What a judge has done is the list of decisions, kept in a file beside the golden set (``NAME.judging`` beside
``NAME.jsonl``) that is written after each of them. Everything else follows from it: the marks of a turn, what was left
unjudged, the golden set. To undo is to take the last one away.

    {"kind": "judging", "schema": "lab.judging.v1", "judge": NAME, "pool": SHA256, "golden": [SHA256, SHA256],
     "unjudged": {TURN: [KEY, …]}}
    {"turn": KEY, "what": "grade", "memory": KEY, "value": "2"}
    {"turn": KEY, "what": "rest", "refused": [KEY, …]}

A decision is one of: ``grade`` (0, 1, 2 or f), ``note`` (why, of a memory), ``reason`` (of the turn), ``add`` (a memory
that no arm pooled), ``done`` (with the type of the turn; what has no grade stays unjudged), ``rest`` (what had no grade
yet is not relevant), ``nothing`` (the turn needs nothing, so all that is not forbidden is 0) and ``skip``. The last two
but one name the memories that they refuse: one that is pooled later was not looked at. ``golden`` is the golden set
before it was last written, and after: a set that is neither was edited by somebody, and is not written over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from lab.errors import UnusableInput
from lab.files import dump_json, read_json_lines, sha256_file, write_atomically
from lab.golden.model import NOTHING, Judgement, Probe
from lab.golden.pool import Pool
from lab.golden.write import golden_bytes
from lab.shape import field as field_of
from lab.shape import optional

SCHEMA, ENDING = "lab.judging.v1", ".judging"
NO, FORBIDDEN = "0", "f"
GRADES = (NO, "1", "2", FORBIDDEN)
ABOUT_A_MEMORY = ("grade", "note", "add")
REFUSING = ("rest", "nothing")
KINDS = (*ABOUT_A_MEMORY, *REFUSING, "reason", "done", "skip")


class Decision(NamedTuple):
    """One thing that a judge decided."""

    turn: str
    what: str
    memory: str = ""
    value: str = ""
    refused: tuple[str, ...] = ()


@dataclass(slots=True)
class Sheet:
    """What was decided of one turn. ``state`` is open, done or skipped."""

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
        """Memories of grade 1 or 2, the needed ones first."""
        return [key for grade in ("2", "1") for key in self.items if self.marks.get(key) == grade]

    def take(self, decision: Decision) -> None:
        """Let one decision have its effect."""
        memory, value = decision.memory, decision.value
        # Of a pool that was made anew, less deep: what was judged is not lost for it.
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

    def probe(self) -> Probe:
        """The turn as a probe of a golden set."""
        forbidden = [key for key in self.items if self.marks.get(key) == FORBIDDEN]
        return Probe(
            self.turn,
            self.conversation,
            self.turn,
            None,
            tuple(Judgement(key, int(self.marks[key]), self.notes.get(key, "")) for key in self.relevant),
            tuple(Judgement(key, 1, self.notes.get(key, "")) for key in forbidden),
            {"type": self.type},
            self.reason,
        )


class Judging:
    """A judge's decisions on a pool. Every change is on disk before it is seen."""

    def __init__(self, pool: Pool, out: Path, judge: str, decisions: Iterable[Decision] = ()) -> None:
        self.pool = pool
        self.out = out
        self.judge = judge
        self.decisions = list(decisions)
        self._made: dict[str, Sheet] | None = None
        self._written = _state(out)

    def sheet(self, turn: str) -> Sheet:
        """What was decided of a turn so far."""
        return self._by_turn()[turn]

    def sheets(self) -> list[Sheet]:
        """All turns in the order of the pool."""
        return list(self._by_turn().values())

    def _by_turn(self) -> dict[str, Sheet]:
        """The sheets that the decisions come to, made anew after each; a screen asks for them many times."""
        if self._made is None:
            self._made = {turn.turn: Sheet(turn.turn, list(turn.keys)) for turn in self.pool.turns}
            for decision in self.decisions:
                self._made[decision.turn].take(decision)
        return self._made

    def decide(self, decision: Decision) -> None:
        """Take a decision and keep it."""
        self.decisions.append(decision)
        self._made = None
        self.save()

    def undo(self) -> Decision | None:
        """Take the last decision back and return it; None where there is none."""
        if not self.decisions:
            return None
        last = self.decisions.pop()
        self._made = None
        self.save()
        return last

    def save(self) -> None:
        """Write the decisions, then the golden set that follows from them.

        Killed between the two, the next start writes the second.
        """
        done = [sheet for sheet in self.sheets() if sheet.state == "done"]
        golden = golden_bytes(sheet.probe() for sheet in done)
        after = sha256(golden).hexdigest()
        header = {
            "kind": "judging",
            "schema": SCHEMA,
            "judge": self.judge,
            "pool": sha256(self.pool.as_bytes()).hexdigest(),
            "golden": [self._written, after],
            "unjudged": {sheet.turn: sheet.unjudged for sheet in done if sheet.unjudged},
        }
        lines: list[dict[str, Any]] = [header]
        lines += [{name: one for name, one in decision._asdict().items() if one} for decision in self.decisions]
        write_atomically(side_file(self.out), b"".join(dump_json(line, indent=None) for line in lines))
        write_atomically(self.out, golden)
        self._written = after

    def progress(self) -> dict[str, Any]:
        """How far it is, as plain values."""
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
    """Where the decisions behind a golden set are."""
    return golden.with_suffix(ENDING)


def open_judging(pool: Pool, out: Path, judge: str) -> Judging:
    """Begin a judge's work, or go on with it.

    A pool that has grown is welcome. Raises :class:`UnusableInput` where ``out`` is a golden set that was not made so,
    or was edited since, or the work is another judge's, or is about turns that the pool does not have.
    """
    if out.suffix != ".jsonl":
        raise UnusableInput(f"{out}: a golden set needs a name that ends in .jsonl")
    side = side_file(out)
    if not side.exists():
        if out.exists():
            raise UnusableInput(f"{out}: is there already, without {side.name}; choose another --out")
        return Judging(pool, out, judge)
    name, decisions, states, _ = read_decisions(side)
    if name != judge:
        raise UnusableInput(f"{side}: is the work of judge {name!r}; with --judge {judge} choose another --out")
    if states and out.exists() and _state(out) not in states:
        raise UnusableInput(
            f"{out}: was edited since it was judged, which going on would undo; move it away to go on from {side.name} "
            "alone, or choose another --out"
        )
    known = {turn.turn for turn in pool.turns}
    lost = sorted({decision.turn for decision in decisions} - known)
    if lost:
        raise UnusableInput(f"{side}: judges {lost[0]}, which this pool does not have; was it made of another pool?")
    return Judging(pool, out, judge, decisions)


class Kept(NamedTuple):
    """What a side file holds.

    The judge, the decisions, the states that the golden set may be in, and by turn what was left without a grade.
    """

    judge: str
    decisions: list[Decision]
    states: list[str]
    unjudged: dict[str, list[str]]


def read_decisions(path: Path) -> Kept:
    """Read a side file; :class:`UnusableInput` for one that is damaged."""
    lines = list(read_json_lines(path))
    if not lines or lines[0][1].get("schema") != SCHEMA:
        raise UnusableInput(f"{path}: is no judging of schema {SCHEMA}")
    header, at = lines[0][1], f"{path}:1"
    return Kept(
        field_of(header, "judge", str, at),
        [_decision(line, f"{path}:{number}") for number, line in lines[1:]],
        optional(header, "golden", list, [], at),
        optional(header, "unjudged", dict, {}, at),
    )


class Aside(NamedTuple):
    """What side files know and a golden set does not tell, by turn: what is not relevant, and what nobody graded."""

    refused: dict[str, set[str]]
    unjudged: dict[str, set[str]]


def aside(golden: Path) -> Aside:
    """Read what lies beside a golden set; of several judges, all that any of them refused or left."""
    files = sorted(golden.glob(f"*{ENDING}")) if golden.is_dir() else [side_file(golden)]
    found = Aside({}, {})
    for file in files:
        if not file.is_file():
            continue
        kept = read_decisions(file)
        sheets: dict[str, Sheet] = {}
        for decision in kept.decisions:
            sheets.setdefault(decision.turn, Sheet(decision.turn, [])).take(decision)
        for turn, sheet in sheets.items():
            found.refused.setdefault(turn, set()).update(key for key, mark in sheet.marks.items() if mark == NO)
        for turn, keys in kept.unjudged.items():
            found.unjudged.setdefault(turn, set()).update(map(str, keys))
    return found


def _state(golden: Path) -> str:
    """The sha256 of a golden set; of one that is not there, nothing."""
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
        raise UnusableInput(f"{at}: no decision of a judge: {decision.what} {decision.value}".rstrip())
    if (decision.what in ABOUT_A_MEMORY) != bool(decision.memory):
        raise UnusableInput(f"{at}: a decision {decision.what!r} {'lacks' if not decision.memory else 'has'} a memory")
    return decision
