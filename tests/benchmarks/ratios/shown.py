"""Benchmark results on disk and in a terminal of 80 columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import load

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json, write_atomically
from lab.base.shape import to_json
from lab.cli.output import emit, emit_folded, emit_table
from lab.runs.resume import environment

KIND, VERSION = "lab.ratios", 1
Found = Mapping[str, Any]


def result(ratios: Sequence[Found], repeats: int, before: float | None) -> dict[str, Any]:
    """Return all results and the machine."""
    return {
        "kind": KIND,
        "schema_version": VERSION,
        "environment": to_json(environment())
        | {"cores": os.cpu_count(), "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS")},
        "load": {"before": before, "after": load()},
        "repeats": repeats,
        "ratios": list(ratios),
    }


def write_result(path: Path, found: Found) -> None:
    """Write a result atomically."""
    write_atomically(path, dump_json(found))


def read_result(path: Path) -> dict[str, Any]:
    """Return a stored result; raise :class:`UnusableInput` for anything else."""
    found = read_json(path)
    if not isinstance(found, dict) or found.get("kind") != KIND or found.get("schema_version") != VERSION:
        raise UnusableInput(f"{path}: is no result of these benchmarks; nox -s bench writes one")
    return found


def tell(found: Found) -> None:
    """Return the table with an explanation of its rows and the load during the measurement."""
    done = [one for one in found["ratios"] if not one["skipped"]]
    emit_table(
        ["ratio", "this", "over", "is", "range", "cpu", "n", "target", "met"],
        [
            [
                one["name"],
                amount(one["over"]),
                amount(one["under"]),
                plain(one["median"]),
                f"{plain(one['lowest'])}…{plain(one['highest'])}" if one["n"] > 1 else None,
                None if one["cpu"] is None else plain(one["cpu"]),
                one["n"],
                target(one),
                {True: "yes", False: "no", None: None}[one["met"]],
            ]
            for one in done
        ],
    )
    emit()
    for one in found["ratios"]:
        emit_folded(f"{one['name']}: {one['about']}" + (f" Skipped: {one['skipped']}." if one["skipped"] else ""))
        if not one["skipped"] and one["notes"]:
            emit_folded("  " + ", ".join(f"{name} {noted(value)}" for name, value in one["notes"].items()))
    emit()
    emit_folded(
        "is: the median over n pairs, measured by turns; range: the lowest and the highest. cpu: the same ratio of "
        f"processor time, which other work on a machine disturbs less. Load {found['load']['before']} before and "
        f"{found['load']['after']} after, {found['environment']['cores']} cores, BLAS on "
        f"{found['environment']['blas_threads']} thread(s)."
    )


def amount(side: Found) -> str:
    """Return a median with its unit."""
    value = side["median"]
    if side["unit"] != "ms":
        return f"{value:.2f} {side['unit']}"
    scale = next((scale for scale in ((1e3, "s"), (1.0, "ms")) if value >= scale[0]), (1e-3, "µs"))
    return f"{plain(value / scale[0])} {scale[1]}"


def plain(value: float) -> str:
    """Return a number with three significant digits, or all integer digits."""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def noted(value: object) -> str:
    """Return a note: bytes and counts as integers, seconds to a tenth."""
    return f"{value:.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def target(one: Found) -> str | None:
    """Return a target as ``≤ 3`` or ``≥ 50``."""
    aim = one["target"] or {}
    return next((f"{'≤' if name == 'at_most' else '≥'} {value:g}" for name, value in aim.items()), None)
