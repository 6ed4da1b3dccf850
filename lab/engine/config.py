"""The knobs of the engine under the names of the plugin's own JSON, the two profiles, and errors that name the key.

What the operator's configuration says is read as it stands in openclaw.json (camelCase). The key ``lab`` is this
project's own: what the plugin does not know, such as the text lane's stop words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lab.engine.recall.select.outcome import Quota
from lab.engine.store.tokens import TextSettings
from lab.errors import UnusableInput
from lab.shape import named

PROFILES = ("seed", "upstream")
# The seeds ask for up to 6 items; the public plugin clamps at 5 (spec 20.A.1).
MAX_ITEMS = {"seed": 6, "upstream": 5}
STOP_WORDS = ("english", "none")
DEFAULT_QUOTA = Quota(must_max=2, nice_min=2, unknown_max=1)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A resolved configuration: every value decided, whoever decided it."""

    profile: str = "seed"
    max_items: int = 6
    quota: Quota = DEFAULT_QUOTA
    tier_search_multiplier: int = 2
    include_unknown_fallback: bool = True
    strict_caps: bool = True
    text: TextSettings = field(default_factory=TextSettings)

    @property
    def search_limit(self) -> int:
        """How deep each lane of each tier is searched (spec 4, step 7)."""
        return max(self.max_items, min(50, self.max_items * max(1, self.tier_search_multiplier)))

    def describe(self) -> dict[str, Any]:
        """The configuration as plain values, for manifests and hashes."""
        values = asdict(self)
        values["quota"] = self.quota._asdict()
        return values


def resolve(
    raw: Mapping[str, Any] | None, profile: str, *, max_items: int | None = None, where: str = "config"
) -> EngineConfig:
    """Resolve a plugin configuration under a profile.

    ``max_items`` is used where the configuration names none. Numbers out of range are clamped, as the plugin clamps
    them; unknown keys and wrong types raise :class:`UnusableInput` with the path of the key. ``selectionMode`` is read
    over: which policy runs is the arm's own.
    """
    if profile not in PROFILES:
        raise UnusableInput(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")
    top = _section({} if raw is None else raw, {"autoRecall", "lab"}, where)
    recall_at, lab_at = f"{where}: autoRecall", f"{where}: lab"
    recall = _section(
        top.get("autoRecall", {}),
        {"maxItems", "quotas", "tierSearchMultiplier", "includeUnknownFallback", "selectionMode"},
        recall_at,
    )
    quotas = _section(recall.get("quotas", {}), {"mustMax", "niceMin", "unknownMax", "caps"}, f"{recall_at}.quotas")
    own = _section(top.get("lab", {}), {"textLane", "arm"}, lab_at)
    lane = _section(own.get("textLane", {}), {"stopWords", "stem", "lane"}, f"{lab_at}.textLane")
    ceiling = MAX_ITEMS[profile]
    if max_items is not None and not 1 <= max_items <= ceiling:
        raise UnusableInput(f"max-items {max_items} is not in 1..{ceiling}, which profile {profile!r} allows")
    upstream = profile == "upstream"
    caps = _choice(
        quotas, "caps", ("strict", "reservation"), "reservation" if upstream else "strict", f"{recall_at}.quotas"
    )
    return EngineConfig(
        profile,
        _integer(recall, "maxItems", max_items or ceiling, 1, ceiling, recall_at),
        Quota(
            _integer(quotas, "mustMax", 2, 0, 5, f"{recall_at}.quotas"),
            _integer(quotas, "niceMin", 2, 0, 5, f"{recall_at}.quotas"),
            _integer(quotas, "unknownMax", 1, 0, 5, f"{recall_at}.quotas"),
        ),
        _integer(recall, "tierSearchMultiplier", 2, 1, 6, recall_at),
        _boolean(recall, "includeUnknownFallback", True, recall_at),
        caps == "strict",
        TextSettings(
            _choice(lane, "stopWords", STOP_WORDS, "none" if upstream else "english", f"{lab_at}.textLane"),
            _boolean(lane, "stem", True, f"{lab_at}.textLane"),
            _choice(lane, "lane", ("index", "scan"), "scan" if upstream else "index", f"{lab_at}.textLane"),
        ),
    )


def _section(value: Any, known: set[str], where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UnusableInput(f"{where}: expected an object, found {named(value)}")
    unknown = sorted(set(value) - known)
    if unknown:
        raise UnusableInput(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return value


def _integer(section: Mapping[str, Any], name: str, default: int, low: int, high: int, where: str) -> int:
    value = section.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnusableInput(f"{where}.{name}: expected a whole number, found {value!r}")
    return min(high, max(low, value))


def _boolean(section: Mapping[str, Any], name: str, default: bool, where: str) -> bool:
    value = section.get(name, default)
    if not isinstance(value, bool):
        raise UnusableInput(f"{where}.{name}: expected true or false, found {value!r}")
    return value


def _choice(section: Mapping[str, Any], name: str, known: tuple[str, ...], default: str, where: str) -> str:
    value = section.get(name, default)
    if value not in known:
        raise UnusableInput(f"{where}.{name}: {value!r} is none of {', '.join(known)}")
    return str(value)
