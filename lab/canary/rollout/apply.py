"""What a verdict means for a gateway's configuration, as a patch (CN-11). Nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_edit import MISSING, at_path, differing, set_value
from lab.base.config_resolve import resolve_config
from lab.base.errors import LabError, UnusableInput
from lab.base.files import read_json
from lab.canary.rollout.change import DEFAULT_SELECTION, HOST_MEMORY, SELECTION, SLOT, edited_lines, resolved_host
from lab.canary.rollout.run import RECEIPT
from lab.gate.line import PASS
from lab.gate.verdict import Verdict
from lab.gate.verdict_file import read_verdict, why_stale
from lab.runs.directory import VERDICT, open_run
from lab.runs.records import to_json
from lab.systems.openclaw.config.file import ENTRY, locate
from lab.systems.openclaw.config.table import PLUGIN
from lab.systems.openclaw.select.policies import POLICIES
from lab.systems.openclaw.upstream.host import check_host, host_of

_CONFIG = SELECTION[:-2]
# The folder in which `lab init` judges live receipts, beside those of the change.
LIVE = "live"
# What the lab resolves for itself, and what decides where memories are and not which are recalled.
_LEFT_OUT = ("lab", "embedding", "dbPath", "tableName")


class Patch(NamedTuple):
    """The values to set, by path, and why there are none if there are none."""

    values: Mapping[tuple[str, ...], Any]
    why: str

    def merge_patch(self) -> dict[str, Any]:
        """Return a JSON merge patch (RFC 7396) of an openclaw.json."""
        patch: dict[str, Any] = {}
        for path, value in self.values.items():
            place = patch
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = value
        return patch


class Applied(NamedTuple):
    """What a patch would change in a file.

    ``lines`` shows each changed member, ``already`` are the paths that have their value. ``refused`` is what the host
    would refuse after it, as the keys of profile ``seed`` that the plugin does not have.
    """

    lines: tuple[str, ...]
    already: tuple[str, ...]
    refused: tuple[str, ...]


def verdict_at(path: Path) -> tuple[Verdict, Path]:
    """Return the verdict of a file or a folder, and its folder.

    Raises :class:`UnusableInput` for a folder without one, and names the newest below it.
    """
    file = path / VERDICT if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        below = sorted(path.glob(f"*/{VERDICT}"), key=lambda each: (each.parent.name != LIVE, each.stat().st_mtime))
        name = f"; name the folder of a verdict, such as {below[-1].parent}" if below else "; lab gate writes one"
        raise UnusableInput(f"{path}: has no {VERDICT}{name}")
    return read_verdict(file), file.parent


def patch_of(verdict: Verdict, folder: Path, before: Any = None) -> Patch:
    """Return what a verdict says to set.

    A pass sets what was judged: what a canary switched, or the differences between candidate and baseline of a run.
    Anything else sets back what a canary switched, if the configuration ``before`` still has it, and otherwise nothing.
    Raises :class:`UnusableInput` if the verdict is out of date, or does not say which configuration was judged.
    """
    passed = verdict.status == PASS
    if verdict.run is None:
        return _of_receipts(verdict, folder, before, passed=passed)
    if not passed:
        return Patch({}, f"the verdict is {verdict.status}, so {verdict.baseline} stays")
    run = open_run(_run_of(verdict, folder))
    if (stale := why_stale(verdict, run)) is not None:
        raise UnusableInput(f"{folder / VERDICT}: is out of date: {stale}; run lab gate again")
    if verdict.against or verdict.candidate is None or verdict.baseline is None or ":" in verdict.baseline:
        raise UnusableInput(f"{folder / VERDICT}: compares with another run, so it names no change of a configuration")
    candidate, baseline = (_config_of(run.arm(name)) for name in (verdict.candidate, verdict.baseline))
    values = {
        (*_CONFIG, *path): at_path(candidate, path)
        for path in differing(baseline, candidate)
        if path[0] in PLUGIN and path[0] not in _LEFT_OUT and at_path(candidate, path) is not MISSING
    }
    names = f"the candidate {verdict.candidate} passed against {verdict.baseline}"
    return Patch(values, names if values else f"{names}; both have one configuration, so there is nothing to set")


def _of_receipts(verdict: Verdict, folder: Path, before: Any, *, passed: bool) -> Patch:
    path, old, new = _switched(folder)
    name = ".".join(path)
    if passed:
        return Patch({path: new}, f"the canary passed, so {name} may stay {new!r}")
    why = f"the verdict is {verdict.status}"
    if before is not None and at_path(before, path) != new:
        return Patch({}, f"{why}, and {name} is not {new!r}, so there is nothing to set back")
    return Patch({path: old}, f"{why}, so {name} goes back")


def _switched(folder: Path) -> tuple[tuple[str, ...], str | None, str]:
    """Return what the canary of a folder switched; without its receipt, the memory slot."""
    file = folder / RECEIPT
    if not file.is_file():
        return SLOT, HOST_MEMORY, ENTRY
    value = read_json(file)
    try:
        path, before, after = tuple(map(str, value["path"])), value["before"], str(value["after"])
    except (KeyError, TypeError):
        raise UnusableInput(f"{file}: not a receipt of lab canary run") from None
    if before is None and path == SELECTION:
        before = DEFAULT_SELECTION
    # Without the key a host takes its own memory.
    return path, HOST_MEMORY if before is None else str(before), after


def _run_of(verdict: Verdict, folder: Path) -> Path:
    """Return the folder of the judged run: where it was, or where the verdict is."""
    named = Path(str(verdict.run))
    for path in (folder, named):
        try:
            open_run(path)
        except LabError:
            continue
        return path
    raise UnusableInput(f"{named}: the judged run is not there any more; judge it again with lab gate")


def _config_of(arm: Any) -> Any:
    config: Any = to_json(arm)["config"]
    if arm.system in POLICIES:
        # Such an arm selects by its name, whatever its configuration says.
        return {**config, "autoRecall": {**config["autoRecall"], "selectionMode": arm.system}}
    if arm.system != "engine":
        raise UnusableInput(f"arm {arm.name} is {arm.system}, which is no configuration of {ENTRY}")
    return config


def applied(config: Path, patch: Patch) -> Applied:
    """Return what a patch would change in a gateway's files; they stay as they are.

    Each value is shown in the file that decides it (HC-8). Raises :class:`UnusableInput` if the file is no
    openclaw.json, or if a value has no place in it.
    """
    resolved = resolved_host(config)
    value = resolved.value
    if any(path[: len(_CONFIG)] == _CONFIG for path in patch.values):
        locate(value, str(config))
    lines, already = [], []
    changed: dict[Path, bytes] = {}
    for path, new in patch.values.items():
        name = ".".join(path)
        if at_path(value, path) == new:
            already.append(name)
            continue
        deciding = resolve_config(config, edited=changed).decides(path)
        if deciding.why_not:
            raise UnusableInput(f"{config}: {name} cannot be set: {deciding.why_not}")
        text = changed.get(deciding.file, resolved.texts[deciding.file]).decode()
        after = set_value(text, deciding.path, new, str(resolved.shown(deciding.file))).apply(text)
        where = "" if deciding.file == resolved.config else f" (in {resolved.shown(deciding.file)})"
        lines += [f"{name}{where}", *edited_lines(text, after, deciding.path)]
        changed[deciding.file] = after.encode()
    result = resolve_config(config, edited=changed).value
    host = host_of(result)
    refused = check_host(result, host, where=config.name).problems if host is not None and lines else ()
    return Applied(tuple(lines), tuple(already), refused)
