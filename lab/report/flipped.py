"""The turns whose hit was gained or lost between two arms, each with explanations of both arms."""

from __future__ import annotations

from shlex import join
from typing import NamedTuple

from lab.compare.paired import Comparison
from lab.report.again import Again
from lab.runs.directory import RunDirectory

SHOWN = 12


class Side(NamedTuple):
    """One arm at a turn: its explanation, or None, and the command that prints it."""

    arm: str
    text: str | None
    command: str


class Flip(NamedTuple):
    """One turn whose hit was gained or lost; the arm that missed comes first."""

    turn: str
    sides: tuple[Side, Side]


class Flips(NamedTuple):
    """The first gained or lost turns, how many more there are, and the command that lists all."""

    name: str
    turns: tuple[Flip, ...]
    total: int
    more: int
    command: str


class Flipped(NamedTuple):
    """Gained and lost turns; ``problem`` says why there are no explanations."""

    sides: tuple[Flips, ...]
    problem: str | None = None


def flipped(
    run: RunDirectory,
    comparison: Comparison,
    *,
    with_text: bool,
    most: int = SHOWN,
    folder: str = "DIR",
    again: Again | None = None,
) -> Flipped:
    """Return the first ``most`` gained and lost turns, explained if the run's recordings can be read unchanged.

    Commands name the run ``folder``. ``with_text`` includes the texts of turns and memories. ``again`` explains them.
    """
    again = again or Again(run)
    arms = {"Gained": (comparison.baseline, comparison.candidate), "Lost": (comparison.candidate, comparison.baseline)}
    changed = {"Gained": comparison.gained, "Lost": comparison.lost}
    wanted = [(key, arm) for name, keys in changed.items() for key in keys[:most] for arm in arms[name]]
    texts = again.explanations(wanted, with_text=with_text)
    sides = []
    for name, keys in changed.items():
        turns = []
        for key in keys[:most]:
            first, second = (
                Side(arm, texts.get((key, arm)), join(["lab", "explain", folder, key, "--arm", arm]))
                for arm in arms[name]
            )
            turns.append(Flip(key, (first, second)))
        command = [
            "lab",
            "compare",
            folder,
            "--baseline",
            comparison.baseline,
            "--candidate",
            comparison.candidate,
            "--json",
        ]
        sides.append(Flips(name, tuple(turns), len(keys), len(keys) - len(turns), join(command)))
    return Flipped(tuple(sides), again.problem)
