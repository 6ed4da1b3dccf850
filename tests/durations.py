"""Which tests are slow, by measured processor time: ``python -m tests.durations TIMES [--write]``.

``tests/durations.json`` lists the tests, all cases of one together, and the fixtures of a module or wider, that take
:data:`SLOW` seconds or more; ``tests/guard.py`` marks them, and what uses them. Tests of :data:`LONG` seconds, and
those that use a fixture of twice as many, are left to ``nox -s full``, but for :data:`KEPT`. A run of pytest with
``LAB_TEST_TIMES=TIMES`` appends to a file what each takes. The check of ``nox -s full`` compares the two: what differs
by more than :data:`MARGIN` is run :data:`RUNS` times more, and fails if its median differs as well. ``--write`` lists
anew what TIMES has, and keeps the rest.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_suffix(".json")
SLOW, LONG, MARGIN, RUNS = 0.2, 4.0, 3.0, 5
# What holds the main promises: equal bytes of every system, an identity that covers what a run loads, no text that a
# receipt does not list, scores with the real model, sealed runs, canaries that are killed, a verdict of acceptance.
KEPT = (
    "tests/cli/test_nightly_cli.py::test_two_nightly_runs_end_to_end",
    "tests/conformance/test_conformance.py::test_recorded_answers_agree",
    "tests/canary/rollout/test_kills.py::test_canaries_killed_before_a_call_leave_the_gateway_as_before",
    "tests/replay/test_unlisted.py::test_every_shipped_system_lists_what_its_text_holds",
    "tests/runs/test_sealed.py::test_stored_scores_that_the_manifest_does_not_seal_decide_nothing",
    "tests/systems/test_hybrid.py::test_hybrid_hits_more_often_on_the_shipped_set",
    "tests/test_code.py::test_closure_covers_every_module_that_a_replay_loads",
    "tests/test_determinism.py::test_two_processes_write_identical_receipts",
    "tests.studies.acceptance.test_verdict.judged",
)
# Whichever test comes first would pay for them.
IMPORTS = ("lancedb", "matplotlib.pyplot", "pandas", "scipy.stats", "sentence_transformers")
NARROW = ("function", "class")


def listed() -> dict[str, float]:
    """Return the seconds of what is listed as slow, by :func:`names_of`."""
    return dict(json.loads(FILE.read_text("utf-8")))


def marks() -> dict[str, str]:
    """Return the marker of what is listed."""
    return {
        name: "full" if seconds >= (LONG if "::" in name else 2 * LONG) and name not in KEPT else "slow"
        for name, seconds in listed().items()
    }


def names_of(item: pytest.Item) -> list[str]:
    """Return the names of a test, without its case, and of the fixtures that it uses."""
    known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return [item.nodeid.partition("[")[0], *(_named(defined[-1]) for defined in known.values())]


def _named(fixture: pytest.FixtureDef[Any]) -> str:
    return f"{fixture.func.__module__}.{fixture.argname}"


def spent() -> float:
    """Return the processor seconds of this process and its ended children, which depend little on the load."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Times:
    """Appends to a file what each test takes, without the wide fixtures that it is the first to use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fixtures = 0.0
        for name in IMPORTS:
            importlib.import_module(name)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        """Measure a fixture of a module or wider, without those that it needs."""
        if fixturedef.scope in NARROW:
            return (yield)
        begun, before = spent(), self._fixtures
        try:
            return (yield)
        finally:
            own = spent() - begun - (self._fixtures - before)
            self._fixtures += own
            self._put(_named(fixturedef), own)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Measure a test and its narrow fixtures."""
        begun, self._fixtures = spent(), 0.0
        try:
            return (yield)
        finally:
            self._put(item.nodeid, spent() - begun - self._fixtures)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Repeat each test, if the check asks for it."""
        if runs := os.environ.get("LAB_TEST_RUNS"):
            metafunc.fixturenames.append("_run")
            metafunc.parametrize("_run", range(int(runs)))

    def _put(self, name: str, seconds: float) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, round(seconds, 3)]) + "\n")


def measured(path: Path) -> dict[str, list[float]]:
    """Return the seconds of each test, by run, with those of all its cases, and of each fixture."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in path.read_text("utf-8").splitlines():
        name, seconds = json.loads(line)
        run = re.search(r"(\d+)\]$", name) if "LAB_TEST_RUNS" in os.environ else None
        found[name.partition("[")[0]][run[1] if run else ""] += seconds
    return {name: list(runs.values()) for name, runs in found.items()}


def differs(seconds: float, known: float | None) -> bool:
    """Return whether a test takes so much more or less than listed that it should be listed otherwise."""
    if known is None:
        return seconds > SLOW * MARGIN
    return not known / MARGIN <= seconds <= known * MARGIN


def again(name: str) -> float:
    """Return the median of what a test takes in several runs of one process: imports count in the first alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "times")
        os.environ |= {"LAB_TEST_TIMES": str(path), "LAB_TEST_RUNS": str(RUNS)}
        words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", name]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        return statistics.median(measured(path)[name])


def main() -> int:
    """Compare the list with measured times, or write it; return 1 if something should be listed otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.durations", description=str(__doc__).partition("\n")[0])
    parser.add_argument("times", type=Path, metavar="TIMES")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found, known = {name: max(runs) for name, runs in measured(given.times).items()}, listed()
    if given.write:
        slow = {name: round(seconds, 1) for name, seconds in found.items() if seconds >= SLOW}
        kept = {name: seconds for name, seconds in known.items() if name not in found} | slow
        FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
        print(f"{FILE.name}: {len(slow)} of {len(found)} take {SLOW} seconds or more")
        return 0
    wrong = 0
    for name, seconds in found.items():
        # A fixture is built once in a run, so it counts as it was measured.
        if differs(seconds, known.get(name)) and differs(
            median := again(name) if "::" in name else seconds, known.get(name)
        ):
            wrong += 1
            print(f"{name}: takes {median:.1f} s, listed {known.get(name, 'as quick')}")
    for name in known.keys() - found.keys():
        wrong += 1
        print(f"{name}: is listed, and did not run")
    print(
        f"{wrong} of {len(found)} should be listed otherwise"
        + (": python -m tests.durations TIMES --write" * bool(wrong))
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
