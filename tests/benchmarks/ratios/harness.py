"""Ratios: their definition, the alternating measurement of both sides, and the results.

A ratio is one function that makes two sides ready, and a line above it that names it::

    @ratio("both-10k", at_most=1.25, about="Both policies of a replay over tier_quota_v1 alone.")
    def both(bench: Bench) -> Sides: ...

Sides are measured A B, B A, A B …, so that a drift of the machine falls on both alike. A ratio of two medians would
pair samples of different moments: so each pair gives a ratio, and their median is reported with lowest and highest.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, cast

from lab.base.errors import LabError, UnusableInput

PROJECT = Path(__file__).resolve().parents[3]
Announce = Callable[[str], None]
# Minimum milliseconds of a sample, so that a busy machine disturbs all samples alike.
LEAST = 200.0


class Absent(Exception):
    """A ratio cannot be measured here; the text says why."""


class Side(NamedTuple):
    """One side: its description, its work, and the number of turns (or other units) of that work.

    The work is timed, in milliseconds for one of them; in any other unit it returns the value itself. What stands
    ``before`` it is done each time, and does not count.
    """

    what: str
    work: Callable[[], object]
    count: int = 1
    unit: str = "ms"
    before: Callable[[], object] = bool


class Sample(NamedTuple):
    """One measurement of a side: its value, and CPU milliseconds including finished children."""

    value: float
    cpu: float


class Sides(NamedTuple):
    """Numerator and denominator; ``notes`` are further figures, read after the last sample."""

    over: Side
    under: Side
    notes: Callable[[], dict[str, Any]] = dict


@dataclass(slots=True)
class Bench:
    """The context of measurements: the public data, a temporary folder, and shared objects."""

    data: Path
    announce: Announce
    folder: Path = field(init=False)
    _stack: ExitStack = field(default_factory=ExitStack)
    _kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    _count: int = 0

    def __enter__(self) -> Bench:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-bench-")))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def public(self, *parts: str) -> Path:
        """Return a file or folder of the public data."""
        path = self.data.joinpath(*parts)
        if not path.exists():
            raise Absent(f"public data {'/'.join(parts)} is not at hand; --data names the folder that holds it")
        return path

    def new_folder(self) -> Path:
        """Return a new path."""
        self._count += 1
        return self.folder / str(self._count)

    def keep(self, place: str, key: Any, make: Callable[[], Any]) -> Any:
        """Return the cached object of a slot if its key matches; else make it and drop the old one."""
        if place not in self._kept or self._kept[place][0] != key:
            self._kept.pop(place, None)
            self._kept[place] = (key, make())
        return self._kept[place][1]

    def close_later(self, close: Callable[[], object]) -> None:
        """Register a function to call at the end."""
        self._stack.callback(close)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio and its target.

    ``asked_only``: it takes minutes, so it runs where ``--only`` names it; ``repeats`` is then the most it is given.
    ``warm``: one sample of each side comes first and does not count.
    """

    name: str
    about: str
    sides: Callable[[Bench], Sides]
    at_most: float | None = None
    at_least: float | None = None
    asked_only: bool = False
    repeats: int | None = None
    warm: bool = True

    def target(self) -> dict[str, float] | None:
        """Return plain values."""
        if self.at_most is not None:
            return {"at_most": self.at_most}
        return None if self.at_least is None else {"at_least": self.at_least}

    def met(self, value: float) -> bool | None:
        """Return whether a value meets the target; None without a target."""
        if self.at_most is not None:
            return value <= self.at_most
        return None if self.at_least is None else value >= self.at_least


RATIOS: list[Ratio] = []


def ratio(name: str, **more: Any) -> Callable[[Callable[[Bench], Sides]], Callable[[Bench], Sides]]:
    """Register a function as a ratio."""

    def listed(sides: Callable[[Bench], Sides]) -> Callable[[Bench], Sides]:
        RATIOS.append(Ratio(name, sides=sides, **more))
        return sides

    return listed


