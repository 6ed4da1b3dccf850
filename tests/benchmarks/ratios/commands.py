"""Ratios of whole commands, each in its own process, to the time of importing their libraries.

Caches are warm: the first round does not count. Every round writes to a new folder, for a run that is there would be
skipped.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from harness import PROJECT, Bench, Side, Sides, ratio

import lab
from lab.base.errors import CannotMeasure
from lab.studies.sweep.grid import DEFAULT

ARMS = ("--arm", "tier_first_v1", "--arm", "tier_quota_v1")
OWN = PROJECT / "datasets" / "operators"
# A sweep as in the command, without charts.
SWEEP_ALONE = (
    "import sys, pathlib; from lab.base.processes import set_up; set_up(); "
    "from lab.replay.plan import ReplayRequest; "
    "from lab.studies.sweep.grid import read_grid; from lab.studies.sweep.sweep import sweep; "
    "path, grid, out = sys.argv[1:]; "
    "sweep(ReplayRequest(path, 'realmem', ()), read_grid(pathlib.Path(grid)), pathlib.Path(out))"
)


def python(bench: Bench, *words: str | Path, folder: Path | None = None, **more: str) -> None:
    """Run Python with the measured lab, by default in the folder of the benchmark; ``more`` is of the environment."""
    # Bytecode is compiled in the warm-up round on both sides, as in an installed package.
    compiled = {"PYTHONPYCACHEPREFIX": str(bench.folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    known = os.environ | {"PYTHONPATH": str(Path(lab.__file__).parents[1])} | compiled | more
    done = subprocess.run(
        [sys.executable, *words], cwd=folder or bench.folder, env=known, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise CannotMeasure(f"{' '.join(map(str, words[:3]))} ended with {done.returncode}: {last}")


def importing(bench: Bench, *names: str) -> Side:
    """Import libraries and exit."""
    statement = f"import {', '.join(names)}" if names else "pass"
    return Side(f"python -c '{statement}'", lambda: python(bench, "-c", statement))


def replay_and_score(bench: Bench, path: Path, format_name: str) -> Side:
    """Replay and score both policies in one process."""

    def work() -> None:
        out = bench.new_folder()
        python(bench, "-m", "lab", "replay", path, "--format", format_name, *ARMS, "--score", "--out", out)

    return Side(f"lab replay --score, {path.name}, two arms, all measures", work)


@ratio("realmem", at_most=3, about="RealMem's dev personas replayed and scored, over importing what that needs.")
def realmem(bench: Bench) -> Sides:
    """Four personas, 2,600 user turns."""
    over = replay_and_score(bench, bench.public("realmem"), "realmem")
    return Sides(over, importing(bench, "numpy", "pandas", "pyarrow"))


@ratio("own-set", at_most=2.5, about="The shipped set replayed and scored, over importing lancedb and pandas.")
def own_set(bench: Bench) -> Sides:
    """Six conversations."""
    return Sides(replay_and_score(bench, OWN, "lab"), importing(bench, "lancedb", "pandas"))


# Commands that answer at once, and how many times the processor time of a Python that does nothing each may take.
ANSWERS: dict[str, tuple[str, float]] = {
    "help": ("--help", 10),
    "completion": ("", 10),
    "measures": ("score --list", 10),
    "gate-policies": ("gate policies", 10),
    "config-check": ("config check engine.json", 25),
    "runs-list": ("runs list .", 10),
    "explain": ("explain run translator-desk/s01/t01", 25),
}
# A sample is the mean of so many processes.
PROCESSES = 8
# What a shell runs to complete ``lab rep``.
COMPLETED = {"_LAB_COMPLETE": "complete_bash", "COMP_WORDS": "lab rep", "COMP_CWORD": "1"}
ENTRY = "import sys; sys.argv[0] = 'lab'; from lab.__main__ import main; main()"


def answers(bench: Bench, name: str) -> Sides:
    """The processor time of a command in a folder with a run of the shipped set, relative to Python's."""

    words, _ = ANSWERS[name]

    def place() -> Path:
        folder = bench.new_folder()
        folder.mkdir()
        (folder / "engine.json").write_text('{"autoRecall": {"maxItems": 6}}', encoding="utf-8")
        if "run" in words:
            python(bench, "-m", "lab", "replay", OWN, "--format", "lab", *ARMS, "--out", folder / "run")
        return folder

    def spent(*words: str, **more: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(PROCESSES):
            python(bench, *words, folder=folder, **more)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / PROCESSES

    folder, more = bench.keep("answers", "run" in words, place), {} if words else COMPLETED
    return Sides(
        Side(f"lab {words or name}", lambda: spent("-c", ENTRY, *words.split(), **more), unit="ms of a processor"),
        Side("python -c pass", lambda: spent("-c", "pass"), unit="ms of a processor"),
    )


for name, (words, most) in ANSWERS.items():
    ratio(name, at_most=most, about=f"Processor time of lab {words or name}, over a Python that does nothing.")(
        partial(answers, name=name)
    )


def grids(bench: Bench) -> tuple[Path, Path]:
    """Write the default grid, and its first configuration, as files."""
    one = {"arm": DEFAULT["arm"], "grid": {path: values[:1] for path, values in DEFAULT["grid"].items()}}
    paths = (bench.folder / "many.json", bench.folder / "one.json")
    for path, grid in zip(paths, (DEFAULT, one), strict=True):
        path.write_text(json.dumps(grid), encoding="utf-8")
    return paths


@ratio(
    "sweep",
    at_most=10,
    about="lab study sweep of the 200 configurations over lab study sweep of one, RealMem's dev personas.",
)
def sweep(bench: Bench) -> Sides:
    """The command with all its outputs, including charts."""
    data = bench.public("realmem")
    return sweeps(
        bench, lambda grid: ("-m", "lab", "study", "sweep", data, "--format", "realmem", "--grid", grid, "--out")
    )


@ratio(
    "sweep-alone",
    at_most=10,
    about="The same without the table and the charts, which cost one grid what they cost all.",
)
def sweep_alone(bench: Bench) -> Sides:
    """The sweep without outputs."""
    data = bench.public("realmem")
    return sweeps(bench, lambda grid: ("-c", SWEEP_ALONE, data, grid))


def sweeps(bench: Bench, words: Callable[[Path], Sequence[str | Path]]) -> Sides:
    """All configurations relative to one."""
    many, one = grids(bench)
    return Sides(
        Side("200 configurations", lambda: python(bench, *words(many), bench.new_folder())),
        Side("one", lambda: python(bench, *words(one), bench.new_folder())),
    )
