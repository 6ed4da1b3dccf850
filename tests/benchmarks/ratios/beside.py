"""Compare a result with a stored one, or with another checkout, measured alternately with this one.

Times of two sessions cannot be compared: another machine, or the same one under other work. Ratios of a stored result
can, for both their sides were measured in one session. What another checkout's code takes can be compared in time as
well, if both are measured in this session by turns: each round is a process for each, ours first and last by turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import PROJECT, Bench, Ratio
from shown import Found, plain, read_result

import lab
from lab.base.errors import UnusableInput
from lab.cli.output import emit, emit_folded, emit_table


def beside_stored(found: Found, path: Path) -> dict[str, Any]:
    """Each ratio before and now; ``apart``: their ranges do not overlap."""
    before = {one["name"]: one for one in read_result(path)["ratios"] if not one["skipped"]}
    rows = []
    for one in found["ratios"]:
        then = before.get(one["name"])
        if one["skipped"] or then is None:
            continue
        apart = one["lowest"] > then["highest"] or one["highest"] < then["lowest"]
        keys = ("median", "lowest", "highest", "n")
        rows.append(
            {
                "name": one["name"],
                "then": {key: then[key] for key in keys},
                "now": {key: one[key] for key in keys},
                "change": one["median"] / then["median"],
                "apart": apart,
            }
        )
    return {"kind": "stored", "with": str(path), "ratios": rows}


def beside_checkout(ratios: Sequence[Ratio], repeats: int, folder: Path, bench: Bench) -> dict[str, Any]:
    """Return the ratios of both checkouts, and of our numerator time to theirs: median and range over rounds."""
    if not (folder / "lab" / "__init__.py").is_file():
        raise UnusableInput(f"{folder}: is no checkout of the project (it has no lab/), and no file of a result")
    trees = (Path(lab.__file__).parents[1], folder.resolve())
    rows = []
    for one in ratios:
        rounds: list[list[dict[str, Any]]] = [[], []]
        for turn in range(repeats):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                bench.announce(f"{one.name}: {('ours', 'theirs')[side]}, round {turn + 1} of {repeats}")
                rounds[side].append(_apart(one, trees[side], bench))
            if any(some[-1]["skipped"] for some in rounds):
                break
        skipped = next((measured["skipped"] for some in rounds for measured in some if measured["skipped"]), None)
        skipped = skipped or _unlike(*(some[0] for some in rounds))
        if skipped:
            rows.append({"name": one.name, "skipped": skipped})
            continue
        ours, theirs = ([measured["median"] for measured in some] for some in rounds)
        changes = [mine["over"]["median"] / other["over"]["median"] for mine, other in zip(*rounds, strict=True)]
        rows.append(
            {
                "name": one.name,
                "skipped": None,
                "then": _summary(theirs),
                "now": _summary(ours),
                "change": statistics.median(changes),
                "changes": changes,
                "apart": min(changes) > 1 or max(changes) < 1,
            }
        )
    return {"kind": "checkout", "with": str(folder), "ratios": rows}


def _summary(values: Sequence[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values), "n": len(values)}


def _unlike(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """Return how two measurements of one name differ in what they measure; None if they do not."""
    for side in ("over", "under"):
        if ours[side]["unit"] != theirs[side]["unit"]:
            return f"it is measured in {ours[side]['unit']} here, in {theirs[side]['unit']} there"
    return None if ours["about"] == theirs["about"] else f"there it is another ratio: {theirs['about']}"


def _apart(one: Ratio, tree: Path, bench: Bench) -> dict[str, Any]:
    """Measure one round of a ratio in a process that imports ``lab`` from ``tree``.

    Benchmarks import the modules that they measure, so each checkout brings its own; one without uses ours.
    """
    out, here = bench.new_folder(), Path(__file__).parent
    own = tree / here.relative_to(PROJECT)
    words = [sys.executable, str(own if own.is_dir() else here), "--only", one.name, "--repeats", "1"]
    done = subprocess.run(
        [*words, "--data", str(bench.data.resolve()), "--out", str(out)],
        env=os.environ | {"PYTHONPATH": str(tree)},
        cwd=bench.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {"skipped": f"{tree.name}: {last}"}
    return next(measured for measured in read_result(out)["ratios"] if measured["name"] == one.name)


def tell_beside(compared: Found) -> None:
    """Return both results side by side."""
    stored = compared["kind"] == "stored"
    emit()
    emit(f"beside {compared['with']}")
    done = [one for one in compared["ratios"] if not one.get("skipped")]
    skipped = [one for one in compared["ratios"] if one.get("skipped")]
    rows = [
        [
            one["name"],
            *(
                text
                for side in (one["then"], one["now"])
                for text in (plain(side["median"]), f"{plain(side['lowest'])}…{plain(side['highest'])}")
            ),
            f"{one['change']:.2f}",
            "yes" if one["apart"] else "no",
        ]
        for one in done
    ]
    if rows:
        heads = ("then", "now") if stored else ("theirs", "ours")
        emit_table(["ratio", heads[0], "range", heads[1], "range", "change", "apart"], rows)
    for one in skipped:
        emit_folded(f"{one['name']}: skipped: {one['skipped']}")
    if not done:
        emit("nothing could be compared")
        return
    emit_folded(
        "change: the ratio now over the ratio then; apart: their ranges have nothing in common. Ratios alone stand "
        "here, for times of two sessions cannot be compared; name a checkout in place of a file to measure both by "
        "turns."
        if stored
        else "change: our time over theirs, median over rounds measured by turns; apart: no round says otherwise."
    )
