"""Measure how the labels of memories change over time, in a ledger, a store or a replay; write a page (RT-10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import write_atomically
from lab.base.formatting import counted
from lab.base.times import epoch_ms
from lab.golden.model import is_added
from lab.memory.ledger import ledger
from lab.memory.ledger.grading import label_of
from lab.memory.ledger.ledger import moment
from lab.memory.table.lance_table import LanceTable
from lab.recordings.model import GLOBAL, LABELS, TIER_OF, UNKNOWN
from lab.replay.plan import plan_of
from lab.report import charts
from lab.report.build import page_script, render
from lab.report.charts import INKS, TIERS
from lab.report.units import percent
from lab.runs.directory import RunDirectory, open_run
from lab.systems.openclaw.memory import label_of_score
from lab.systems.openclaw.table.schema import TABLE
from lab.systems.sidecar import grade_observation

KIND = "recall-lab.drift.v1"
PERIODS = ("day", "week")
# Draws of the permutation test.
DRAWS = 2000
# Scores from which memories would be must_remember.
THRESHOLDS = tuple(number / 100 for number in range(50, 100, 5))
SEED = 20261123
MARK = b"<!-- drift page of lab memory ledger drift -->"
# Periods that a page shows, the newest, and scopes that its chart shows, the largest.
SHOWN_PERIODS, SHOWN_SCOPES = 60, 30
# The labels in the order of the report's legends.
BY_TIER = {tier: next(label for label, name in TIER_OF.items() if name == tier) for tier in TIERS}
GRADED = "Grades of heuristic-v1 on the texts. The sidecar's threshold is 0.80; nice_to_have begins at 0.50."


class Labelled(NamedTuple):
    """One memory: its time in epoch milliseconds (None: it has none that can be read), its scope and its label.

    ``score`` is that of heuristic-v1; None if it was not graded.
    """

    time_ms: float | None
    scope: str
    label: str
    score: float | None = None


class Source(NamedTuple):
    """What was read: ``ledger``, ``store`` or ``run``, and its memories."""

    kind: str
    rows: list[Labelled]


@dataclass(slots=True)
class Part:
    """The labels of one period, of one scope, or of one scope in one period."""

    name: str
    labels: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The number of memories."""
        return self.labels.total()

    def share(self, label: str) -> float:
        """Return the share of a label; a part is never empty."""
        return self.labels[label] / self.total

    def describe(self) -> dict[str, Any]:
        """Return the counts and shares in JSON."""
        return {
            "name": self.name,
            "memories": self.total,
            "labels": {label: self.labels[label] for label in LABELS},
            "unknown": self.share(UNKNOWN),
        }


class Change(NamedTuple):
    """How far the labels of the newest period are from those of all before.

    ``distance`` is the total variation distance: the share of memories that would need another label, from 0 to 1.
    ``p`` is the share of random splits of the same memories with at least this distance.
    """

    distance: float
    p: float


class Drift(NamedTuple):
    """Labels by period (oldest first), by scope (largest first), and by both; ``undated`` memories have no time.

    ``thresholds`` has the labels of heuristic-v1 if must_remember began at each of :data:`THRESHOLDS`; it is empty if
    the memories were not graded.
    """

    kind: str
    by: str
    periods: list[Part]
    scopes: list[Part]
    parts: list[tuple[str, Part]]
    undated: int
    change: Change | None
    thresholds: list[Part]

    def describe(self) -> dict[str, Any]:
        """Return the receipt. No text of a memory is in it."""
        return {
            "kind": KIND,
            "source": self.kind,
            "by": self.by,
            "periods": [part.describe() for part in self.periods],
            "scopes": [part.describe() for part in self.scopes],
            "parts": [{"period": period, **part.describe()} for period, part in self.parts],
            "undated": self.undated,
            "change": None if self.change is None else self.change._asdict(),
            "thresholds": [part.describe() for part in self.thresholds],
        }


def read(path: Path, *, arm: str | None = None, tool: str | None = None, graded: bool = False) -> Source:
    """Return the memories of a ledger (a file), a store (a folder with a table) or a run.

    Of a run they are the memories of its recordings at their time of birth; with ``arm``, what that arm injected at
    each recall turn. ``tool`` selects the observations of one tool. With ``graded``, memories have scores of
    heuristic-v1. Raises :class:`UnusableInput` for anything else.
    """
    if path.is_dir() and (path / f"{TABLE}.lance").is_dir():
        kind, rows = "store", _of_store(path, graded)
    elif path.is_dir():
        kind, rows = "run", list(_of_run(open_run(path), arm, graded))
    else:
        kind, rows = "ledger", list(_of_ledger(path, tool, graded))
    for name, value, only in (("--arm", arm, "run"), ("--tool", tool, "ledger")):
        if value is not None and kind != only:
            raise UnusableInput(f"{name} is for a {only}; {path} is a {kind}")
    return Source(kind, rows)


