"""Compare the live plugin with profile ``upstream``: ``nox -s peers -- FOLDER``, or ``python tests/peers FOLDER``.

Prints a table of families and configurations, and ends with 1 where a turn differs, with 4 where nothing can be run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from lab.base.processes import set_up
from lab.cli.output import complain, emit, emit_table

# Set before numpy is loaded: one BLAS thread, as in every process of the lab.
set_up()

from beside import Compared, compare  # noqa: E402 - after set_up()
from families import families  # noqa: E402 - after set_up()
from needs import Missing, find_node, find_plugin  # noqa: E402 - after set_up()


def arguments(words: list[str]) -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(prog="nox -s peers --", description="The live plugin beside profile upstream.")
    parser.add_argument("folder", nargs="?", help="the plugin, with its packages (else the variable LAB_PLUGIN)")
    parser.add_argument("--turns", type=int, default=40, metavar="N", help="turns a configuration (default 40)")
    parser.add_argument("--seed", type=int, default=13, metavar="N", help="what stores and turns are drawn from")
    parser.add_argument("--only", default="", metavar="TEXT", help="families whose name contains this")
    return parser.parse_args(words)


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
        for number, family in enumerate(families(given.turns, given.seed)):
            if given.only in family.name:
                try:
                    found += compare(node, folder, family, Path(place) / str(number))
                except Missing as error:
                    complain(str(error))
                    return 4
    emit_table(
        ["family", "configuration", "turns", "injected", "equal"],
        [[one.family, one.settings, str(one.turns), str(one.injected), str(one.equal)] for one in found],
    )
    for one in found:
        if one.first:
            emit(f"{one.family}, {one.settings}: {one.first}")
    emit(f"{sum(one.equal for one in found)} of {sum(one.turns for one in found)} turns equal")
    return int(any(one.first for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
