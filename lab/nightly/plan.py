"""Plans of nightly runs: TOML files, read and checked completely before anything is replayed.

::

    name = "operators"
    about = "one sentence on what these nightly runs guard against"
    policy = "nightly"                     # judges each arm against its baseline; its [[exact]] rule judges any change

    [[set]]
    name = "operators"
    recordings = "shipped:operators"       # or a path, relative to this file
    format = "lab"
    arms = ["tier_first_v1", "tier_quota_v1", "hybrid", "wide=wide.json"]
    scope = "recorded"                     # and every other option of `lab replay`, with _ for -
    baseline = "operators"                 # default: the set's name

    added = "report"                       # or "judge": conversations that the baseline lacks decide as well

    [[set.compare]]                        # two arms of the nightly run, any number of times
    baseline = "tier_first_v1"
    candidate = "tier_quota_v1"
    policy = "rollout"
    critical = false                       # advisory: does not affect the verdict

A set of a live host names a frozen snapshot instead of ``recordings``, ``format`` and ``memories_from`` (IN-7)::

    snapshot = "reports/init/snapshots/2026-11-23"
    sha256 = "…"                           # the digest of the snapshot
    home = "~/.openclaw"                   # the home that may have grown since
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_toml
from lab.base.formatting import choices
from lab.base.set_registry import recordings_at
from lab.base.shape import expect, json_type, only_keys, text_in, with_keys
from lab.gate.policy import Policy, read_policy
from lab.host.snapshot import STORE
from lab.recordings.origins import require_known
from lab.replay.memories_from import is_address
from lab.runs.request import ReplayRequest

SHIPPED = Path(__file__).parent / "plans"
POLICY = "nightly"
# The options of `lab replay` that a set may give, by type. Paths are relative to the plan's folder.
_TEXTS = ("store", "profile", "memories", "labels", "scope", "recall_turns", "embedder", "categories", "vectors")
_PATHS = ("golden", "memories_from", "config")
_SHARES = ("must_share", "nice_share")
_COUNTS = ("seed", "max_items", "depth", "limit", "hard_rules", "haystack")
_LISTS = ("conversation", "origin", "faults")
# Whether conversations that the baseline lacks are only reported.
REPORT, JUDGE = ADDED = ("report", "judge")
# The keys that name a snapshot, and those that it replaces.
_FROZEN, _THAWED = ("snapshot", "sha256", "home"), ("recordings", "format", "memories_from")
_OWN = ("name", "added", *_FROZEN, "recordings", "format", "arms", "baseline", "compare")
_SET = (*_OWN, *_TEXTS, *_PATHS, *_SHARES, *_COUNTS, *_LISTS)
_TOP = ("name", "about", "policy", "set")
_COMPARE = ("baseline", "candidate", "policy", "critical")


@dataclass(frozen=True, slots=True)
class Within:
    """A comparison of two arms of one nightly run by a policy."""

    baseline: str
    candidate: str
    policy: Policy
    critical: bool


class Frozen(NamedTuple):
    """A snapshot of a host, its digest, and the home that it was taken of."""

    path: Path
    sha256: str
    home: Path


@dataclass(frozen=True, slots=True)
class NightlySet:
    """A set of recordings with its arms, the name of its baseline, and comparisons within the nightly run.

    ``frozen`` is the snapshot that it replays, if it is the set of a host. ``added`` says whether conversations that
    the baseline lacks are only reported or judged as well.
    """

    name: str
    asked: ReplayRequest
    baseline: str
    compare: tuple[Within, ...]
    frozen: Frozen | None = None
    added: str = REPORT


@dataclass(frozen=True, slots=True)
class NightlyPlan:
    """A plan: its sets in the order of its file ``where``, and the policy that compares a set with its baseline."""

    name: str
    about: str
    policy: Policy
    sets: tuple[NightlySet, ...]
    where: str


def shipped_plans() -> list[str]:
    """Return the names of the shipped plans, as ``shipped:NAME``."""
    return [f"shipped:{path.stem}" for path in sorted(SHIPPED.glob("*.toml"))]


def read_plan(name: str) -> NightlyPlan:
    """Return a shipped plan (``shipped:NAME``) or one from a file; raise :class:`UnusableInput` for an invalid one."""
    path = SHIPPED / f"{name.removeprefix('shipped:')}.toml" if name in shipped_plans() else Path(name)
    if path.is_dir():
        raise UnusableInput(f"{name}: is a folder; name the TOML file of a plan")
    if not path.is_file():
        raise UnusableInput(f"{name}: no such file or shipped plan; shipped plans: {', '.join(shipped_plans())}")
    value = read_toml(path)
    return _plan(value, path)


def _plan(value: Mapping[str, Any], path: Path) -> NightlyPlan:
    where = str(path)
    only_keys(value, _TOP, where)
    given = value.get("set", [])
    if not isinstance(given, list) or not given:
        raise UnusableInput(f"{where}: has no [[set]], so it would pass everything; add a set")
    policy = _policy(text_in(value, "policy", where, POLICY), path, f"{where}: policy")
    sets = tuple(_set(table, path, f"{where}: set {number}") for number, table in enumerate(given, 1))
    for key in ("name", "baseline"):
        names = [getattr(nightly_set, key) for nightly_set in sets]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise UnusableInput(f"{where}: two sets have the {key} {duplicate!r}")
    return NightlyPlan(
        text_in(value, "name", where),
        text_in(value, "about", where),
        policy,
        sets,
        where,
    )


def _set(value: Any, path: Path, where: str) -> NightlySet:
    with_keys(value, _SET, where, "a table")
    name = text_in(value, "name", where)
    arms = _texts(value.get("arms", []), f"{where}: arms")
    if not arms:
        raise UnusableInput(f"{where}: arms: names no arm")
    options: dict[str, Any] = {key: text_in(value, key, where) for key in _TEXTS if key in value}
    options |= {key: _place(text_in(value, key, where), path) for key in _PATHS if key in value}
    options |= {key: _number(value[key], f"{where}: {key}") for key in _SHARES if key in value}
    options |= {key: _count(value[key], f"{where}: {key}") for key in _COUNTS if key in value}
    options |= {key: _texts(value[key], f"{where}: {key}") for key in _LISTS if key in value}
    require_known(options.get("origin", ()), f"{where}: origin")
    assert options.keys() <= {field.name for field in fields(ReplayRequest)}  # noqa: S101 - an error in this module, not in the plan
    frozen = _frozen(value, path, where)
    if frozen:
        source, form = frozen.path, "openclaw"
        if (frozen.path / STORE).is_dir():
            options["memories_from"] = str(frozen.path / STORE)
    else:
        source, form = _recordings(value, path, where), text_in(value, "format", where)
    asked = ReplayRequest(str(source), form, tuple(_arm(arm, path) for arm in arms), **options)
    added = text_in(value, "added", where, REPORT)
    if added not in ADDED:
        raise UnusableInput(f"{where}: added: expected {' or '.join(ADDED)}, found {added!r}")
    given = value.get("compare", [])
    expect(given, list, f"{where}: compare", "[[set.compare]] tables")
    known = [arm.partition("=")[0] for arm in arms]
    compare = tuple(_within(table, known, path, f"{where}: compare {number}") for number, table in enumerate(given, 1))
    return NightlySet(name, asked, text_in(value, "baseline", where, name), compare, frozen, added)


def _recordings(value: Mapping[str, Any], path: Path, where: str) -> Path:
    recordings = text_in(value, "recordings", where)
    try:
        return path.parent / recordings_at(recordings).expanduser()
    except UnusableInput as error:
        raise UnusableInput(f"{where}: recordings: {error}") from None


def _frozen(value: Mapping[str, Any], path: Path, where: str) -> Frozen | None:
    """Return the snapshot that a set names; None if it names recordings."""
    given = [key for key in _FROZEN if key in value]
    if not given:
        return None
    snapshot, sha256, home = (text_in(value, key, where) for key in _FROZEN)
    if both := [key for key in _THAWED if key in value]:
        raise UnusableInput(f"{where}: {both[0]}: the snapshot holds them; leave {both[0]} out")
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise UnusableInput(f"{where}: sha256: expected 64 hexadecimal digits; `lab init` prints those of the snapshot")
    return Frozen(_path(snapshot, path), sha256, _path(home, path))


def _within(value: Any, arms: list[str], path: Path, where: str) -> Within:
    with_keys(value, _COMPARE, where, "a table")
    pair = [text_in(value, key, where) for key in ("baseline", "candidate")]
    for arm in pair:
        if arm not in arms:
            raise UnusableInput(f"{where}: {arm!r} is not an arm of the set; {choices(arm, arms, 'it has')}")
    policy = _policy(text_in(value, "policy", where, POLICY), path, f"{where}: policy")
    control = policy.control.arm if policy.control else None
    if control is not None and ":" not in control and control not in arms:
        raise UnusableInput(
            f"{where}: policy {policy.name} compares with {control!r}, which is not an arm of the set; add it to arms"
        )
    return Within(pair[0], pair[1], policy, _flag(value.get("critical", True), f"{where}: critical"))


def _policy(name: str, path: Path, where: str) -> Policy:
    beside = _path(name, path)
    try:
        return read_policy(str(beside) if beside.is_file() else name)
    except UnusableInput as error:
        raise UnusableInput(f"{where}: {error}") from None


def _arm(text: str, path: Path) -> str:
    """Return an arm's text with the path of its configuration, if any, relative to the plan's folder."""
    name, equals, file = text.partition("=")
    return f"{name}={_path(file, path)}" if equals else name


def _path(text: str, plan: Path) -> Path:
    return plan.parent / Path(text).expanduser()


def _place(text: str, plan: Path) -> str:
    """Return a path of the plan, or an address as it is."""
    return text if is_address(text) else str(_path(text, plan))


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise UnusableInput(f"{where}: expected a list of texts, found {json_type(value)}")
    return tuple(value)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusableInput(f"{where}: expected a number, found {json_type(value)}")
    if not math.isfinite(value):
        raise UnusableInput(f"{where}: expected a number, found {value}")
    return float(value)


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UnusableInput(f"{where}: expected a whole number from 0, found {value!r}")
    return value


def _flag(value: Any, where: str) -> bool:
    return bool(expect(value, bool, where))
