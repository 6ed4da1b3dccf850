"""False alarms and power of the comparison: simulated designs with conversation effects.

``python tests/trials/nulls.py [--draws 2000]`` prints, for each design, the share of draws without any difference in
which the clustered interval leaves out 0 and the sign-flip's p is below .05, and the same with a true difference: the
power.

A probe's difference is +1, 0 or -1 (a hit gained or lost: discordant with share .12), plus an effect of its
conversation.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from lab.compare.statistics import clustered, sign_flip

DESIGNS = ((10, 200), (24, 10), (40, 50))
EFFECT, DISCORDANT = 0.03, 0.12


def draw(random: np.random.Generator, conversations: int, probes: int, shift: float) -> dict[str, list[float]]:
    """Differences by conversation. The chance of a gain is shifted by the conversation's effect and by ``shift``."""
    found = {}
    for number in range(conversations):
        lean = shift + random.normal(0.0, EFFECT)
        gain, loss = (DISCORDANT + lean) / 2, (DISCORDANT - lean) / 2
        u = random.random(probes)
        found[str(number)] = ((u < max(gain, 0)) * 1.0 - (u > 1 - max(loss, 0)) * 1.0).tolist()
    return found


def rates(conversations: int, probes: int, shift: float, draws: int, seed: int = 0) -> tuple[float, float]:
    """Return the shares of draws in which the interval excludes 0, and in which p is below .05."""
    random = np.random.default_rng(seed)
    outside = below = 0
    for _ in range(draws):
        groups = draw(random, conversations, probes, shift)
        found = clustered(groups)
        outside += found.low is not None and found.high is not None and not found.low <= 0 <= found.high
        below += sign_flip([sum(values) for values in groups.values()]) < 0.05
    return outside / draws, below / draws


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=2000)
    given = parser.parse_args()
    sys.stdout.write(f"{'design':<12}{'difference':>11}{'interval':>10}{'sign-flip':>11}\n")
    for conversations, probes in DESIGNS:
        for shift in (0.0, 0.02, 0.03, 0.05):
            interval, flip = rates(conversations, probes, shift, given.draws)
            sys.stdout.write(f"{conversations:>3} x {probes:<6}{shift:>11.2f}{interval:>10.3f}{flip:>11.3f}\n")


if __name__ == "__main__":
    main()
