"""The verdict on a set or a run: every criterion for every candidate, and its files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import dump_json, read_text, write_atomically
from lab.base.formatting import counted
from lab.base.set_registry import shown_path
from lab.gate.line import FAIL, GRAVITY, INCONCLUSIVE, PASS, Line
from lab.gate.outputs import junit
from lab.gate.verdict import EXIT
from lab.gate.verdict import Verdict as GateVerdict
from lab.measures.score import score_and_write
from lab.replay.command import command_with
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.directory import VERDICT, RunDirectory
from lab.runs.notes import trial
from lab.runs.request import ReplayRequest
from lab.studies.acceptance.arms import CANDIDATES, HYBRID, OLD, VECTOR, Cast, cast_in, cast_of, saturated
from lab.studies.acceptance.criteria import CRITERIA, M1, Result, Runs, judge
from lab.studies.acceptance.evidence import Measured
from lab.studies.acceptance.readings import Compared, Floor, compared, floor_for

SCHEMA = "lab.acceptance.v1"
FILES = (VERDICT, "verdict.xml")
NOT_APPLICABLE = "not applicable"
SHORT = {INCONCLUSIVE: "open"}
Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The results of all criteria, in order, candidate by candidate, then M1.

    ``about`` describes the set; ``readings`` the arms that are candidates under another reading of the documents;
    ``compared`` are the candidates under each reading, with its ``floor``; ``runs`` are the folders of the runs.
    """

    about: str
    candidates: tuple[str, ...]
    readings: Mapping[str, str]
    results: tuple[Result, ...]
    runs: tuple[str, ...]
    large: str
    trial: tuple[str, ...] = ()
    floor: Floor | None = None
    compared: tuple[Compared, ...] = ()

    @property
    def status(self) -> str:
        """Return the gravest status of the candidates and M1.

        Other readings, and criteria that do not apply to a candidate, are reported and do not decide.
        """
        decided = (result.status for result in self.results if result.arm not in self.readings and result.applies)
        return min(decided, key=GRAVITY.index, default=INCONCLUSIVE)

    @property
    def exit_code(self) -> int:
        """Return the exit code: 0 pass, 1 fail, 3 inconclusive."""
        return EXIT[self.status]

    def of(self, arm: str) -> list[Result]:
        """Return the results of one arm."""
        return [result for result in self.results if result.arm == arm]

    def as_json(self) -> dict[str, Any]:
        """Return the content of verdict.json as plain values."""
        return {
            "schema": SCHEMA,
            "trial": list(self.trial),
            "status": self.status,
            "about": self.about,
            "candidates": list(self.candidates),
            "readings": dict(self.readings),
            **({"floor": self.floor._asdict(), "compared": self._comparisons()} if self.floor else {}),
            "runs": list(self.runs),
            "large_pool": self.large,
            "criteria": [
                {
                    **{name: value for name, value in asdict(result).items() if name != "tests"},
                    "tests": [
                        {
                            "about": test.about,
                            "is_check": test.is_check,
                            **asdict(test.line),
                            "turns": test.turns.as_json() if test.turns else None,
                        }
                        for test in result.tests
                    ],
                }
                for result in self.results
            ],
        }

    def _comparisons(self) -> list[dict[str, Any]]:
        return [
            {
                **row.variant._asdict(),
                "criteria": {result.criterion: result.status for result in self.of(row.variant.arm)},
                "rollout": row.rollout,
                "failed": list(row.failed),
                "hit": row.hit,
            }
            for row in self.compared
        ]


def accept_set(
    request: ReplayRequest,
    out: Path,
    *,
    candidates: Sequence[str] = CANDIDATES,
    screen: int | None = None,
    readings: bool = False,
    floor_from: str | None = None,
    jobs: int = 1,
    announce: Announce = lambda _: None,
) -> Acceptance:
    """Replay what the criteria need into folders of ``out``, and judge the candidates.

    ``request`` names the set; its arms are ignored. With ``readings``, the candidates are judged under each reading,
    and ``floor_from`` is the set that calibrates the floor (:func:`floor_for`). A finished replay is not repeated.
    Raises :class:`UnusableInput` for an unknown arm, and :class:`CannotMeasure` if conversations fail.
    """
    floor = floor_for(make_plan(replace(request, arms=(VECTOR,))), floor_from) if readings else None
    cast = cast_of(request, candidates, out / "arms", floor.value if floor else None)
    request = replace(request, arms=cast.arms)
    plan = make_plan(request)
    large = saturated(request, plan)
    plain = _replayed(request, out / "run", jobs, announce)
    second = _replayed(large, out / "saturated", jobs, announce) if large is not None else None
    return _judged(
        Measured(plain, plan),
        Measured(second) if second is not None else None,
        cast,
        f"a must share of {large.must_share:.2f}, no relevant memory among them" if large else "as recorded",
        request.path,
        screen,
        floor,
    )


def accept_run(
    run: RunDirectory,
    *,
    candidates: Sequence[str] = CANDIDATES,
    screen: int | None = None,
    readings: bool = False,
    floor_from: str | None = None,
) -> Acceptance:
    """Judge the candidates on an existing run with its own must share; ``readings`` as in :func:`accept_set`.

    Raises :class:`UnusableInput` if an arm is missing, with the command that adds it.
    """
    run.require_done()
    request = ReplayRequest.of_manifest(run.manifest.asked)
    names = [candidate.partition("=")[0] for candidate in candidates]
    arms = [*request.arms, *(arm for arm in (OLD, *names, HYBRID, VECTOR) if arm not in run.arms)]
    command = command_with(run.manifest, arms, "NEW")
    measured = Measured(run)
    floor = floor_for(measured.plan, floor_from) if readings else None
    limit = floor.value if floor else None
    cast = cast_in(run.manifest.resolved.arms, candidates, str(run.path), command, limit)
    return _judged(measured, None, cast, "as recorded", request.path, screen, floor)


