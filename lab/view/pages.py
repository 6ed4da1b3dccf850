"""The pages: read the query of a request, collect the data and render a template.

A URL contains everything that its page depends on, so a copied link shows the same page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from shlex import join
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import read_json
from lab.base.formatting import choices, interval, p_value, signed, visible
from lab.base.formatting import number as formatted
from lab.compare.arms import ArmMean
from lab.compare.paired import Comparison, Difference, compare_arms
from lab.measures.catalogue import direction, entry_of
from lab.replay.explain import CAUSES
from lab.report.comparison import first_line, gains, notes, reading
from lab.runs.directory import REPORT, REPORT_DATA, VERDICT, failed_summary
from lab.runs.notes import trial_line, trial_of
from lab.view.address import Address, Listing, NotFound, link, listing
from lab.view.index import Index, Pair, Tally
from lab.view.live import Live, State
from lab.view.probes import ProbeTable, Query
from lab.view.turns import SIGNS, Reader, Texts, strip

if TYPE_CHECKING:
    from jinja2 import Environment

    from lab.base.columns import Flags

KEPT = 16


class Line(NamedTuple):
    """A measure in the comparison. ``reading`` is its conclusion in words; ``is_primary`` whether it decides."""

    difference: Difference
    reading: str
    interval: str
    p: str
    is_primary: bool


class Compared:
    """Comparisons, cached by state and arms."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[int, str, str], dict[str, Any]] = {}
        self._state: State | None = None

    def model(self, state: State, pair: Pair) -> dict[str, Any]:
        """Return what the page shows of two arms. Raises :class:`LabError` if they cannot be compared."""
        if pair.candidate is None:
            raise CannotMeasure("a comparison needs two arms")
        with self._lock:
            if self._state is not state or len(self._kept) > KEPT:
                self._kept, self._state = {}, state
            key = (id(state), pair.baseline, pair.candidate)
            if key not in self._kept:
                self._kept[key] = _model(_comparison(state, pair.baseline, pair.candidate))
            return self._kept[key]


def _comparison(state: State, baseline: str, candidate: str) -> Comparison:
    places, runs = state.index.runs.places, state.index.runs
    base, cand = places[baseline], places[candidate]
    if base.run == cand.run:
        return compare_arms(state.index.part(base.run), base.arm, cand.arm, scores=state.values.scores(base.run))
    return compare_arms(
        state.index.part(base.run),
        base.arm,
        f"{runs.all[cand.run].path}:{cand.arm}",
        scores=state.values.scores(base.run),
    )


def _model(comparison: Comparison) -> dict[str, Any]:
    primary = [difference for difference in comparison.differences if difference.measure in comparison.primary]
    cut = ("", "block", str(comparison.cutoff))
    others = [
        difference
        for difference in comparison.differences
        if difference not in primary and difference.measure.partition("@")[2] in cut
    ]
    conversations = max((difference.conversations for difference in primary or others), default=0)
    return {
        "conversations": conversations,
        "family": comparison.family,
        "lines": [_line(difference, comparison) for difference in (*primary, *others)],
        "first": first_line(comparison),
        # Without the legend, which explains columns of another table, and what is said of one of those.
        "notes": [note for note in notes(comparison, primary)[1:] if "deff" not in note],
        "gains": gains(comparison),
        "gained": len(comparison.gained),
        "lost": len(comparison.lost),
        "cutoff": comparison.cutoff,
    }


def _line(difference: Difference, comparison: Comparison) -> Line:
    p = difference.p if difference.p_holm is None else difference.p_holm
    between = interval(difference.estimate.low, difference.estimate.high)
    is_primary = difference.measure in comparison.primary
    return Line(difference, reading(difference, comparison.family), between, p_value(p), is_primary)


# Files of a run that the summary names, with what they are.
FILES = {REPORT: "report", VERDICT: "verdict"}
COUNTED = ("gained", "lost", "missed", "superseded", "another scope", "misleading", "needless", "repeated", "failed")


class MeasureRow(NamedTuple):
    """A measure in the table of arms: its name, which direction is better, its definition, and the mean by arm."""

    measure: str
    better: str
    about: str
    means: list[ArmMean | None]


