"""The turns that changed: those whose hit was gained or lost and those of a harm, with what both arms injected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple
from urllib.parse import urlencode

from lab.base.set_registry import is_shipped
from lab.compare.paired import Comparison
from lab.replay.explain import RecordedConversation
from lab.replay.receipts import listed, marks_of
from lab.report.contrasts import Changed
from lab.report.explanation import Again
from lab.report.material import receipt_rows
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from lab.runs.tables import ITEMS

SHOWN = 12


class Side(NamedTuple):
    """One arm at a turn: its explanation, or None, and the command that prints it."""

    arm: str
    text: str | None
    command: str


class Flip(NamedTuple):
    """One turn whose hit was gained or lost; the arm that missed comes first."""

    turn: str
    sides: tuple[Side, Side]


class Flips(NamedTuple):
    """The first gained or lost turns, how many more there are, and the command that lists all."""

    name: str
    turns: tuple[Flip, ...]
    total: int
    more: int
    command: str


class Flipped(NamedTuple):
    """Gained and lost turns; ``problem`` says why there are no explanations."""

    sides: tuple[Flips, ...]
    problem: str | None = None


def flipped(
    run: RunDirectory,
    comparison: Comparison,
    *,
    with_text: bool,
    most: int = SHOWN,
    folder: str = "DIR",
    again: Again | None = None,
) -> Flipped:
    """Return the first ``most`` gained and lost turns, explained if the run's recordings can be read unchanged.

    Commands name the run ``folder``. ``with_text`` includes the texts of turns and memories. ``again`` explains them.
    """
    again = again or Again(run)
    arms = {"Gained": (comparison.baseline, comparison.candidate), "Lost": (comparison.candidate, comparison.baseline)}
    changed = {"Gained": comparison.gained, "Lost": comparison.lost}
    wanted = [(key, arm) for name, keys in changed.items() for key in keys[:most] for arm in arms[name]]
    texts = again.explanations(wanted, with_text=with_text)
    sides = []
    for name, keys in changed.items():
        turns = []
        for key in keys[:most]:
            first, second = (
                Side(arm, texts.get((key, arm)), join(["lab", "explain", folder, key, "--arm", arm]))
                for arm in arms[name]
            )
            turns.append(Flip(key, (first, second)))
        command = [
            "lab",
            "compare",
            folder,
            "--baseline",
            comparison.baseline,
            "--candidate",
            comparison.candidate,
            "--json",
        ]
        sides.append(Flips(name, tuple(turns), len(keys), len(keys) - len(turns), join(command)))
    return Flipped(tuple(sides), again.problem)


ROWS = ("arm", "turn", "injected", "pinned", *(f"item_{name}" for name in ITEMS))
# The names that golden sets use for the slice of a probe's type.
PROBE_TYPES = ("type", "ability", "category", "category_name")
# Where `lab view` listens unless --port says otherwise.
VIEWER = "http://127.0.0.1:8642/turn"


class Shown(NamedTuple):
    """A memory: its rank, key and label, what the golden set says of it, and its text if texts are shown."""

    rank: int | None
    key: str
    label: str
    mark: str = ""
    text: str | None = None


class Card(NamedTuple):
    """One turn: ``relevant`` and ``misleading`` say where each arm had the memory; ``lists`` what each arm injected."""

    turn: str
    about: str
    asked: str | None
    relevant: Sequence[tuple[Shown, str]]
    misleading: Sequence[tuple[Shown, str]]
    lists: Sequence[tuple[str, Sequence[Shown]]]
    sides: Sequence[Side]
    viewer: str


class Group(NamedTuple):
    """Turns that changed in one way: the first ones as cards, how many there are, and the command that lists all."""

    id: str
    name: str
    note: str
    cards: Sequence[Card]
    total: int
    command: str


def shows_texts(run: RunDirectory, with_text: bool | None) -> bool:
    """Return whether a report shows texts: as asked, else only if every text is one that the project ships."""
    if with_text is not None:
        return with_text
    asked = run.manifest.asked
    return (
        is_shipped(Path(str(asked.get("path", ""))))
        and run.manifest.resolved.memories_from is None
        and not asked.get("haystack_from")
        and not any("=" in str(arm) for arm in _listed(asked.get("arms")))
    )


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()


def groups_of(
    run: RunDirectory,
    comparison: Comparison,
    flips: Flipped | None,
    harms: Sequence[Changed],
    *,
    with_text: bool,
    most: int,
    again: Again,
) -> list[Group]:
    """Return the turns at which a harm rose, then those whose hit was lost, then those whose hit was gained."""
    candidate = comparison.candidate
    reader = _Reader(run, with_text, again, {comparison.baseline, candidate, *(harm.baseline for harm in harms)})
    groups: list[Group] = []
    for harm in harms:
        pair = harm.baseline, candidate
        cards = [reader.card(key, pair, [_side(arm, key) for arm in pair]) for key in harm.worse[:most]]
        total = len(harm.worse)
        turns = f"{total:,} turn{'' if total == 1 else 's'}"
        note = f"{candidate} is worse at {turns} and better at {harm.better:,}."
        name = f"{harm.measure} worse than {harm.baseline}: {turns}"
        found = [card for card in cards if card]
        groups.append(Group(f"worse-{len(groups) + 1}", name, note, found, total, _all(comparison, total)))
    pair = comparison.baseline, candidate
    for side in sorted(flips.sides if flips else (), key=lambda side: side.name != "Lost"):
        cards = [reader.card(flip.turn, pair, flip.sides) for flip in side.turns]
        name = f"{side.name} hits: {side.total:,} probe{'' if side.total == 1 else 's'}"
        if side.total:
            found = [card for card in cards if card]
            groups.append(Group(side.name.lower(), name, "", found, side.total, side.command))
    return groups


def _side(arm: str, key: str) -> Side:
    return Side(arm, None, join(["lab", "explain", "DIR", key, "--arm", arm, "--with-text"]))


def _all(comparison: Comparison, total: int) -> str:
    """Return the command that shows all turns of a group, because no table lists the turns of a harm."""
    arms = ["--baseline", comparison.baseline, "--candidate", comparison.candidate]
    return join(["lab", "report", "DIR", *arms, "--turns", str(total)])


class _Reader:
    """Reads the receipts and recordings of the turns that are shown, one conversation at a time."""

    def __init__(self, run: RunDirectory, with_text: bool, again: Again, arms: Collection[str]) -> None:
        self._run, self._with_text, self._again, self._arms = run, with_text, again, arms
        self._gold = read_gold(run)
        self._rows: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self._recorded: dict[str, RecordedConversation] = {}

    def card(self, key: str, pair: tuple[str, str], sides: Sequence[Side]) -> Card | None:
        """Return the card of one turn; None if its key names no conversation of the run."""
        conversation = self._conversation(key)
        if conversation is None:
            return None
        rows = self._of(conversation)
        recorded = self._recording(conversation)
        gold, point = self._gold.get(key), recorded.recall_points.get(key) if recorded else None
        texts = recorded.texts if recorded and self._with_text else {}
        ranks: dict[tuple[str, str], int] = {}
        lists = []
        for arm in pair:
            row = rows.get((arm, key))
            items = [listed(row, rank) for rank in range(row["injected"])] if row else []
            keys = [item.key for item in items]
            shown = []
            for rank, item in enumerate(items, 1):
                before = (*row["pinned"], *keys[: rank - 1]) if row else ()
                safety = recorded.safety_checks.marks(item.key, point.seq, before) if recorded and point else ()
                judged = (gold.forbidden, gold.grades) if gold else None
                marks = marks_of(item.key, judged, (None, None), safety)
                shown.append(Shown(rank, item.key, item.label or "", next(iter(marks), ""), texts.get(item.key)))
                ranks[arm, item.key] = rank
            lists.append((arm, shown))
        about = next((gold.slices[name] for name in PROBE_TYPES if gold and name in gold.slices), "")
        link = {"conversation": conversation, "turn": key, "base": pair[0], "cand": pair[1]}
        return Card(
            key,
            about,
            point.text if point and self._with_text else None,
            [(_judged(memory, texts), _where(pair, ranks, memory)) for memory in (gold.grades if gold else ())],
            [(_judged(memory, texts), _where(pair, ranks, memory)) for memory in (gold.forbidden if gold else ())],
            lists,
            sides,
            f"{VIEWER}?{urlencode(link)}",
        )

    def _conversation(self, key: str) -> str | None:
        if key in self._gold:
            return self._gold[key].conversation
        return next((name for name in self._run.conversations if key.startswith(f"{name}/")), None)

    def _of(self, conversation: str) -> dict[tuple[str, str], dict[str, Any]]:
        if conversation not in self._rows:
            rows = receipt_rows(self._run, conversation, ROWS, self._arms)
            self._rows[conversation] = {(row["arm"], row["turn"]): row for row in rows}
        return self._rows[conversation]

    def _recording(self, name: str) -> RecordedConversation | None:
        plan = self._again.plan
        if plan is None:
            return None
        if name not in self._recorded:
            recording = next((entry for entry in plan.recordings if entry.conversation == name), None)
            if recording is None:
                return None
            self._recorded[name] = RecordedConversation(plan, recording)
        return self._recorded[name]


def _judged(key: str, texts: Mapping[str, str]) -> Shown:
    return Shown(None, key, "", "", texts.get(key))


def _where(pair: Sequence[str], ranks: Mapping[tuple[str, str], int], memory: str) -> str:
    """Return at which rank each arm injected a memory."""
    found = {arm: ranks.get((arm, memory)) for arm in pair}
    return "; ".join(f"{arm}: {f'rank {rank}' if rank else 'not injected'}" for arm, rank in found.items())