def _score(graded: bool, **observation: str | None) -> float | None:
    return grade_observation(observation).score if graded else None


def _of_ledger(path: Path, tool: str | None, graded: bool) -> Iterator[Labelled]:
    where, values = ("tool_name = ?", (tool,)) if tool is not None else ("", ())
    with ledger.open_ledger(path) as connection:
        for row in ledger.observations(connection, where=where, values=values):
            detail, time = row.detail, moment(row.ts)
            scope = str(detail.get("scope") or "").strip() or GLOBAL
            score = _score(graded, kind=row.kind, tool_name=row.tool_name, summary=row.summary)
            yield Labelled(time.timestamp() * 1000 if time else None, scope, label_of(detail), score)


def _of_store(folder: Path, graded: bool) -> list[Labelled]:
    with LanceTable(folder, read_only=True) as table:
        return [
            Labelled(
                epoch_ms(row.created_at) or None,
                row.scope,
                row.importance_label or UNKNOWN,
                _score(graded, summary=row.text),
            )
            for row in table.rows()
        ]


def _of_run(run: RunDirectory, arm: str | None, graded: bool) -> Iterator[Labelled]:
    plan = plan_of(run)
    if arm is not None and arm not in run.arms:
        raise UnusableInput(f"{run.path}: has no arm {arm!r}; its arms are {', '.join(run.arms)}")
    if arm is not None:
        run.require_done()
        if graded:
            raise UnusableInput("thresholds need the texts of memories, which receipts do not have; leave --arm out")
    for recording in plan.recordings:
        if arm is None:
            # Those of a haystack are copies of other conversations' memories.
            for memory in plan.memories_of(recording):
                if not is_added(memory.key):
                    score = _score(graded, summary=memory.text)
                    yield Labelled(memory.created_at, memory.scope, memory.label or UNKNOWN, score)
            continue
        times = {turn.key: turn.time_ms for turn in recording.turns}
        columns = ("arm", "turn", "is_recall_turn", "injected", "scope", "item_label")
        for row in run.read_receipts(recording.conversation, columns).to_pylist():
            if row["arm"] == arm and row["is_recall_turn"] and row["turn"] not in run.left_out:
                for label in row["item_label"][: row["injected"]]:
                    yield Labelled(times[row["turn"]], row["scope"], label or UNKNOWN)


def drift(source: Source, by: str = "day") -> Drift:
    """Return the labels of memories by day or ISO week (UTC) and by scope; raise :class:`UnusableInput` without any."""
    if by not in PERIODS:
        raise UnusableInput(f"--by {by}: expected {' or '.join(PERIODS)}")
    if not source.rows:
        raise UnusableInput(f"the {source.kind} has no {nouns(source.kind)[1]}")
    dated = [(name, row) for row in source.rows if (name := _period(row.time_ms, by)) is not None]
    periods = _counted((name, row.label) for name, row in dated)
    scopes = _counted((row.scope, row.label) for row in source.rows)
    both = _counted(((name, row.scope), row.label) for name, row in dated)
    ordered = [Part(name, periods[name]) for name in sorted(periods)]
    return Drift(
        source.kind,
        by,
        ordered,
        sorted((Part(name, labels) for name, labels in scopes.items()), key=lambda part: (-part.total, part.name)),
        [(period, Part(scope, labels)) for (period, scope), labels in sorted(both.items())],
        len(source.rows) - len(dated),
        change_of(ordered),
        _by_threshold([row.score for row in source.rows if row.score is not None]),
    )


def nouns(kind: str) -> tuple[str, str]:
    """Return what a row and the rows of a source are called: a ledger has observations, all others have memories."""
    return ("observation", "observations") if kind == "ledger" else ("memory", "memories")


def _by_threshold(scores: Sequence[float]) -> list[Part]:
    return [
        Part(f"{threshold:.2f}", Counter(label_of_score(score, threshold) for score in scores))
        for threshold in THRESHOLDS
        if scores
    ]


