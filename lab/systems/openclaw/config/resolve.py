"""Resolve the engine's configuration under one of two profiles, with the source of every value.

Keys are those of openclaw.json (camelCase); :mod:`lab.systems.openclaw.config.file` finds the section. Numbers out of
range are clamped as in the plugin. Unknown keys and wrong types, which the plugin ignores silently, are errors that
name their path. The key ``lab`` belongs to this project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.base.shape import json_type
from lab.retrieval.clamp import Clamp
from lab.retrieval.fusion import RRF, Fusion
from lab.retrieval.silence import Silence
from lab.retrieval.tokens import TextSettings
from lab.systems.openclaw.config.file import locate
from lab.systems.openclaw.config.settings import (
    NO_PHASES,
    AutoCapture,
    AutoRecall,
    DocsSettings,
    EngineConfig,
    Phases,
    ReceiptSettings,
    Rerank,
    WorkingSetSettings,
)
from lab.systems.openclaw.config.table import (
    FUSION,
    LAB,
    MAX_ITEMS,
    PHASES,
    PLUGIN,
    PROFILES,
    QUOTAS,
    RERANK,
    SEED,
    SILENCE,
    TEXT_LANE,
    Knob,
    Section,
)
from lab.systems.openclaw.config.values import (
    complaints,
    in_short,
    missing,
    only_here,
    parse_env_boolean,
    refused,
    section_values,
    why_missing,
)
from lab.systems.openclaw.recall.block import Budget
from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.select.outcome import Quota

READ_ONLY_VARIABLE = "OPENCLAW_MEM_ENGINE_READONLY"
HIDDEN = "(hidden)"
CONFIG, DEFAULT, ENVIRONMENT, ARGUMENT = "config", "profile default", "environment", "max-items"
_Record = TypeVar("_Record")
_WHOLE = Section({**PLUGIN, "lab": LAB}, boolean=False)
_NO_REPEAT = {"repeatWindowTurns": 0, "repeatPenalty": 0.0, "dedupeBackbone": False}
_RENAMED = {"maxScopeLength": "max_length", "skipFallbackOnInvalidScope": "skip_fallback_on_invalid"}


class Decided(NamedTuple):
    """One value of a resolved configuration and its source.

    ``by``: config, profile default, environment, max-items, clamped from X, normalised from X, or why nothing reads it.
    """

    key: str
    value: object
    by: str


class Checked(NamedTuple):
    """The result of a check: errors, settings without effect (warnings), changed values (notes).

    ``missing`` are the paths of keys that the lab does not implement.
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

    ``raw`` is the plugin's configuration or a file around it (:func:`lab.systems.openclaw.config.file.locate`); None
    is an empty one. ``max_items`` applies if the configuration sets none. ``environ`` is read for the read-only switch
    only. Unknown keys, wrong types and refused keys that are not implemented here
    (:mod:`lab.systems.openclaw.config.values`) raise :class:`UnusableInput` with the path of the first one.
    """
    given = _given(raw, profile, where)
    for problem in _problems(given, profile, where):
        raise UnusableInput(problem)
    return _config(_decide(given, profile, max_items, environ)[0], profile)


def check_config(raw: object, profile: str, *, where: str = "config") -> Checked:
    """Return everything that :func:`resolve` would refuse, one line each; if nothing, return warnings and notes."""
    given = _given(raw, profile, where)
    problems = tuple(_problems(given, profile, where))
    if problems:
        return Checked(problems, (), ())
    notes = tuple(
        f"{where}: {decided.key}: {shown(decided.value)}, {decided.by}"
        for decided in _decide(given, profile, None, None)[1]
        if " from " in decided.by
    )
    absent = missing(given)
    warnings = tuple(
        f'{where}: {name}: true means the defaults, which leave it off; write {{"enabled": true}} to switch it on'
        for name, entry in PLUGIN.items()
        if isinstance(entry, Section)
        and given.get(name) is True
        and section_values(name, entry, True, profile).get("enabled") is False
    )
    return Checked((), warnings, notes, absent)


def explain_config(
    raw: object,
    profile: str,
    *,
    max_items: int | None = None,
    where: str = "config",
    environ: Mapping[str, str] | None = None,
) -> list[Decided]:
    """Return every value of a resolved configuration with its source, in the order of the table.

    Accepts and refuses the same input as :func:`resolve`.
    """
    resolve(raw, profile, where=where)
    return _decide(_given(raw, profile, where), profile, max_items, environ)[1]


def describe(config: EngineConfig) -> dict[str, Any]:
    """Return a resolved configuration in the plugin's camelCase JSON: all that the lab reads, no provider's key.

    :func:`resolve` reads it back under the same profile.
    """
    recall, profile = config.auto_recall, config.profile
    described: dict[str, Any] = only_here(section_values("", _WHOLE, {}, profile))
    # The replay, not the configuration, chooses the vectors to search.
    del described["embedding"]["model"]
    for name, source in (
        ("embedding", config.embedding),
        ("autoRecall", recall),
        ("autoCapture", config.auto_capture),
        ("scopePolicy", config.scope_policy),
        ("budget", config.budget),
        ("workingSet", config.working_set),
        ("receipts", config.receipts),
        ("docsColdLane", config.docs),
    ):
        described[name] |= _values_of(source, PLUGIN[name], profile)
    quotas, lab = described["autoRecall"]["quotas"], described["lab"]
    quotas |= _values_of(recall.quota, QUOTAS, profile)
    described["autoCapture"]["todoStaleTtlDays"] = config.todo_stale_ttl_days
    described["readOnly"] = config.read_only
    lab["profile"], lab["workingSet"] = profile, config.working_set.variant
    lab["textLane"] |= _values_of(config.text, TEXT_LANE, profile)
    if profile == SEED:
        quotas |= {"wildcard": "strict" if recall.strict_caps else "best", "per": recall.quotas_per}
        factors = {key: _snake(key) in config.phases.score for key in lab["phases"]["score"]}
        lab["phases"] |= _values_of(config.phases, PHASES, profile) | {"score": factors}
        lab["fusion"] |= _values_of(config.fusion, FUSION, profile)
        lab["silence"] |= _values_of(config.silence, SILENCE, profile)
        # Only where it is used: configurations without it are described as before it existed.
        lab["rerank"] |= _values_of(config.rerank, RERANK, profile)
        if config.rerank.url is None:
            del lab["rerank"]
    return described


def refuse_rerank(settings: Rerank, where: str, system: str) -> None:
    """Raise :class:`UnusableInput` if a system that does not rerank has settings for it."""
    if settings.url is not None:
        raise UnusableInput(f"{where}: lab.rerank: {system} does not rerank; bm25, vector, hybrid and verbatim do")


def shown(value: object) -> str:
    """Return a value on one line: strings as they are, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def require_profile(profile: str) -> None:
    """Raise :class:`UnusableInput` unless ``profile`` is known."""
    if profile not in PROFILES:
        raise UnusableInput(f"unknown profile {profile!r}; {choices(profile, PROFILES)}")


