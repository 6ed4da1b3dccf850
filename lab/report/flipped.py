"""The turns that flipped between two arms, each with the explanations that tell why."""

from __future__ import annotations

from shlex import join
from typing import NamedTuple

from lab.compare.paired import Comparison
from lab.errors import LabError
from lab.replay.explain import explain
from lab.replay.plan import Plan, plan_of
from lab.report.explanation import explanation_text
from lab.runs.directory import RunDirectory
from lab.runs.gold import read_gold
from lab.systems.contract import Detail

SHOWN = 12
# The slices that say what a probe tries, as golden sets call them.
TRIES = ("type", "ability", "category", "category_name")


class Told(NamedTuple):
    """One arm's side of a turn: its explanation, or None, and the command that tells it."""

    arm: str
    text: str | None
    command: str


class Flip(NamedTuple):
    """One turn whose hit was gained or lost, and what its probe tries; the arm that missed it comes first."""

    turn: str
    sides: tuple[Told, Told]
    tries: str | None = None


class Flips(NamedTuple):
    """The first turns gained or lost, how many more there are, and the command that lists all."""

    name: str
    turns: tuple[Flip, ...]
    total: int
    more: int
    command: str


class Flipped(NamedTuple):
    """Gained and lost turns; ``problem`` says why nothing is explained."""

    sides: tuple[Flips, ...]
    problem: str | None = None


def flipped(
    run: RunDirectory, found: Comparison, *, with_text: bool, most: int = SHOWN, folder: str = "DIR"
) -> Flipped:
    """The first ``most`` turns of either side, explained where the recordings are at hand and are those of the run.

    ``folder`` is what commands call the run. Texts of turns and memories are shown only where they are asked for.
    """
    tries = {
        probe: next((gold.slices[name] for name in TRIES if name in gold.slices), None)
        for probe, gold in read_gold(run).items()
    }
    plan, problem = _plan(run) if most and (found.gained or found.lost) else (None, None)
    arms = {"Gained": (found.baseline, found.candidate), "Lost": (found.candidate, found.baseline)}
    sides = []
    for name, keys in (("Gained", found.gained), ("Lost", found.lost)):
        turns = []
        for key in keys[:most]:
            told = []
            for arm in arms[name]:
                text: str | None = None
                if plan and not problem:
                    text, problem = _explained(run, key, arm, plan, with_text)
                told.append(Told(arm, text, join(["lab", "explain", folder, key, "--arm", arm])))
            turns.append(Flip(key, (told[0], told[1]), tries.get(key)))
        compared = ["lab", "compare", folder, "--baseline", found.baseline, "--candidate", found.candidate, "--json"]
        sides.append(Flips(name, tuple(turns), len(keys), len(keys) - len(turns), join(compared)))
    return Flipped(tuple(sides), problem)


def _plan(run: RunDirectory) -> tuple[Plan | None, str | None]:
    try:
        return plan_of(run), None
    except LabError as error:
        return None, str(error)


def _explained(run: RunDirectory, key: str, arm: str, plan: Plan, with_text: bool) -> tuple[str | None, str | None]:
    try:
        return explanation_text(explain(run, key, arm, plan, Detail(with_text)), with_text=with_text), None
    except LabError as error:
        return None, str(error)
