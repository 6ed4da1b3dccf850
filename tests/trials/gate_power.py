"""How often the rollout policy would decide with other conversations, or with fewer: bootstrap draws of a run.

python tests/trials/gate_power.py RUN [--policy rollout] [--draws 400] [--sizes 8,16,24,38] [--arm ARM]

Each draw takes conversations of the run with replacement; each counts as one of its own. The rules that compare arms
are judged for each arm against the policy's baseline and control; limits of safety are the same in every draw and left
out. The share of passes of an arm that ought to pass is the power; that of fails of one that ought to fail, too.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lab.compare.judgements import Exposed
from lab.compare.paired import Pairs
from lab.gate.evidence import Evidence, evidence
from lab.gate.line import GRAVITY, INCONCLUSIVE, SKIPPED
from lab.gate.measures import judge_compared
from lab.gate.policy import DIFFERENCES, Policy, read_policy
from lab.runs.directory import open_run


def resampled(pairs: Pairs, chosen: Sequence[str]) -> Pairs:
    """Return the pairs of the chosen conversations; one that is chosen twice counts as two."""
    rows = defaultdict(list)
    for row, name in enumerate(pairs.conversation):
        rows[name].append(row)
    taken = [(row, number) for number, name in enumerate(chosen) for row in rows[name]]
    return pairs._replace(
        at=[f"{number}/{pairs.at[row]}" for row, number in taken],
        conversation=[str(number) for _, number in taken],
        baseline=[pairs.baseline[row] for row, _ in taken],
        candidate=[pairs.candidate[row] for row, _ in taken],
    )


def drawn(data: Evidence, chosen: Sequence[str]) -> Evidence:
    """Return the evidence of the chosen conversations, without their slices' names."""

    def exposed(found: Exposed) -> Exposed:
        return found._replace(pairs=resampled(found.pairs, chosen))

    sides = ({name: resampled(pairs, chosen) for name, pairs in side.items()} for side in (data.pairs, data.control))
    pairs, control = ({name: some for name, some in side.items() if some.at} for side in sides)
    slices = {f"{number}/{probe}": value for number in range(len(chosen)) for probe, value in data.slices.items()}
    return replace(
        data,
        pairs=pairs,
        control=control,
        slices=slices,
        exposed={key: exposed(found) for key, found in data.exposed.items()},
    )


def status_of(policy: Policy, data: Evidence) -> str:
    """Return the verdict of the rules that compare arms."""
    rules = [
        replace(rule, slices=())
        for rule in policy.rules
        if rule.kind in DIFFERENCES and rule.critical and data.paired(rule) is not None
    ]
    decided = [line for line in judge_compared(policy, rules, data) if line.critical and line.status != SKIPPED]
    return min((line.status for line in decided), key=GRAVITY.index, default=INCONCLUSIVE)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--policy", default="rollout")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--sizes", default="8,16,24,38")
    parser.add_argument("--arm", action="append")
    given = parser.parse_args()
    run, shipped = open_run(given.run), read_policy(given.policy)
    print("| arm | conversations | pass | fail | inconclusive |\n| --- | ---: | ---: | ---: | ---: |")
    for arm in given.arm or [name for name in run.arms if name != shipped.baseline]:
        policy = shipped.of_pair(arm, shipped.baseline, run.arms)
        data = evidence(policy, policy.rules, run)
        for size in map(int, given.sizes.split(",")):
            random = np.random.default_rng([0, size])
            counted = Counter(
                status_of(policy, drawn(data, random.choice(run.conversations, size).tolist()))
                for _ in range(given.draws)
            )
            shares = " | ".join(f"{counted[status] / given.draws:.1%}" for status in ("pass", "fail", INCONCLUSIVE))
            print(f"| `{arm}` | {size} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