def _counted(rows: Iterable[tuple[Any, str]]) -> dict[Any, Counter[str]]:
    counts: dict[Any, Counter[str]] = {}
    for name, label in rows:
        counts.setdefault(name, Counter())[label] += 1
    return counts


def _period(time_ms: float | None, by: str) -> str | None:
    """Return the day or ISO week of a time; None for one that no calendar has."""
    if time_ms is None:
        return None
    try:
        day = datetime.fromtimestamp(time_ms / 1000, UTC).date()
    except (OverflowError, OSError, ValueError):
        return None
    year, week, _ = day.isocalendar()
    return day.isoformat() if by == "day" else f"{year:04d}-W{week:02d}"


def change_of(periods: Sequence[Part]) -> Change | None:
    """Return the change from all earlier periods to the newest; None if there is only one."""
    import numpy as np

    if len(periods) < 2:
        return None
    newest = np.array([periods[-1].labels[label] for label in LABELS])
    before = np.array([sum(part.labels[label] for part in periods[:-1]) for label in LABELS])
    pooled, size = newest + before, int(newest.sum())

    def distance(drawn: Any) -> Any:
        rest = pooled - drawn
        return 0.5 * np.abs(drawn / size - rest / before.sum()).sum(axis=-1)

    found = float(distance(newest))
    draws = np.random.default_rng(SEED).multivariate_hypergeometric(pooled, size, DRAWS, method="marginals")
    reached = int((distance(draws) >= found - 1e-12).sum())
    return Change(found, (1 + reached) / (1 + DRAWS))


def write_page(found: Drift, name: str, path: Path) -> Path:
    """Write the page as one HTML file; refuse to replace a file that is no such page."""
    if path.exists() and MARK not in path.read_bytes():
        raise UnusableInput(f"{path}: exists and is not a page of `lab memory ledger drift`; choose another file")
    periods, scopes, thresholds = found.periods[-SHOWN_PERIODS:], found.scopes[:SHOWN_SCOPES], found.thresholds
    noun = nouns(found.kind)[0]
    older, smaller = len(found.periods) - len(periods), len(found.scopes) - len(scopes)
    model = {
        "title": f"Label drift of {name}",
        "facts": _facts(found),
        "labels": list(BY_TIER),
        "head_of_rows": nouns(found.kind)[1],
        "parts": [
            (name, heading, note, [_row(part) for part in rows], _bars(parts, noun))
            for name, heading, note, rows, parts in (
                (found.by, f"By {found.by}", _rest("newest", periods, older), periods[::-1], periods),
                ("scope", "By scope", _rest("largest", scopes, smaller), found.scopes, scopes),
                ("threshold", "If must_remember began at another score", GRADED, thresholds, thresholds),
            )
            if parts
        ],
        "legend": charts.legend(charts.areas(TIERS)),
        "script": page_script(),
    }
    write_atomically(path, render("drift.html.j2", model))
    return path


def _facts(found: Drift) -> list[str]:
    total = sum(part.total for part in found.scopes)
    unknown = sum(part.labels[UNKNOWN] for part in found.scopes)
    noun = nouns(found.kind)[0]
    facts = [f"{counted(total, noun)}, {percent(unknown / total)} labelled unknown."]
    if found.periods:
        newest = found.periods[-1]
        facts.append(f"{newest.name}: {counted(newest.total, noun)}, {percent(newest.share(UNKNOWN))} unknown.")
    if found.change is not None:
        facts.append(
            f"The labels of the newest {found.by} differ from those before by {percent(found.change.distance)} (total "
            f"variation distance, p\N{NO-BREAK SPACE}{found.change.p:.3f})."
        )
    if found.undated:
        facts.append(f"{counted(found.undated, noun)} without a time are in no {found.by}.")
    return facts


def _rest(which: str, shown: list[Part], left: int) -> str:
    return f"The chart shows the {which} {len(shown)} of {len(shown) + left}." if left else ""


def _row(part: Part) -> dict[str, Any]:
    shares = [percent(part.share(label)) for label in BY_TIER.values()]
    return {"name": part.name, "memories": part.total, "shares": shares}


def _bars(parts: list[Part], noun: str) -> str:
    rows = [
        charts.Bar(part.name, {tier: part.share(label) for tier, label in BY_TIER.items()}, counted(part.total, noun))
        for part in parts
    ]
    return charts.bars(charts.Bars(rows, TIERS, 1.0, INKS))
