"""Replay every system on every set at equal injected tokens, compare them (LG-19), and write the result (LG-18)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, CannotWrite, InUse, OtherArguments, UnusableInput
from lab.base.files import dump_json, only_writer, write_atomically
from lab.base.formatting import counted
from lab.base.progress import Progress
from lab.base.set_registry import shown_path
from lab.compare.judgements import Arm
from lab.measures.latency import Quantile
from lab.replay.admission import FILE as ADMISSION
from lab.replay.admission import KIND as ADMISSION_KIND
from lab.replay.admission import Admission, about, admit, claims_of, ground_of
from lab.replay.command import NO_GOLD
from lab.replay.plan import Plan, make_plan
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.notes import trial_of, why_failed
from lab.runs.request import ReplayRequest
from lab.studies.league.arms import Entrant
from lab.studies.league.contest import Contest, contest, first_place
from lab.studies.league.sets import LeagueSet
from lab.studies.league.table import BOUNDED, COLUMNS, DECISIVE, OVERALL, Measured, Row, measured, overall
from lab.studies.league.times import PromptTimes, Times, prompt_times, times_of
from lab.systems.contract import ArmInfo
from lab.systems.registry import info_of, make_arm

RUNS, TIMES = "runs", "times"
# How an arm takes part.
RANKED, BOUND = "ranked", "upper bound"
Announce = Callable[[str], None]


class Standing(NamedTuple):
    """How an arm takes part: ``ranked``, as an ``upper bound``, or not at all, for a ``reason``."""

    arm: str
    system: str
    status: str
    reason: str = ""

    @property
    def is_ranked(self) -> bool:
        """Whether the arm can win."""
        return self.status == RANKED


@dataclass(frozen=True, slots=True)
class League:
    """The result: one row for each set, arm and budget, those of all sets, and who wins where.

    ``sets`` maps a set to what was replayed of it. ``trial`` are reasons why the figures are not those of a system
    under real conditions.
    """

    sets: Mapping[str, str]
    budgets: tuple[int, ...]
    standings: tuple[Standing, ...]
    admissions: tuple[Admission, ...]
    rows: tuple[Row, ...]
    overall: tuple[Row, ...]
    contests: tuple[Contest, ...]
    times: tuple[Times, ...]
    source: str
    trial: tuple[str, ...] = ()
    command: str = ""

    @property
    def refused(self) -> tuple[Standing, ...]:
        """The arms that were refused or failed, which makes the command fail."""
        return tuple(standing for standing in self.standings if standing.status in ("refused", "failed"))

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON, without times, so that equal inputs give equal bytes."""
        return {
            "kind": "lab.studies.league",
            "sets": dict(self.sets),
            "budgets": list(self.budgets),
            "source": self.source,
            "trial": list(self.trial),
            "standings": [standing._asdict() for standing in self.standings],
            "admissions": [admission.as_json() for admission in self.admissions],
            "rows": [row.as_json() for row in (*self.overall, *self.rows)],
            "contests": [contest.as_json() for contest in self.contests],
        }


class _Seeded(NamedTuple):
    """An entrant that is replayed, and whether it embeds prompts."""

    entrant: Entrant
    embeds: bool


