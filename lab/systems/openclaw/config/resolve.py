"""The engine's configuration as this lab reads it: two profiles, every value decided, and by whom.

What the operator's configuration says is read as it stands in openclaw.json (camelCase);
:mod:`lab.systems.openclaw.config.file` finds it there. Numbers out of range are clamped as the plugin clamps them.
Where the plugin would pass over a key or a type in silence, the lab refuses it and names its path, for an operator
wants to know. The key ``lab`` is this project's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from lab.errors import UnusableInput
from lab.retrieval.clamp import Clamp
from lab.retrieval.tokens import TextSettings
from lab.shape import json_type
from lab.systems.openclaw.config.check import complaints, in_short
from lab.systems.openclaw.config.file import locate
from lab.systems.openclaw.config.missing import NOT_HERE, missing, only_here, refused
from lab.systems.openclaw.config.settings import (
    NO_PHASES,
    AutoRecall,
    DocsSettings,
    EngineConfig,
    Phases,
    ReceiptSettings,
    WorkingSetSettings,
)
from lab.systems.openclaw.config.settle import parse_env_boolean, settled
from lab.systems.openclaw.config.table import (
    LAB,
    MAX_ITEMS,
    PHASES,
    PLUGIN,
    PROFILES,
    QUOTAS,
    SEED,
    TEXT_LANE,
    Knob,
    Section,
)
from lab.systems.openclaw.recall.budget import Budget
from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.select.outcome import Quota

READ_ONLY_VARIABLE = "OPENCLAW_MEM_ENGINE_READONLY"
HIDDEN = "(hidden)"
CONFIG, DEFAULT, ENVIRONMENT, ARGUMENT = "config", "profile default", "environment", "max-items"
_Made = TypeVar("_Made")
_WHOLE = Section({**PLUGIN, "lab": LAB}, boolean=False)
_NO_REPEAT = {"repeatWindowTurns": 0, "repeatPenalty": 0.0, "dedupeBackbone": False}
_RENAMED = {"maxScopeLength": "max_length", "skipFallbackOnInvalidScope": "skip_fallback_on_invalid"}


class Decided(NamedTuple):
    """One value of a resolved configuration.

    ``by``: config, profile default, environment, max-items, clamped from X, normalised from X, or not implemented here.
    """

    key: str
    value: object
    by: str


class Checked(NamedTuple):
    """What is wrong in a configuration, what does nothing in it, which values are changed.

    ``missing`` are the paths of what it asks for and the lab does not have.
    """

    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...] = ()


def resolve(
    raw: object,
    profile: str,
    *,
    max_items: int | None = None,
    where: str = "config",
    environ: Mapping[str, str] | None = None,
) -> EngineConfig:
    """Resolve a configuration under a profile.

    ``raw`` is the plugin's configuration or anything around it that :func:`lab.systems.openclaw.config.file.locate`
    knows; None is an empty one. ``max_items`` is used where the configuration names none. ``environ`` is asked for the
    read-only switch, and for nothing else. Unknown keys, wrong types and what is refused as not implemented here
    (:mod:`lab.systems.openclaw.config.missing`) raise :class:`UnusableInput` with the path of the first.
    """
    given = _given(raw, profile, where)
    for problem in _problems(given, profile, where):
        raise UnusableInput(problem)
    return _config(_decide(given, profile, max_items, environ)[0], profile)


def check_config(raw: object, profile: str, *, where: str = "config") -> Checked:
    """Return everything that :func:`resolve` would refuse, one line each; else warnings and notes."""
    given = _given(raw, profile, where)
    problems = tuple(_problems(given, profile, where))
    if problems:
        return Checked(problems, (), ())
    notes = tuple(
        f"{where}: {one.key}: {shown(one.value)}, {one.by}"
        for one in _decide(given, profile, None, None)[1]
        if " from " in one.by
    )
    found = missing(given)
    warnings = tuple(
        f'{where}: {name}: true stands for the defaults, which leave it off; {{"enabled": true}} switches it on'
        for name, entry in PLUGIN.items()
        if isinstance(entry, Section)
        and given.get(name) is True
        and settled(name, entry, True, profile).get("enabled") is False
    )
    return Checked((), warnings, notes, found)


def explain_config(
    raw: object,
    profile: str,
    *,
    max_items: int | None = None,
    where: str = "config",
    environ: Mapping[str, str] | None = None,
) -> list[Decided]:
    """Every value of a resolved configuration and who decided it, in the order of the table.

    Takes and refuses what :func:`resolve` does.
    """
    resolve(raw, profile, where=where)
    return _decide(_given(raw, profile, where), profile, max_items, environ)[1]


def describe(config: EngineConfig) -> dict[str, Any]:
    """A resolved configuration in the plugin's camelCase JSON: all that recall reads, and never a provider's key.

    :func:`resolve` reads it back under the same profile.
    """
    recall, profile = config.auto_recall, config.profile
    found: dict[str, Any] = only_here(settled("", _WHOLE, {}, profile))
    # Whose vectors are searched is the replay's choice.
    del found["embedding"]["model"]
    for name, source in (
        ("embedding", config.embedding),
        ("autoRecall", recall),
        ("scopePolicy", config.scope_policy),
        ("budget", config.budget),
        ("workingSet", config.working_set),
        ("receipts", config.receipts),
        ("docsColdLane", config.docs),
    ):
        found[name] |= _values_of(source, PLUGIN[name], profile)
    quotas, lab = found["autoRecall"]["quotas"], found["lab"]
    quotas |= _values_of(recall.quota, QUOTAS, profile)
    found["autoCapture"]["todoStaleTtlDays"] = config.todo_stale_ttl_days
    found["readOnly"] = config.read_only
    lab["profile"] = profile
    lab["textLane"] |= _values_of(config.text, TEXT_LANE, profile)
    if profile == SEED:
        quotas["caps"] = "strict" if recall.strict_caps else "reservation"
        factors = {key: _snake(key) in config.phases.score for key in lab["phases"]["score"]}
        lab["phases"] |= _values_of(config.phases, PHASES, profile) | {"score": factors}
    return found


def shown(value: object) -> str:
    """A value on one line: words as they are, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def known_profile(profile: str) -> None:
    """Refuse the name of a profile that is not known."""
    if profile not in PROFILES:
        raise UnusableInput(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")


def _given(raw: object, profile: str, where: str) -> Any:
    """The configuration within what was handed over, with words that stand for objects replaced by them."""
    known_profile(profile)
    found = _expanded(_WHOLE, locate(raw, where))
    return {} if found is None else found


def _expanded(section: Section, raw: object) -> Any:
    if isinstance(raw, str):
        return section.presets.get(raw, raw)
    if not isinstance(raw, Mapping):
        return raw
    inner = {key: entry for key, entry in section.keys.items() if isinstance(entry, Section)}
    return {key: _expanded(inner[key], value) if key in inner else value for key, value in raw.items()}


def _problems(given: object, profile: str, where: str) -> Iterator[str]:
    """What is wrong, line by line, each with the path of its key."""
    if not isinstance(given, Mapping):
        yield f"{where}: expected an object, found {json_type(given)}"
        return
    for path, what in complaints(_WHOLE, given, "", profile):
        yield f"{where}: {path}: {what}"
    for path, what in refused(given):
        yield f"{where}: {path}: {what}"
    own = given.get("lab")
    meant = own.get("profile") if isinstance(own, Mapping) else None
    if meant in PROFILES and meant != profile:
        yield f"{where}: lab.profile: this is a configuration of profile {meant!r}, and {profile!r} is asked for"


def _decide(
    given: Mapping[str, Any], profile: str, max_items: int | None, environ: Mapping[str, str] | None
) -> tuple[dict[str, Any], list[Decided]]:
    """Every value, and who decided it."""
    values = settled("", _WHOLE, given, profile)
    decided = {one.key: one for one in _decisions(_WHOLE, given, values, "", profile)}

    def overrule(section: dict[str, Any], key: str, path: str, value: object, by: str) -> None:
        section[key] = value
        decided[path] = Decided(path, value, by)

    if max_items is not None:
        limit = MAX_ITEMS.high_in(profile)
        if not 1 <= max_items <= limit:
            raise UnusableInput(f"max-items {max_items} is not in 1..{limit}, which profile {profile!r} allows")
        if decided["autoRecall.maxItems"].by == DEFAULT:
            overrule(values["autoRecall"], "maxItems", "autoRecall.maxItems", max_items, ARGUMENT)
    switch = parse_env_boolean(environ.get(READ_ONLY_VARIABLE)) if environ else None
    if switch is not None:
        overrule(values, "readOnly", "readOnly", switch, ENVIRONMENT)
    return values, list(decided.values())


def _decisions(
    section: Section, given: object, values: Mapping[str, Any], path: str, profile: str
) -> Iterator[Decided]:
    asked = given if isinstance(given, Mapping) else {}
    switched_on = given is True and section.true_is_on
    for key, entry in section.keys.items():
        at = f"{path}.{key}" if path else key
        if key not in values:
            continue
        if isinstance(entry, Section):
            yield from _decisions(entry, True if switched_on else asked.get(key), values[key], at, profile)
        elif not (section.here if entry.here is None else entry.here):
            if key in asked:
                yield Decided(at, values[key], NOT_HERE)
        elif entry.kind == "secret":
            yield Decided(at, HIDDEN, CONFIG)
        elif key == "enabled" and (switched_on or given is False):
            yield Decided(at, values[key], CONFIG)
        else:
            yield Decided(at, values[key], _by(entry, asked, key, values[key], profile))


def _by(knob: Knob, asked: Mapping[str, Any], key: str, value: object, profile: str) -> str:
    source = asked[key] if key in asked else knob.default_in(profile)
    source = list(source) if isinstance(source, tuple) else source
    if source == value:
        return CONFIG if key in asked else DEFAULT
    change = "clamped" if knob.kind in ("whole", "number", "positive") else "normalised"
    return f"{change} from {shown(source) if isinstance(source, list) else in_short(source)}"


def _config(values: dict[str, Any], profile: str) -> EngineConfig:
    """The resolved configuration that these values make."""
    recall, lab = values["autoRecall"], values["lab"]
    quotas, phases = recall["quotas"], lab.get("phases", {})
    mixed = recall | {"quota": _made(Quota, quotas), "strictCaps": quotas.get("caps") == "strict"}
    factors = tuple(_snake(key) for key, on in phases.get("score", {}).items() if on)
    return EngineConfig(
        profile=profile,
        auto_recall=_made(AutoRecall, mixed if profile == SEED else mixed | _NO_REPEAT),
        scope_policy=_made(ScopePolicy, values["scopePolicy"]),
        budget=_made(Budget, values["budget"]),
        working_set=_made(WorkingSetSettings, values["workingSet"]),
        receipts=_made(ReceiptSettings, values["receipts"]),
        docs=_made(DocsSettings, values["docsColdLane"]),
        embedding=_made(Clamp, values["embedding"]),
        todo_stale_ttl_days=values["autoCapture"]["todoStaleTtlDays"],
        read_only=values["readOnly"],
        phases=_made(Phases, phases | {"score": factors}) if profile == SEED else NO_PHASES,
        text=_made(TextSettings, lab["textLane"]),
    )


def _made(kind: type[_Made], values: Mapping[str, Any]) -> _Made:
    """A record of the values that it has fields for; lists become tuples, a map pairs."""
    fields: tuple[str, ...] = getattr(kind, "__match_args__", ())
    named_values = {_RENAMED.get(key, _snake(key)): value for key, value in values.items()}
    return kind(**{name: _frozen(named_values[name]) for name in fields if name in named_values})


def _frozen(value: object) -> Any:
    if isinstance(value, dict):
        return tuple((key, tuple(inner)) for key, inner in value.items())
    return tuple(value) if isinstance(value, list) else value


def _values_of(source: Any, section: Knob | Section, profile: str) -> dict[str, Any]:
    """The values of a record under the keys of a section: what :func:`_made` was given."""
    found: dict[str, Any] = {}
    for key, entry in section.keys.items() if isinstance(section, Section) else ():
        value = getattr(source, _RENAMED.get(key, _snake(key)), None)
        if value is None or isinstance(entry, Section) or (entry.only_seed and profile != SEED):
            continue
        if entry.kind == "map":
            value = {name: list(inner) for name, inner in value}
        found[key] = list(value) if isinstance(value, tuple) else value
    return found


def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)
