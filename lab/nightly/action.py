"""What to do after a nightly run: one decision, for its page and for messages about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lab.gate.action import Action
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS

_APPROVE = re.compile(r"^lab nightly baseline approve .+?(?= \(if the change is intended\)$|$)")


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