def run_league(
    sets: Sequence[LeagueSet],
    entrants: Sequence[Entrant],
    budgets: Sequence[int],
    shared: ReplayRequest,
    out: Path,
    *,
    jobs: int = 1,
    announce: Announce = lambda _: None,
    command: str = "",
) -> League:
    """Run a league into the folder ``out``; finished replays in it are not repeated.

    ``shared`` has the options of all sets. Every system is replayed once on each set, with an arm for each budget, in
    a run of its own below ``out``. Searches are run, not read from the cache, so that they can be timed. An arm that is
    refused by admission, needs a language model or fails is listed and not ranked. Raises :class:`UnusableInput` for
    arguments or files that cannot be used.
    """
    with only_writer(out):
        _require_own(out)
        plans = {league_set.name: _plan_of(league_set, shared) for league_set in sets}
        for league_set in sets:
            _require_gold(plans[league_set.name], league_set)
        standings, admissions, seeded = _admitted(entrants, next(iter(plans.values())), out, announce)
        figures: dict[tuple[str, str], list[Measured]] = {}
        times: list[Times] = []
        runs: dict[tuple[str, str], RunDirectory] = {}
        progress = Progress(len(sets) * sum(standings[entry.entrant.name].status != "failed" for entry in seeded))
        for league_set in sets:
            prompts = prompt_times(plans[league_set.name], _ensured(out / TIMES) / f"{league_set.folder}.json")
            for entry in seeded:
                name = entry.entrant.name
                if standings[name].status == "failed":
                    continue
                announce(progress.begin(f"{league_set.name}: {name}"))
                run, reason = _replayed(league_set, entry.entrant, budgets, shared, out, jobs, announce)
                progress.next(name)
                if run is None:
                    standings[name] = standings[name]._replace(status="failed", reason=f"{league_set.name}: {reason}")
                    announce(f"{league_set.name}: {name} failed: {reason}")
                    continue
                runs[league_set.name, name] = run
                figures[league_set.name, name], spent = _figures(league_set, entry, run, budgets, prompts)
                times += spent
        league = _concluded(
            sets, plans, standings, admissions, figures, times, budgets, shared, trial_of(*runs.values()), command
        )
        return replace(league, contests=tuple(_with_turns(one, entrants, runs) for one in league.contests))


def _with_turns(found: Contest, entrants: Sequence[Entrant], runs: Mapping[tuple[str, str], RunDirectory]) -> Contest:
    """Return a contest with what turns its first place, if it is on one set."""
    arms = {
        entrant.name: Arm(runs[found.set, entrant.name], entrant.at(found.budget), 1.0)
        for entrant in entrants
        if (found.set, entrant.name) in runs
    }
    return found._replace(turns=first_place(found, arms)) if arms else found


def _concluded(
    sets: Sequence[LeagueSet],
    plans: Mapping[str, Plan],
    standings: Mapping[str, Standing],
    admissions: Sequence[Admission],
    figures: Mapping[tuple[str, str], list[Measured]],
    times: Sequence[Times],
    budgets: Sequence[int],
    shared: ReplayRequest,
    trial: tuple[str, ...],
    command: str,
) -> League:
    # Figures of an arm that failed on any set are not shown: they would be over other sets than those of the others.
    scored = {key: value for key, value in figures.items() if standings[key[1]].status in (RANKED, BOUND)}
    arms = list(dict.fromkeys(arm for _, arm in scored))
    at = {(part.row.set, part.row.arm, part.row.budget): part for parts in scored.values() for part in parts}
    overall_rows: dict[tuple[str, int | None], Row] = {}
    for budget in (None, *budgets):
        for arm in arms:
            overall_rows[arm, budget] = overall(arm, budget, [at[league_set.name, arm, budget] for league_set in sets])
    ranked = [arm for arm in arms if standings[arm].is_ranked]
    contests: list[Contest] = []
    for measure in DECISIVE:
        for budget in budgets:
            groups: list[tuple[str, list[str]]] = [(league_set.name, [league_set.name]) for league_set in sets]
            if len(sets) > 1:
                groups.insert(0, (OVERALL, [league_set.name for league_set in sets]))
            for name, over in groups:
                parts = {arm: [at[set_name, arm, budget] for set_name in over] for arm in ranked}
                rows = {
                    arm: overall_rows[arm, budget] if name == OVERALL else at[name, arm, budget].row for arm in ranked
                }
                cells = {arm: row.cells[measure] for arm, row in rows.items() if measure in row.cells}
                result = contest(name, budget, measure, cells, parts)
                if result is not None:
                    contests.append(result)
    return League(
        {league_set.name: _described(plans[league_set.name], league_set) for league_set in sets},
        tuple(budgets),
        tuple(standings.values()),
        tuple(admissions),
        tuple(part.row for parts in scored.values() for part in parts),
        tuple(overall_rows.values()) if len(sets) > 1 else (),
        tuple(contests),
        tuple(spent for spent in times if spent.arm in arms),
        shared.source,
        trial,
        command,
    )


