"""One table of what each policy of a run finds, harms, repeats and costs, with its verdict under both rules.

python -m tests.trials.policy_table RUN [--baseline tier_first_v1]

RUN is a replay with the baseline and ``hybrid``, such as ``lab replay shipped:harms --scope recorded --arm …``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.base.errors import LabError
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.measures.score import score_run
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import Values

MEASURES = (
    *("Success@6", "CleanHit@6", "NetBenefit@6", "HarmAlone@6", "HarmBeside@6", "UptakeDelay@6", "Resurrection@6"),
    *("CollateralLoss@6", "PlantedInstruction@6", "SensitiveLeak@6", "FalseRecall", "RepeatRate", "InjectedTokens"),
)
RULES = ("rollout", "rollout-2026-11")


def verdict(run: RunDirectory, arm: str, baseline: str, rule: str) -> str:
    """Return the verdict of an arm, and the rules that it fails."""
    if arm == baseline:
        return "–"
    try:
        found = judge(read_policy(rule).of_pair(arm, baseline, run.arms), run)
    except LabError as error:
        return f"error: {error}"
    failed = dict.fromkeys(line.name for line in found.lines if line.critical and line.status == "fail")
    return found.status + (f": {', '.join(failed)}" if failed else "")


def mean(values: Mapping[str, Values], name: str) -> str:
    """Return a mean, or a dash without a value."""
    if name not in values:
        return "–"
    found: Sequence[float] = values[name].value
    average = sum(found) / len(found)
    return f"{average:.1f}" if abs(average) >= 2 else f"{average:.3f}"


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--baseline", default="tier_first_v1")
    given = parser.parse_args()
    run = open_run(given.run)
    scores = score_run(run)
    print(f"| policy | {' | '.join((*MEASURES, *RULES))} |\n| --- | {'---: | ' * len(MEASURES)}--- | --- |")
    for arm in run.arms:
        values = scores.of_arm(arm)
        cells = [mean(values, name) for name in MEASURES]
        print(f"| `{arm}` | {' | '.join(cells + [verdict(run, arm, given.baseline, rule) for rule in RULES])} |")


if __name__ == "__main__":
    main()