def _replayed(request: ReplayRequest, folder: Path, jobs: int, announce: Announce) -> RunDirectory:
    outcome = run_replay(request, folder, jobs=jobs, announce=announce)
    if outcome.failures:
        raise CannotMeasure(f"{counted(len(outcome.failures), 'conversation')} failed; see {folder / 'failures.jsonl'}")
    score_and_write(outcome.run)
    return outcome.run


def _judged(
    plain: Measured,
    second: Measured | None,
    cast: Cast,
    large: str,
    path: str,
    screen: int | None,
    floor: Floor | None,
) -> Acceptance:
    runs = Runs(plain, second, cast, large, screen)
    results = [judge(criterion, runs, arm) for arm in cast.judged for criterion in CRITERIA]
    results.append(judge(M1, runs, HYBRID))
    resolved = plain.run.manifest.resolved
    about = (
        f"{shown_path(path)}: {counted(len(plain.run.conversations), 'conversation')}, {plain.run.haystack}, labels "
        f"{plain.run.labels}, scope {resolved.scope}, {resolved.embedder_model}"
    )
    folders = tuple(str(measured.run.path) for measured in (plain, second) if measured is not None)
    readings = {variant.arm: f"{variant.of}, reading {variant.reading}" for variant in cast.others}
    rows = tuple(compared(plain, cast.readings))
    why = _trial(plain.run, cast)
    return Acceptance(about, cast.candidates, readings, tuple(results), folders, large, why, floor, rows)


def _trial(run: RunDirectory, cast: Cast) -> tuple[str, ...]:
    """Return why the run as recorded is a trial; variants have a configuration of their own by design."""
    variants = {*cast.plain.values(), *(variant.arm for variant in cast.others)}
    request = ReplayRequest.of_manifest(run.manifest.asked)
    arms = [arm for arm in request.arms if arm.partition("=")[0] not in variants]
    return trial(replace(run.manifest, asked={**run.manifest.asked, "arms": arms}))


def shown_status(result: Result) -> str:
    """Return the status of a result in words."""
    return result.status if result.applies else NOT_APPLICABLE


def headline(acceptance: Acceptance) -> str:
    """Return the verdict in one sentence."""
    parts = []
    for arm in acceptance.candidates:
        own = acceptance.of(arm)
        counts = Counter(shown_status(result) for result in own)
        words = (PASS, FAIL, INCONCLUSIVE, NOT_APPLICABLE)
        parts.append(f"{arm} " + ", ".join(f"{counts[word]} {word}" for word in words if counts[word]))
    (m1,) = (result for result in acceptance.results if result.criterion == M1.id)
    return f"{acceptance.status.upper()}: of the five criteria {'; '.join(parts)}; M1 {m1.status}"


# Below them, :func:`readings_table`.
HEADERS = ("candidate", "reading", *(criterion.id for criterion in CRITERIA), "rollout", "hit")


def readings_table(acceptance: Acceptance) -> list[list[str]]:
    """Return a row for each candidate and reading: the criteria, the gate's policy ``rollout``, and Success@k."""
    rows = []
    for variant, rollout, _, hit in acceptance.compared:
        criteria = [result.status if result.applies else "–" for result in acceptance.of(variant.arm)]
        cells = [SHORT.get(status, status) for status in (*criteria, rollout)]
        rows.append([variant.of, variant.reading, *cells, f"{hit:.3f}" if hit is not None else "–"])
    return rows


def gate_verdicts(acceptance: Acceptance) -> list[GateVerdict]:
    """Return the results as verdicts of the gate, one for each arm, for its outputs."""
    arms = dict.fromkeys(result.arm for result in acceptance.results)
    verdicts = []
    for arm in arms:
        own = acceptance.of(arm)
        lines = tuple(
            Line(
                "criterion",
                f"{result.criterion} {result.title}",
                result.status,
                arm not in acceptance.readings and result.applies,
                result.reason.removesuffix("."),
                result.settles,
            )
            for result in own
        )
        status = min((result.status for result in own if result.applies), key=GRAVITY.index)
        verdicts.append(
            GateVerdict(
                f"acceptance {arm}",
                "The acceptance criteria of the design documents.",
                acceptance.runs[0],
                VECTOR if arm == HYBRID else OLD,
                arm,
                status,
                lines,
                trial=acceptance.trial,
            )
        )
    return verdicts


def write_files(acceptance: Acceptance, folder: Path) -> list[Path]:
    """Write verdict.json and verdict.xml (JUnit), each atomically.

    Raises :class:`UnusableInput`, and writes nothing, if the folder has another verdict.
    """
    path = folder / FILES[0]
    if path.exists():
        try:
            known = json.loads(read_text(path))
        except ValueError:
            known = None
        if not isinstance(known, dict) or known.get("schema") != SCHEMA:
            raise UnusableInput(f"{path}: exists and is not a verdict of `lab acceptance`; choose another --out")
    data = (dump_json(acceptance.as_json()), junit(*gate_verdicts(acceptance)))
    files = [folder / name for name in FILES]
    for file, content in zip(files, data, strict=True):
        write_atomically(file, content)
    return files