def _admitted(
    entrants: Sequence[Entrant], plan: Plan, out: Path, announce: Announce
) -> tuple[dict[str, Standing], list[Admission], list[_Seeded]]:
    """Admit every arm; write the proofs, and return how each arm takes part and those that are replayed."""
    ground = ground_of(plan)
    standings: dict[str, Standing] = {}
    admissions: list[Admission] = []
    seeded: list[_Seeded] = []
    for entrant in entrants:
        arm = make_arm(entrant.spec)
        info = info_of(entrant.spec, arm)
        captured = ground.source == "captured"
        standing = Standing(entrant.name, info.system, BOUND if info.needs_gold else RANKED)
        if captured and not info.writes:
            standings[entrant.name] = standing._replace(status="left out", reason="it captures no memories")
            continue
        if "model" in (info.needs or ()):
            reason = "it needs a language model, and is given none"
            standings[entrant.name] = standing._replace(status="needs a model", reason=reason)
        admission = admit(arm, info if captured else replace(info, writes=False), ground)
        admissions.append(admission)
        if entrant.name in standings:
            continue
        if not admission.passed:
            announce(f"{entrant.name} is refused: {admission.reason}")
            standings[entrant.name] = standing._replace(status="refused", reason=admission.reason)
            continue
        standings[entrant.name] = standing
        seeded.append(_Seeded(entrant, _embeds(info, claims_of(arm))))
    listed = [admission.as_json() for admission in admissions]
    write_atomically(out / ADMISSION, dump_json({"kind": ADMISSION_KIND} | about(ground) | {"arms": listed}))
    if not seeded:
        reasons = "; ".join(f"{standing.arm}: {standing.reason}" for standing in standings.values())
        raise CannotMeasure(f"league: no arm can be replayed ({reasons})")
    return standings, admissions, seeded


def _embeds(info: ArmInfo, claims: Sequence[str]) -> bool:
    """Whether the prompt is embedded for an arm: it needs or claims the embedder, or searches by meaning."""
    return bool({"embedder", "meaning"} & {*claims, *(info.needs or ())})


def _replayed(
    league_set: LeagueSet,
    entrant: Entrant,
    budgets: Sequence[int],
    shared: ReplayRequest,
    out: Path,
    jobs: int,
    announce: Announce,
) -> tuple[RunDirectory | None, str]:
    """Return the run of a system on a set, or None and why it cannot count."""
    folder = _ensured(out / RUNS / league_set.folder) / entrant.folder
    request = league_set.request(shared, entrant.texts(budgets))

    def quiet(note: str) -> None:
        # Progress of conversations; notes on the recordings are the same for every arm.
        if ": done (" not in note:
            return
        announce(f"{league_set.name}: {entrant.name}: {note}")

    try:
        made = entrant.made(budgets)
        outcome = run_replay(request, folder, jobs=jobs, use_cache=False, announce=quiet, made=made)
    except OtherArguments as error:
        what = str(error).partition("; choose another")[0]
        raise OtherArguments(
            f"{out}: its league cannot be continued; choose another --out, or remove this folder ({what})"
        ) from None
    except (CannotWrite, InUse):
        raise
    except CannotMeasure as error:
        return None, str(error)
    if outcome.failures:
        first = outcome.failures[0]
        return None, f"{counted(len(outcome.failures), 'conversation')} failed; {first['reason']}"
    if outcome.run.manifest.failed:
        return None, why_failed(outcome.run)
    return outcome.run, ""


def _figures(
    league_set: LeagueSet, entry: _Seeded, run: RunDirectory, budgets: Sequence[int], prompts: PromptTimes
) -> tuple[list[Measured], list[Times]]:
    entrant = entry.entrant
    names: dict[str, int | None] = {entrant.name: None} | {entrant.at(tokens): tokens for tokens in budgets}
    figures = list(measured(league_set.name, entrant.name, run, names))
    return figures, times_of(league_set.name, entrant.name, run, names, prompts, embeds=entry.embeds)


