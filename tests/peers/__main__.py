"""Compare the live plugin with profile ``upstream``: ``nox -s peers -- FOLDER``, or ``python tests/peers FOLDER``.

By default 5,200 turns in 16 configurations, 300 tool calls, 500 capture events, and ten long sequences of them. Prints
a line for each comparison, and ends with 1 where one differs, with 4 where nothing can be run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.base.processes import set_up
from lab.cli.output import complain, emit

# Set before numpy is loaded: one BLAS thread, as in every process of the lab.
set_up()

from beside import Compared, compare  # noqa: E402 - after set_up()
from captures import LENGTHS, compare_captures  # noqa: E402 - after set_up()
from families import SETTINGS, families  # noqa: E402 - after set_up()
from needs import Missing, find_node, find_plugin  # noqa: E402 - after set_up()
from tools import NAME as TOOLS_NAME  # noqa: E402 - after set_up()
from tools import compare_tools  # noqa: E402 - after set_up()


def arguments(words: list[str]) -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(prog="nox -s peers --", description="The live plugin beside profile upstream.")
    parser.add_argument("folder", nargs="?", help="the plugin, with its packages (else the variable LAB_PLUGIN)")
    parser.add_argument("--turns", type=int, default=100, metavar="N", help="turns a configuration (default 100)")
    every = "run a family under every Nth configuration, the next one under those after them (default 4; 1: under all)"
    parser.add_argument("--every", type=int, default=4, metavar="N", help=every)
    parser.add_argument("--seed", type=int, default=13, metavar="N", help="what everything is drawn from (default 13)")
    parser.add_argument("--only", default="", metavar="TEXT", help="families whose name contains this")
    return parser.parse_args(words)


def compared(given: argparse.Namespace, node: str, folder: Path, place: Path) -> Iterator[Compared]:
    """Yield every comparison that was asked for."""
    for number, family in enumerate(families(given.turns, given.seed)):
        if given.only in family.name:
            names = list(SETTINGS)[number % given.every :: given.every]
            yield from compare(node, folder, family, place / str(number), names)
    if given.only in TOOLS_NAME:
        yield from compare_tools(node, folder, given.seed, place / "tools")
    for length in LENGTHS:
        if given.only in length.name:
            yield from compare_captures(node, folder, given.seed, place / length.name, length)


def main(words: list[str]) -> int:
    """Compare and print."""
    given = arguments(words)
    try:
        node, folder = find_node(), find_plugin(given.folder)
    except Missing as error:
        complain(str(error))
        return 4
    found: list[Compared] = []
    with tempfile.TemporaryDirectory(prefix="recall-lab-peers-") as place:
        # The provider has a new port in every run, so its cached vectors cannot be reused.
        os.environ["LAB_CACHE_DIR"] = f"{place}/cache"
        try:
            for one in compared(given, node, folder, Path(place)):
                found.append(one)
                counted = f"{one.equal} of {one.turns} {one.what} equal, {one.injected} memories"
                emit(f"{one.family}, {one.settings}: {counted}")
                if one.first:
                    emit(one.first)
        except Missing as error:
            complain(str(error))
            return 4
    for what in dict.fromkeys(one.what for one in found):
        of_it = [one for one in found if one.what == what]
        equal, count = sum(one.equal for one in of_it), sum(one.turns for one in of_it)
        settings = len({one.settings for one in of_it})
        emit(f"{equal:,} of {count:,} {what} equal, seed {given.seed}, {settings} configurations")
    return int(any(one.first for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
