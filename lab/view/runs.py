"""The runs that a viewer shows together: one, or several of the same recordings and golden set.

Arms of the first run keep their names; those of another run are called ``RUN:ARM``, so that every list, filter and
comparison takes any two arms of any two runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import Incomplete, UnusableInput
from lab.base.formatting import choices
from lab.compare.comparable import require_comparable
from lab.report.comparison import choose_pair
from lab.runs.directory import DIGESTS, MANIFEST, RECEIPTS, RunDirectory, open_run
from lab.runs.manifest import STARTED


class Place(NamedTuple):
    """Where an arm is: the number of its run, and its name there."""

    run: int
    arm: str


class Runs:
    """One or more runs with the same conversations, turns and golden set.

    Raises :class:`lab.base.errors.NotComparable` if they differ, and :class:`UnusableInput` for the same folder twice.
    """

    def __init__(self, runs: Sequence[RunDirectory]) -> None:
        self.all = tuple(runs)
        self.labels = _labels([run.path for run in runs])
        for other in runs[1:]:
            require_comparable(runs[0], other)
        self.places: dict[str, Place] = {}
        for number, run in enumerate(runs):
            for arm in run.arms:
                self.places[arm if number == 0 else f"{self.labels[number]}:{arm}"] = Place(number, arm)

    @property
    def first(self) -> RunDirectory:
        """The first run."""
        return self.all[0]

    @property
    def arms(self) -> list[str]:
        """The names of all arms, those of the first run first."""
        return list(self.places)

    def names(self, number: int) -> dict[str, str]:
        """Return the name here of each arm of a run."""
        return {place.arm: name for name, place in self.places.items() if place.run == number}

    def of(self, name: str) -> tuple[RunDirectory, str]:
        """Return the run of an arm, and its name there. Raises :class:`UnusableInput` for an unknown arm."""
        if name not in self.places:
            shown = self.first.path if len(self.all) == 1 else ", ".join(str(run.path) for run in self.all)
            raise UnusableInput(f"{shown}: has no arm {name!r}; {choices(name, self.arms, 'it has')}")
        place = self.places[name]
        return self.all[place.run], place.arm

    def most(self, name: str) -> int:
        """Return the maximum number of items that an arm injects."""
        run, arm = self.of(name)
        return run.max_items[arm]

    @property
    def contenders(self) -> list[str]:
        """The arms that can be the best of a row: those that are not given the grades."""
        return [name for name in self.arms if not (found := self.of(name))[0].arm(found[1]).needs_gold]

    def pair(self, baseline: str | None, candidate: str | None) -> tuple[str, str | None]:
        """Return the two arms to show, by default those of a report, or the same arm of the first two runs."""
        for name in (baseline, candidate):
            if name:
                self.of(name)
        if len(self.all) == 1:
            return choose_pair(self.first, baseline, candidate)
        base = baseline or next(name for name in self.arms if name != candidate)
        others = [name for name in self.arms if name != base]
        same = [name for name in others if self.places[name].arm == self.places[base].arm]
        return base, candidate or (same or others)[0]

    @property
    def stamp(self) -> str:
        """A text that changes when a file of a run is added or replaced."""
        return "-".join(f"{_changed(run.path / name):x}" for run in self.all for name in (MANIFEST, RECEIPTS, DIGESTS))

    def reopened(self) -> Runs:
        """Return the same runs as they are on disk now."""
        return Runs([open_run(run.path, allow_failed=True) for run in self.all])

    @property
    def growing(self) -> bool:
        """Whether a run is not finished yet."""
        return any(run.manifest.status == STARTED for run in self.all)

    def done(self) -> list[str]:
        """Return the conversations that all runs have replayed."""
        done = [set(run.done()) for run in self.all]
        return [name for name in self.first.assigned if all(name in names for names in done)]


def open_runs(paths: Sequence[Path]) -> Runs:
    """Open runs to show together; failed recalls are shown as such."""
    return Runs([open_run(path, allow_failed=True) for path in paths])


def so_far(run: RunDirectory, conversations: Sequence[str]) -> RunDirectory:
    """Return a run as if it had these conversations alone, so that they can be scored while others are replayed.

    Raises :class:`Incomplete` if there are none.
    """
    if not conversations:
        raise Incomplete(f"{run.path}: no conversation is done yet")
    if list(conversations) == run.conversations and run.digests == run.manifest.files:
        return run
    kept = [name for name in run.conversations if name in set(conversations)]
    resolved = replace(run.manifest.resolved, conversations=tuple(kept))
    manifest = replace(run.manifest, resolved=resolved, shard=None, files=run.digests)
    part = RunDirectory(run.path, manifest, allow_failed=True)
    failed = Counter(recall.arm for recall in part.failed_recalls())
    part.manifest = replace(manifest, failed=dict(failed))
    return part


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return a short name for each run: the last part of its path, with a number if two are the same."""
    places = [path.resolve() for path in paths]
    if len(set(places)) < len(places):
        raise UnusableInput("the same run was given twice; give each run once")
    names = [place.name for place in places]
    return [name if names.count(name) == 1 else f"{name}-{number}" for number, name in enumerate(names, 1)]


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