def _least_arms(shared: ReplayRequest) -> tuple[str, ...]:
    """Return the arms of a plan that only reads a set: one that captures, if arms must."""
    return ("verbatim",) if shared.source == "captured" else ("none",)


def _require_own(out: Path) -> None:
    """Raise :class:`UnusableInput` for a folder with files that no league wrote."""
    names = {child.name for child in out.iterdir() if not child.name.endswith(".part")}
    if names and not names & {ADMISSION, RUNS}:
        raise UnusableInput(f"{out}: has files and is not the folder of a league; choose another --out")


def _plan_of(league_set: LeagueSet, shared: ReplayRequest) -> Plan:
    try:
        return make_plan(league_set.request(shared, _least_arms(shared)))
    except UnusableInput as error:
        raise UnusableInput(f"set {league_set.name!r}: {error}") from None


def _require_gold(plan: Plan, league_set: LeagueSet) -> None:
    if not any(probe.relevant for recording in plan.recordings for probe in plan.probes(recording)):
        raise UnusableInput(f"set {league_set.name!r}: {shown_path(str(league_set.path))} {NO_GOLD}")


def _described(plan: Plan, league_set: LeagueSet) -> str:
    """Return what was replayed of a set, in one line."""
    probes = [probe for recording in plan.recordings for probe in plan.probes(recording)]
    relevant = sum(bool(probe.relevant) for probe in probes)
    parts = [
        f"{shown_path(str(league_set.path)) if league_set.format == 'lab' else league_set.format}",
        counted(len(plan.recordings), "conversation"),
        f"{counted(relevant, 'probe')} with relevant memories, {len(probes) - relevant} without",
        f"labels {plan.labels.describe().get('mode')}",
    ]
    if plan.haystack:
        parts.append(str(plan.haystack))
    options = [
        f"{name.replace('_', '-')} {value}" for name, value in league_set.options.items() if name not in ("golden",)
    ]
    return "; ".join([*parts, *options])


def _ensured(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


JSON, CSV, TIMES_CSV = "league.json", "league.csv", "times.csv"
OWN = "own"


def write_outputs(league: League, out: Path) -> list[Path]:
    """Write the files into the folder of the league; return their paths."""
    files = {
        out / JSON: dump_json(league.as_json()),
        out / CSV: _csv(_header(), _rows(league)),
        out / TIMES_CSV: _csv(_TIMES, _times(league)),
    }
    for path, content in files.items():
        write_atomically(path, content)
    return list(files)


def _header() -> list[str]:
    columns = ["set", "arm", "status", "budget", "conversations"]
    for name in COLUMNS:
        columns += [name, f"{name}_n"]
        if name in BOUNDED:
            columns += [f"{name}_low", f"{name}_high"]
    return columns


def _rows(league: League) -> list[list[object]]:
    statuses = {standing.arm: standing.status for standing in league.standings}
    rows: list[list[object]] = []
    for row in (*league.overall, *league.rows):
        cells: list[object] = [row.set, row.arm, statuses[row.arm], row.budget or OWN, row.conversations]
        for name in COLUMNS:
            cell = row.cells.get(name)
            cells += ["", ""] if cell is None else [_number(cell.mean), cell.n]
            if name in BOUNDED:
                cells += ["", ""] if cell is None else [_number(cell.low), _number(cell.high)]
        rows.append(cells)
    return rows


_TIMES = (
    "set",
    "arm",
    "budget",
    "embeds",
    "recalls",
    "p50_ms",
    "p95_ms",
    "sampled",
    "p50_with_embedding_ms",
    "p95_with_embedding_ms",
)


def _times(league: League) -> list[list[object]]:
    return [
        [
            times.set,
            times.arm,
            times.budget or OWN,
            str(times.embeds).lower(),
            times.recall.n,
            _ms(times.recall.p50),
            _ms(times.recall.p95),
            times.with_embedding.n,
            _ms(times.with_embedding.p50),
            _ms(times.with_embedding.p95),
        ]
        for times in league.times
    ]


def _ms(value: Quantile | None) -> str:
    return "" if value is None else f"{value.value:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