def home_model(state: State, pair: Pair) -> dict[str, Any]:
    """Return what the summary shows."""
    index = state.index
    run = index.run
    resolved = run.manifest.resolved
    arms = [*pair.arms, *(arm for arm in index.arms if arm not in pair.arms)]
    probes = int(index.judged.sum())
    facts = {
        "conversations": f"{len(index.read):,}",
        "turns": f"{len(index.turns):,}",
        "probes": f"{probes:,}, of which {probes - int(index.with_gold().sum()):,} need nothing" if probes else "none",
        "memories": resolved.memories,
        "labels": run.labels,
        "haystack": run.haystack,
        "embedder": resolved.embedder_model,
        "items injected at most": run.cutoff,
        "run key": ", ".join(other.manifest.run_key[:12] for other in index.runs.all),
    }
    failed = [failed_summary(other.manifest.failed) for other in index.runs.all if other.manifest.failed]
    return {
        "facts": facts,
        "arms": arms,
        "given": [arm for arm in arms if arm not in index.runs.contenders],
        "rows": [_row(name, means, arms) for name, means in state.values.summary.items()],
        "over": state.values.conversations,
        "has_intervals": any(
            mean.low is not None for means in state.values.summary.values() for mean in means.values()
        ),
        "computing": not state.values.is_done,
        "no_values": state.values.problem,
        "failed": failed,
        "damaged": index.damaged,
        "counts": [
            (name, about, int(index.where(pair, name).sum())) for name, about in pair.filters.items() if name in COUNTED
        ],
        "has_gold": probes > 0,
        "files": [
            (name, what, str(other.path / name))
            for other in index.runs.all
            for name, what in FILES.items()
            if (other.path / name).is_file()
        ],
    }


def _row(measure: str, means: dict[str, ArmMean], arms: list[str]) -> MeasureRow:
    entry = entry_of(measure)
    better = direction(measure)
    return MeasureRow(measure, better, entry.definition if entry else "", [means.get(arm) for arm in arms])


