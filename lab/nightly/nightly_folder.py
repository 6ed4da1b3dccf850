"""The folder of a nightly run: its runs, which can be approved together, and what to do after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import file_name, read_json
from lab.base.regex import regex
from lab.base.shape import field
from lab.compare.changes import changes
from lab.gate.action import Action
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS
from lab.runs.directory import RunDirectory, open_run

RESULT, PAGE, KIND = "nightly.json", "nightly.html", "lab.nightly.v1"


def runs_of_nightly_run(folder: Path) -> dict[str, RunDirectory]:
    """Return the run of every set of a finished nightly run, by the name of its baseline.

    Raises :class:`UnusableInput` if any set was not replayed or does not reproduce itself, and :class:`CannotMeasure`
    if it does not although nightly.json says so.
    """
    path = folder / RESULT
    if not path.is_file():
        raise UnusableInput(f"{folder}: this nightly run is not finished (no {RESULT}); run it again to finish it")
    nightly_run = read_json(path)
    if not isinstance(nightly_run, dict) or nightly_run.get("schema") != KIND:
        raise UnusableInput(f"{path}: not a nightly run of this version")
    runs: dict[str, RunDirectory] = {}
    for entry in field(nightly_run, "sets", list, str(path)):
        name = field(entry, "name", str, f"{path}: sets")
        where = f"{path}: set {name!r}"
        reproduces = entry.get("reproduces")
        if reproduces is None or field(field(entry, "reproduces", dict, where), "changed", int, f"{where}: reproduces"):
            problem = "was not replayed" if reproduces is None else "does not reproduce itself"
            raise UnusableInput(f"{folder}: set {name!r} {problem}, so nothing was approved; {path.name} says why")
        # By its position, not by the recorded path: the folder may have been moved. Both replays are compared again,
        # because nightly.json is an output.
        run, again = (open_run(folder / "sets" / file_name(name) / replay) for replay in ("run", "again"))
        if changes(run, again).changed:
            raise CannotMeasure(
                f"{path}: is stale: the two replays of set {name!r} differ, so nothing was approved; run it again"
            )
        runs[field(field(entry, "verdict", dict, where), "baseline", str, f"{where}: verdict")] = run
    return runs


_APPROVE = regex(r"^lab nightly baseline approve .+?(?= \(if the change is intended\)$|$)")


def action_after(result: Mapping[str, Any], approve_all: str | None = None) -> Action:
    """Return what to do after a nightly run.

    ``result`` is the content of nightly.json. ``approve_all`` is the command that approves all sets at once, if several
    have no baseline (:attr:`lab.nightly.nightly_run.NightlyRun.approve_all`).
    """
    status = result["status"]
    approve = approve_all if status == INCONCLUSIVE and approve_all else _approve(result)
    if status == PASS:
        return Action("Nothing has to be done.")
    if status == ERROR:
        for entry in result["sets"]:
            again = entry.get("reproduces")
            if again and again["changed"]:
                differs = f"lab diff {again['before']} {again['after']}"
                return Action("Find what differs between the two replays. Nothing else was judged.", differs)
        return Action("Remove the cause, and run the same command again: finished replays are kept.")
    if status == FAIL:
        then = "If the change was intended, approve the run; if not, undo it."
        for entry in result["sets"]:
            first = (entry.get("exact") or {}).get("first") or [{}]
            if explain := first[0].get("explain"):
                return Action(f"Look at the first turn that changed. {then}", explain[-1])
        return Action(f"Look at the rules that fail. {then}", approve)
    if approve:
        return Action("Look at this run. To make it the baseline of later ones:", approve)
    return Action("Read the reasons: they say what would settle each rule.")


def _approve(result: Mapping[str, Any]) -> str | None:
    """Return the first command that a deciding rule names to approve a set, if any."""
    for entry in result["sets"]:
        for line in entry["verdict"]["lines"]:
            is_deciding = line["critical"] and line["status"] == result["status"]
            if is_deciding and (match := _APPROVE.match(line.get("settles") or "")):
                return match[0]
    return None
