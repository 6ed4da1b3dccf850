"""Recall over generated stores in which most memories may not be selected, and count those that starve.

``python tests/trials/starving.py [--stores N] [--first SEED]`` prints each store where a tier with a memory that may be
selected stays empty, or where the receipt gives a wrong reason; it ends with 1 if there is one. The suite does the same
on fewer stores (``tests/systems/openclaw/seed/test_exclusions.py``).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.starving import failure


def main() -> int:
    """Run the trial and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--stores", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    starving = 0
    for seed in range(given.first, given.first + given.stores):
        problem = failure(seed)
        if problem is not None:
            starving += 1
            print(problem)
    print(f"{starving} of {given.stores} generated stores starve")
    return 1 if starving else 0


if __name__ == "__main__":
    sys.exit(main())
