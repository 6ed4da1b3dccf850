"""Seed a defect of each code into made-up fact sets without one, and count those that the lint finds.

    python tests/trials/facts_lint.py --sets 30

A defect is found if the lint names its code at its fact. The sets themselves must have no issue.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from lab.memory.facts.view import CODES, View, lint
from tests.memory.facts.seeded import clean, seeded


def main() -> None:
    """Seed, count, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--sets", type=int, default=30)
    options = parser.parse_args()
    found = dict.fromkeys(CODES, 0)
    facts = issues = 0
    for seed in range(options.sets):
        with tempfile.TemporaryDirectory(prefix="facts-lint-") as name:
            here = clean(Path(name), seed)
            facts += len(here.view)
            issues += len(lint(here.view, here.sources))
            for code in CODES:
                records, identity = seeded(here, code, seed)
                named = {(issue.code, issue.fact) for issue in lint(View(records), here.sources)}
                found[code] += (code, identity) in named
    for code, number in found.items():
        print(f"{code:32} {number} of {options.sets}")
    print(f"{sum(found.values())} of {options.sets * len(CODES)} defects found; {issues} issues in {facts} clean facts")


if __name__ == "__main__":
    main()