def _given(raw: object, profile: str, where: str) -> Any:
    """Return the configuration within ``raw``, with preset names replaced by the objects that they stand for."""
    require_profile(profile)
    expanded = _expanded(_WHOLE, locate(raw, where))
    return {} if expanded is None else expanded


def _expanded(section: Section, raw: object) -> Any:
    if isinstance(raw, str):
        return section.presets.get(raw, raw)
    if not isinstance(raw, Mapping):
        return raw
    inner = {key: entry for key, entry in section.keys.items() if isinstance(entry, Section)}
    return {key: _expanded(inner[key], value) if key in inner else value for key, value in raw.items()}


def _problems(given: object, profile: str, where: str) -> Iterator[str]:
    """Yield what is wrong, one line each, with the path of the key."""
    if not isinstance(given, Mapping):
        yield f"{where}: expected an object, found {json_type(given)}"
        return
    for path, complaint in complaints(_WHOLE, given, "", profile):
        yield f"{where}: {path}: {complaint}"
    for path, complaint in refused(given):
        yield f"{where}: {path}: {complaint}"
    lab = given.get("lab")
    declared = lab.get("profile") if isinstance(lab, Mapping) else None
    if declared in PROFILES and declared != profile:
        yield f"{where}: lab.profile: the configuration is for profile {declared!r}, but the run uses {profile!r}"


def _decide(
    given: Mapping[str, Any], profile: str, max_items: int | None, environ: Mapping[str, str] | None
) -> tuple[dict[str, Any], list[Decided]]:
    """Return every value, and its source."""
    values = section_values("", _WHOLE, given, profile)
    decided = {decision.key: decision for decision in _decisions(_WHOLE, given, values, "", profile)}

    def override(section: dict[str, Any], key: str, path: str, value: object, by: str) -> None:
        section[key] = value
        decided[path] = Decided(path, value, by)

    if max_items is not None:
        limit = MAX_ITEMS.high_in(profile)
        if not 1 <= max_items <= limit:
            raise UnusableInput(f"max-items {max_items} is not in 1..{limit}, which profile {profile!r} allows")
        if decided["autoRecall.maxItems"].by == DEFAULT:
            override(values["autoRecall"], "maxItems", "autoRecall.maxItems", max_items, ARGUMENT)
    switch = parse_env_boolean(environ.get(READ_ONLY_VARIABLE)) if environ else None
    if switch is not None:
        override(values, "readOnly", "readOnly", switch, ENVIRONMENT)
    return values, list(decided.values())


