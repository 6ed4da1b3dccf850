"""Benchmark ratios of the lab's speed: ``python tests/benchmarks/ratios``, or ``nox -s bench``.

Each divides a time by another of the same run, both measured by turns, so that a ratio means the same on any machine.
Nothing here fails on a time: what a target says is told, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from lab.base.errors import LabError
from lab.base.processes import set_up
from lab.cli.output import announce, complain

# Set before numpy is loaded: one BLAS thread, as in every process of the lab.
set_up()

from beside import beside_checkout, beside_stored, tell_beside  # noqa: E402 - after set_up()
from harness import PROJECT, RATIOS, Bench, chosen, load, measured  # noqa: E402 - after set_up()
from shown import read_result, result, tell, write_result  # noqa: E402 - after set_up()

# Each module registers its ratios, in the order in which they are measured and printed.
for room in ("turns", "commands", "live", "embedding", "others", "million"):
    import_module(room)


def arguments(words: list[str]) -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(
        prog="nox -s bench --",
        description="Ratios of times of one run.",
        epilog=f"Ratios: {', '.join(one.name + (' (if named)' if one.asked_only else '') for one in RATIOS)}.",
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a ratio or the start of names")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="pairs of samples of each (default 5)")
    parser.add_argument("--out", type=Path, default=PROJECT / "reports" / "bench.json", metavar="FILE")
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", metavar="FOLDER")
    parser.add_argument(
        "--compare", type=Path, metavar="WHAT", help="a stored result, or a checkout that is measured by turns with us"
    )
    given = parser.parse_args(words)
    if given.repeats < 1:
        parser.error(f"--repeats {given.repeats} is not a whole number from 1")
    return given


def main(words: list[str]) -> int:
    """Measure, write and print."""
    given = arguments(words)
    ratios = chosen(given.only)
    stored = given.compare is not None and not given.compare.is_dir()
    if stored:
        read_result(given.compare)
    before, done = load(), list[dict[str, Any]]()
    with Bench(given.data, announce) as bench:
        if given.compare is not None and not stored:
            compared = beside_checkout(ratios, given.repeats, given.compare, bench)
            write_result(given.out, result([], given.repeats, before) | {"compared": compared})
            tell_beside(compared)
            return 0
        for one in measured(ratios, bench, given.repeats):
            done.append(one)
            # Results so far are kept even if a later ratio fails.
            found = result(done, given.repeats, before)
            write_result(given.out, found)
    tell(found)
    if stored:
        found["compared"] = beside_stored(found, given.compare)
        write_result(given.out, found)
        tell_beside(found["compared"])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        complain("interrupted; what was measured is kept")
        sys.exit(130)