SORTS = ("name", "turns", "probes", "flipped", "matching")
# Seconds that a page waits for the measures of a run before it is shown without them.
PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What an address names: its parameters, the two arms, and for each turn whether it matches."""

    state: State
    address: Address
    pair: Pair
    matching: Flags

    @property
    def index(self) -> Index:
        """The turns of the runs."""
        return self.state.index

    def turns_of(self, name: str) -> Flags:
        """Return which turns belong to a conversation. Raises :class:`NotFound` for an unknown one."""
        import numpy as np

        if name not in self.index.conversations:
            raise NotFound(f"this run has no conversation {name!r}")
        return np.asarray(self.index.conversation_of == self.index.conversations.index(name))


class Viewer:
    """The pages of one run, or of several runs of the same turns. They show texts only if ``with_text``."""

    def __init__(self, live: Live, *, with_text: bool) -> None:
        self.live, self.with_text = live, with_text
        self._texts = Texts(live.now().recorded[0])
        self._compared = Compared()
        self._table: tuple[State, ProbeTable] | None = None

    def home(self, query: Mapping[str, str]) -> str:
        """Return the summary: what the runs are, the means of all arms, and where to go on."""
        asked = self._ask(query)
        asked.state.values.start(PATIENCE)
        return self._render("home.html.j2", asked, title="Summary", **home_model(asked.state, asked.pair))

    def conversations(self, query: Mapping[str, str], *, rows_only: bool = False) -> str:
        """Return the list of conversations with counts; with a filter or search, only those with a match."""
        asked = self._ask(query)
        index, pair, address = asked.index, asked.pair, asked.address
        sort = query.get("sort", "")
        if sort and sort not in SORTS:
            raise NotFound(f"cannot sort conversations by {sort!r}; known: {', '.join(SORTS)}")
        tallies = index.tallies(pair, asked.matching)
        if address.show or address.q:
            tallies = [tally for tally in tallies if tally.matching]
        if sort:
            tallies.sort(key=lambda tally: _sort_key(tally, sort))
        return self._list(
            "conversations",
            asked,
            listing(tallies, query),
            {"sort": sort},
            rows_only,
            title="Conversations",
            matches=int(asked.matching.sum()),
            sort=sort,
            damaged=len(index.damaged),
            waiting=len(index.waiting),
            arms=[*pair.arms, *(arm for arm in index.arms if arm not in pair.arms)],
        )

    def probes(self, query: Mapping[str, str], *, rows_only: bool = False) -> str:
        """Return the table of probes."""
        asked = self._ask(query)
        state, pair = asked.state, asked.pair
        state.values.start(0.0 if rows_only else PATIENCE)
        state.causes.start()
        table, chosen = self._probe_table(state), Query.of_address(query)
        try:
            numbers = table.select(chosen, pair, asked.matching)
        except UnusableInput as error:
            raise NotFound(str(error)) from None
        part = listing(numbers, query)
        part = part._replace(rows=table.rows(list(part.rows), chosen, pair))
        return self._list(
            "probes",
            asked,
            part,
            chosen.parameters,
            rows_only,
            title="Probes",
            chosen=chosen,
            choices=table.choices,
            known=state.causes.progress,
            causes_about=CAUSES,
            problems=[problem for problem in (state.values.problem, state.causes.problem) if problem],
            all=int(asked.index.judged.sum()),
        )

    def turns(self, query: Mapping[str, str], *, rows_only: bool = False) -> str:
        """Return the matching turns of one conversation with its strip, or of all."""
        import numpy as np

        asked = self._ask(query)
        index, pair = asked.index, asked.pair
        name = query.get("conversation") or None
        matching = asked.matching if name is None else asked.matching & asked.turns_of(name)
        part = listing(np.flatnonzero(matching), query)
        return self._list(
            "turns",
            asked,
            part._replace(rows=[self._turn_row(index, pair, number) for number in part.rows]),
            {"conversation": name},
            rows_only,
            title=name if name is not None else "Turns",
            conversation=name,
            cells=[] if name is None or rows_only else strip(index, pair, name),
            failed=index.damaged.get(name) if name else None,
            waiting=name in index.waiting,
        )

    def turn(self, query: Mapping[str, str]) -> str:
        """Return one turn, with the explanation of an arm if the query names one."""
        import numpy as np

        asked = self._ask(query)
        index, pair, places = asked.index, asked.pair, asked.index.runs.places
        name, key, arm = query.get("conversation", ""), query.get("turn", ""), query.get("arm")
        missing = [parameter for parameter, value in (("conversation", name), ("turn", key)) if not value]
        if missing:
            raise NotFound(
                f"the address of a turn needs conversation=… and turn=…; missing: {', '.join(missing)}. "
                "Start from the list of conversations."
            )
        if not asked.turns_of(name).any() and name in index.damaged:
            raise LabError(index.damaged[name])
        number = index.number_of(name, key)
        if number is None:
            raise NotFound(f"no recall happened at {key!r} of {name!r}")
        if arm is not None and arm not in index.arms:
            raise NotFound(f"this run has no arm {arm!r}; {choices(arm, index.arms, 'it has')}")
        full = query.get("full") == "1"
        reader = Reader(index, name, pair, asked.state.recorded, with_text=self.with_text)
        (view,) = reader.turns([number], before=True, explained=True)
        matches = np.flatnonzero(asked.matching)
        position = int(np.searchsorted(matches, number))
        is_match = position < len(matches) and int(matches[position]) == number
        after = position + is_match
        explained, problem, command = "", "", ""
        if arm is not None:
            options = [option for option, on in (("--full", full), ("--with-text", self.with_text)) if on]
            run, own = index.runs.of(arm)
            command = join(["lab", "explain", str(run.path), key, "--arm", own, *options])
            try:
                recorded = asked.state.recorded[places[arm].run]
                explained = recorded.explanation(name, key, own, with_text=self.with_text, full=full)
            except LabError as error:
                problem = str(error)
        return self._render(
            "turn.html.j2",
            asked,
            title=key,
            view=view,
            cells=strip(index, pair, name),
            arm=arm,
            full=full,
            explained=explained,
            problem=problem,
            command=command,
            previous=_place(index, int(matches[position - 1])) if position else None,
            following=_place(index, int(matches[after])) if after < len(matches) else None,
            position=position + 1 if is_match else None,
            matches=len(matches),
            # A turn that was replayed does not change.
            pending=False,
        )

    def compare(self, query: Mapping[str, str]) -> str:
        """Return the comparison of the two arms."""
        asked = self._ask(query)
        asked.state.values.start(PATIENCE)
        found, problem = None, ""
        if asked.pair.candidate is None:
            problem = "This run has one arm; replay it with another, or give a second run of the same recordings."
        else:
            try:
                found = self._compared.model(asked.state, asked.pair)
            except LabError as error:
                problem = str(error)
        title = f"{asked.pair.candidate} against {asked.pair.baseline}" if asked.pair.candidate else "Comparison"
        return self._render("compare.html.j2", asked, title=title, action="/compare", found=found, problem=problem)

    def version(self) -> dict[str, object]:
        """Return what a page needs to know when to load itself again."""
        state = self.live.now()
        return {"version": state.version, "pending": state.pending}

    def report(self) -> str:
        """Return the report of the first run. Raises :class:`NotFound` if there is none, or it shows texts."""
        path = self.live.now().index.run.path
        page, data = path / REPORT, path / REPORT_DATA
        if not page.is_file():
            raise NotFound(f"{page}: there is no report yet; `lab report {path}` makes one")
        if not self.with_text and has_texts(data):
            raise NotFound(f"{page}: may show texts; open the file, or start the viewer with --with-text")
        return page.read_text("utf-8")

    def problem(self, title: str, message: str) -> str:
        """Return a page with an error message."""
        return self._render("problem.html.j2", self._ask({}), title=title, message=message)

    def _ask(self, query: Mapping[str, str]) -> Asked:
        """Return the state, the two arms, and for each turn whether it matches filter and search."""
        address = Address(*(query.get(name, "").strip() for name in Address._fields))
        state = self.live.now()
        index = state.index
        try:
            default = index.pair(None, None)
            pair = index.pair(address.base or None, address.cand or None)
            if pair == default:
                address = address._replace(base="", cand="")
            matching = index.where(pair, address.show)
        except UnusableInput as error:
            raise NotFound(str(error)) from None
        if address.q:
            texts = self._texts.lowered(index) if self.with_text else (None, None)
            matching = matching & index.search(address.q, *texts)
        return Asked(state, address, pair, matching)

    def _probe_table(self, state: State) -> ProbeTable:
        if self._table is None or self._table[0] is not state:
            self._table = (state, ProbeTable(state))
        return self._table[1]

    def _turn_row(self, index: Index, pair: Pair, number: int) -> dict[str, Any]:
        key = index.turns[number]
        return {
            **_place(index, number),
            "number": number,
            "text": self._texts.of(key) if self.with_text else None,
            "gold": index.gold.get(index.probes[number] or ""),
            "arms": [
                {
                    "hit": bool(index.hits(arm, pair.cutoff)[number]) if index.first[arm][number] else None,
                    "injected": int(index.injected[arm][number]),
                    "marks": index.marks(number, arm),
                }
                for arm in pair.arms
            ],
        }

    def _list(
        self,
        kind: str,
        asked: Asked,
        part: Listing,
        parameters: Mapping[str, object],
        rows_only: bool,
        **model: Any,
    ) -> str:
        given = {**asked.address._asdict(), **parameters}
        model |= {"part": part, "kind": kind, "rows": link(f"/rows/{kind}", given), "own": parameters}
        return self._render("rows.html.j2" if rows_only else f"{kind}.html.j2", asked, action=f"/{kind}", **model)

    def _render(self, template: str, asked: Asked, **model: Any) -> str:
        index = asked.index
        model |= {
            "runs": [str(run.path) for run in index.runs.all],
            "trial": trial_line(trial_of(*index.runs.all)),
            "all_arms": index.arms,
            "filters": asked.pair.filters,
            "address": asked.address,
            "pair": asked.pair,
            "link": asked.address.link,
            "with_text": self.with_text,
            "version": asked.state.version,
            "pending": asked.state.pending,
            "unfinished": (len(index.read), len(index.conversations)) if index.runs.growing else None,
        }
        return environment().get_template(template).render({"conversation": None, "action": "/turns", **model})


def has_texts(data: Path) -> bool:
    """Return whether a report may show texts, according to the data beside it."""
    try:
        value = read_json(data)
    except UnusableInput:
        return True
    return not isinstance(value, dict) or value.get("with_text") is not False


def _place(index: Index, number: int) -> dict[str, str]:
    """Return the parameters of the address of a turn."""
    return {"conversation": index.conversations[index.conversation_of[number]], "turn": index.turns[number]}


def _sort_key(tally: Tally, sort: str) -> tuple[float, str]:
    """Sort counts in descending order, then by name."""
    counts = {
        "turns": tally.turns,
        "probes": tally.probes,
        "flipped": tally.gained + tally.lost,
        "matching": tally.matching,
    }
    return (-counts.get(sort, 0), tally.name)


def _rendered(macro: Callable[..., str], *values: object) -> str:
    """Return what a macro makes of some values; rows of a list repeat most of their cells."""
    return macro(*values)


@cache
def environment() -> Environment:
    """Return the Jinja environment of the templates, with autoescaping."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("lab.view", "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    made.filters |= {"number": formatted, "signed": signed, "thousands": "{:,}".format}
    made.globals |= {"signs": SIGNS, "repeated": lru_cache(4096)(_rendered)}
    return made