def _decisions(
    section: Section, given: object, values: Mapping[str, Any], path: str, profile: str
) -> Iterator[Decided]:
    written = given if isinstance(given, Mapping) else {}
    switched_on = given is True and section.true_is_on
    for key, entry in section.keys.items():
        at = f"{path}.{key}" if path else key
        if key not in values:
            continue
        if isinstance(entry, Section):
            yield from _decisions(entry, True if switched_on else written.get(key), values[key], at, profile)
        elif not (section.here if entry.here is None else entry.here):
            if key in written:
                yield Decided(at, values[key], why_missing(at))
        elif entry.kind == "secret":
            yield Decided(at, HIDDEN, CONFIG)
        elif key == "enabled" and (switched_on or given is False):
            yield Decided(at, values[key], CONFIG)
        else:
            yield Decided(at, values[key], _by(entry, written, key, values[key], profile))


def _by(knob: Knob, written: Mapping[str, Any], key: str, value: object, profile: str) -> str:
    source = written[key] if key in written else knob.default_in(profile)
    source = list(source) if isinstance(source, tuple) else source
    if source == value:
        return CONFIG if key in written else DEFAULT
    change = "clamped" if knob.kind in ("whole", "number", "positive") else "normalised"
    return f"{change} from {shown(source) if isinstance(source, list) else in_short(source)}"


def _config(values: dict[str, Any], profile: str) -> EngineConfig:
    """Build the resolved configuration from its values."""
    recall, lab = values["autoRecall"], values["lab"]
    quotas, phases = recall["quotas"], lab.get("phases", {})
    strict = quotas.get("caps", quotas.get("wildcard")) == "strict"
    mixed = recall | {"quota": _build(Quota, quotas), "strictCaps": strict, "quotasPer": quotas.get("per", "turn")}
    factors = tuple(_snake(key) for key, on in phases.get("score", {}).items() if on)
    return EngineConfig(
        profile=profile,
        auto_recall=_build(AutoRecall, mixed if profile == SEED else mixed | _NO_REPEAT),
        auto_capture=_build(AutoCapture, values["autoCapture"]),
        scope_policy=_build(ScopePolicy, values["scopePolicy"]),
        budget=_build(Budget, values["budget"]),
        working_set=_build(WorkingSetSettings, values["workingSet"] | {"variant": lab["workingSet"]}),
        receipts=_build(ReceiptSettings, values["receipts"]),
        docs=_build(DocsSettings, values["docsColdLane"] | {"byPath": profile == SEED}),
        embedding=_build(Clamp, values["embedding"]),
        todo_stale_ttl_days=values["autoCapture"]["todoStaleTtlDays"],
        read_only=values["readOnly"],
        phases=_build(Phases, phases | {"score": factors}) if profile == SEED else NO_PHASES,
        text=_build(TextSettings, lab["textLane"]),
        fusion=_build(Fusion, lab["fusion"]) if profile == SEED else RRF,
        silence=_build(Silence, lab["silence"]) if profile == SEED else Silence(),
        rerank=_build(Rerank, lab["rerank"]) if profile == SEED else Rerank(),
    )


def _build(kind: type[_Record], values: Mapping[str, Any]) -> _Record:
    """Build a record from the values it has fields for; lists become tuples, maps become pairs."""
    fields: tuple[str, ...] = getattr(kind, "__match_args__", ())
    named_values = {_RENAMED.get(key, _snake(key)): value for key, value in values.items()}
    return kind(**{name: _frozen(named_values[name]) for name in fields if name in named_values})


def _frozen(value: object) -> Any:
    if isinstance(value, dict):
        return tuple((key, tuple(inner)) for key, inner in value.items())
    return tuple(value) if isinstance(value, list) else value


def _values_of(source: Any, section: Knob | Section, profile: str) -> dict[str, Any]:
    """Return the values of a record under the keys of a section: the inverse of :func:`_build`."""
    values: dict[str, Any] = {}
    for key, entry in section.keys.items() if isinstance(section, Section) else ():
        value = getattr(source, _RENAMED.get(key, _snake(key)), None)
        if value is None or isinstance(entry, Section) or (entry.only_seed and profile != SEED):
            continue
        if entry.kind == "map":
            value = {name: list(inner) for name, inner in value}
        values[key] = list(value) if isinstance(value, tuple) else value
    return values


def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)
