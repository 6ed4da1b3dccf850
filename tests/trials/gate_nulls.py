"""False alarms of a policy on a run: A/A draws, and how often each of its rules alone is significant without an effect.

python tests/trials/gate_nulls.py RUN [--policy rollout] [--draws 2000]

In each draw a coin decides for every conversation whether the two arms swap their results, so neither is better. A rule
alone, with a margin of 0 at the 5 % level, should be significant in about 5 % of the draws. The verdicts of the policy
as it is are counted beside: for two arms that are swapped, and for an arm against itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lab.gate.policy import read_policy
from lab.gate.selftest.run import clean_run, judge_swaps, pairs_to_swap


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--policy", default="rollout")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    policy = read_policy(given.policy)
    clean = {"run": clean_run(given.run)}
    sampled = judge_swaps(clean, pairs_to_swap(clean, policy), policy, given.draws, given.seed)
    for pair, counts in sampled.statuses.items():
        print(f"{pair.first} swapped with {pair.second}: {counts} of {sampled.draws}")
    for name, count in sorted(sampled.rules.items()):
        print(f"  failed: {name}: {count}")
    print("| rule alone, margin 0, level 5 % | significant |")
    print("| --- | ---: |")
    for name, count in sampled.nulls.items():
        print(f"| {name} | {count / sampled.draws:.1%} |")


if __name__ == "__main__":
    main()