def chosen(names: Sequence[str], ratios: Sequence[Ratio] | None = None) -> list[Ratio]:
    """Return the ratios with these names or prefixes; by default all but the on-demand ones."""
    known = RATIOS if ratios is None else ratios
    if not names:
        return [one for one in known if not one.asked_only]
    for name in names:
        if not any(one.name == name or one.name.startswith(f"{name}-") for one in known):
            raise UnusableInput(f"no ratio {name!r}; known: {', '.join(one.name for one in known)}")
    return [one for one in known if any(one.name == name or one.name.startswith(f"{name}-") for name in names)]


def measure(one: Ratio, bench: Bench, repeats: int) -> dict[str, Any]:
    """Measure a ratio; return plain values, with ``skipped`` and a reason if it cannot be measured here."""
    started = time.perf_counter()
    found: dict[str, Any] = {"name": one.name, "about": one.about, "target": one.target(), "skipped": None}
    count = repeats if one.repeats is None else min(repeats, one.repeats)
    try:
        sides = one.sides(bench)
        over, under = by_turns(sides.over, sides.under, count, warm=one.warm)
    except (Absent, LabError) as error:
        return found | {"skipped": str(error)}
    pairs = list(zip(over, under, strict=True))
    ratios = [mine.value / other.value for mine, other in pairs]
    median = statistics.median(ratios)
    timed = all(other.cpu for _, other in pairs)
    return found | {
        "over": _side(sides.over, over),
        "under": _side(sides.under, under),
        "ratios": ratios,
        "median": median,
        "lowest": min(ratios),
        "highest": max(ratios),
        "n": len(ratios),
        "met": one.met(median),
        "cpu": statistics.median(mine.cpu / other.cpu for mine, other in pairs) if timed else None,
        "notes": sides.notes(),
        "load": load(),
        "seconds": time.perf_counter() - started,
    }


def by_turns(over: Side, under: Side, repeats: int, *, warm: bool = True) -> tuple[list[Sample], list[Sample]]:
    """Return samples of both sides in the order A B, B A, A B …

    One of each before them does not count (``warm``), and says how often work that is soon done must be done in a
    sample.
    """
    found: tuple[list[Sample], list[Sample]] = ([], [])
    sides = [(place, side, _loops(side) if warm else 1) for place, side in enumerate((over, under))]
    for turn in range(repeats):
        for place, side, loops in sides if turn % 2 == 0 else reversed(sides):
            found[place].append(_sample(side, loops))
    return found


def _loops(side: Side) -> int:
    spent = _sample(side, 1).value * side.count
    if side.unit != "ms" or spent >= LEAST:
        return 1
    return max(1, ceil(LEAST / max(_sample(side, 1).value * side.count, 1e-6)))


def _sample(side: Side, loops: int) -> Sample:
    spent = used = 0.0
    for _ in range(loops):
        side.before()
        cpu, started = _processor(), time.perf_counter()
        value = side.work()
        spent, used = spent + time.perf_counter() - started, used + _processor() - cpu
    done = loops * side.count
    if side.unit != "ms":
        return Sample(float(cast("float", value)), 0.0)
    return Sample(spent * 1e3 / done, used * 1e3 / done)


def _processor() -> float:
    """Return CPU seconds of this process and its finished children."""
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


def load() -> float | None:
    """Return the load average of the last minute; None if unknown."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def measured(ratios: Sequence[Ratio], bench: Bench, repeats: int) -> Iterator[dict[str, Any]]:
    """Measure ratios one after the other."""
    for number, one in enumerate(ratios, 1):
        bench.announce(f"{one.name} ({number} of {len(ratios)})")
        yield measure(one, bench, repeats)


def _side(side: Side, samples: Sequence[Sample]) -> dict[str, Any]:
    values = [one.value for one in samples]
    return {"what": side.what, "unit": side.unit, "samples": values, "median": statistics.median(values)}
