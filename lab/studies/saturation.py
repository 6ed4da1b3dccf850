"""Recall as the share of must_remember memories increases: the failure of E-14 that the quotas of E-15 answer.

The samples of labels come from :mod:`lab.studies.draws`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import UnusableInput
from lab.embedding.embedder import DEFAULT_MODEL
from lab.replay.command import NO_GOLD, shown_path
from lab.replay.plan import make_plan
from lab.runs.request import ReplayRequest
from lab.runs.tables import table_of, write_table
from lab.studies.draws import Draw, saturating
from lab.studies.relabelled import Assignment, Tally, relabelled, total
from lab.systems.registry import policies

if TYPE_CHECKING:
    import pyarrow as pa

REFERENCES = ("hybrid", "oracle")
FILE = "saturation.parquet"


class Point(NamedTuple):
    """The scores of one arm under one sample of labels, over all conversations.

    ``must`` is the mean number of must memories at the end of a conversation. References (``share`` None) have none.
    """

    mode: str
    share: float | None
    seed: int | None
    arm: str
    must: float | None
    hit: float
    gold_nice: float | None
    repeat: float | None


def saturation(
    path: Path,
    format_name: str,
    *,
    golden: Path | None = None,
    seeds: int = 3,
    scope: str = "none",
    conversation: Sequence[str] = (),
    haystack: int | None = None,
    haystack_from: Sequence[str] = (),
    embedder: str = DEFAULT_MODEL,
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
) -> list[Point]:
    """Score every policy at every share, mode and seed, with hybrid and oracle for reference.

    ``conversation`` names those to replay; without it all of ``path`` are. ``haystack`` and ``haystack_from`` are as in
    ``lab replay``. Shares that a mode cannot reach are left
    out: in ``distractors`` relevant memories never become must. Raises :class:`UnusableInput` without a golden set.
    """
    asked = ReplayRequest(
        str(path),
        format_name,
        (*policies(), *REFERENCES),
        golden=str(golden) if golden else None,
        labels="sampled",
        scope=scope,
        conversation=tuple(conversation),
        haystack=haystack,
        haystack_from=tuple(haystack_from),
        embedder=embedder,
    )
    plan = make_plan(asked)
    if not any(probe.relevant for probe in plan.library.golden.probes):
        raise UnusableInput(f"{shown_path(str(path))}: {NO_GOLD}")
    draws = tuple(Assignment(draw, draw.labels(plan.labels)) for draw in saturating(plan, seeds))
    return [_point(*key, parts) for key, parts in relabelled(plan, draws, jobs, announce).items()]


def _point(draw: Draw | None, arm: str, parts: Sequence[Tally]) -> Point:
    mode, share, seed = draw or ("reference", None, None)
    tally = total(parts)
    return Point(
        mode,
        share,
        seed,
        arm,
        tally.must / len(parts) if share is not None else None,
        tally.hits / tally.probes if tally.probes else 0.0,
        tally.nice_hits / tally.nice_probes if tally.nice_probes else None,
        tally.repeat / tally.turns if tally.turns else None,
    )


def write_points(points: Sequence[Point], path: Path) -> pa.Table:
    """Write the points as Parquet and return the table."""
    import pyarrow as pa

    types = (pa.string(), pa.float64(), pa.int32(), pa.string(), *[pa.float64()] * 4)
    table = table_of(points, dict(zip(Point._fields, types, strict=True)))
    write_table(table, path)
    return table


def means(points: Sequence[Point]) -> dict[tuple[str, str], list[float | None]]:
    """Return the means over seeds of must memories, hits, GoldNice and repeats, by ``(mode and share, arm)``."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        name = point.mode if point.share is None else f"{point.mode} {point.share:.2f}"
        groups.setdefault((name, point.arm), []).append(point)
    return {
        key: [_mean(values) for values in zip(*(one[4:] for one in some), strict=True)] for key, some in groups.items()
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
