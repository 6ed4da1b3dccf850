"""The configurations that ``lab init`` writes: the host's with the other selection policy, and the control's."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.cli.output import announce

if TYPE_CHECKING:
    from lab.host.snapshot import Snapshot

# Names of the arms: the host as it is, the change, and the control of the policy.
LIVE, NEW, CONTROL = "engine", "new", "hybrid"
POLICIES = ("tier_first_v1", "tier_quota_v1")


def with_other_policy(snapshot: Snapshot, out: Path) -> Path:
    """Write the engine's configuration with the other selection policy, without its key; return the file."""
    from lab.base.files import dump_json, write_atomically
    from lab.systems.openclaw.config.file import locate, read_value
    from lab.systems.openclaw.config.resolve import resolve
    from lab.systems.openclaw.config.values import missing

    where = str(snapshot.engine)
    section = locate(read_value(snapshot.engine), where) or {}
    mode = resolve(section, "upstream", where=where, environ={}).auto_recall.selection_mode
    (other,) = (policy for policy in POLICIES if policy != mode)
    changed = deepcopy(section) | {"lab": {"arm": LIVE}}
    # A file for the lab alone has nothing that the lab does not have.
    for path in missing(section):
        _remove(changed, path.split("."))
    changed.setdefault("autoRecall", {})["selectionMode"] = other
    file = out / f"{other}.json"
    write_atomically(file, dump_json(changed), private=True)
    announce(f"the change: autoRecall.selectionMode {mode} -> {other} ({file})")
    return file


def control_of(snapshot: Snapshot, out: Path) -> Path:
    """Write a configuration of the control that injects as many items as the host; return the file.

    The measures count as many items as every arm injects, so a control with fewer would set their number.
    """
    from lab.base.files import dump_json, write_atomically
    from lab.systems.openclaw.config.file import locate, read_value
    from lab.systems.openclaw.config.resolve import resolve

    where = str(snapshot.engine)
    items = resolve(locate(read_value(snapshot.engine), where) or {}, "upstream", where=where, environ={}).max_items
    file = out / f"{CONTROL}.json"
    write_atomically(file, dump_json({"lab": {"arm": CONTROL}, "autoRecall": {"maxItems": items}}))
    return file


def _remove(value: Any, path: list[str]) -> None:
    for key in path[:-1]:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    if isinstance(value, dict):
        value.pop(path[-1], None)
