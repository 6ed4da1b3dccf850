"""The configuration of rsclaw: the program's own keys, and the lab's under ``lab`` (docs/rsclaw.md).

Accepted are the section ``agents.defaults.memory`` of the program's file, or the whole file, of which only that section
and ``evolution`` are read. Numbers out of range are clamped as in the program; unknown keys and wrong types are errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.shape import expect, json_type, only_keys
from lab.systems.rsclaw.document import PRESETS, Promotion
from lab.systems.spec import ArmSpec

PROFILES = ("seed", "code")
FINAL_K, MAX_TOKENS = (1, 12), (128, 4096)
_HERE = "agents.defaults.memory"
_LAB_ONLY = ("arm", "profile")
# The knobs of the lab that take one of a few words, and those that are true or false.
CHOICES = {
    "touch": ("hits", "vector", "shown", "none"),
    "ties": ("id", "hash"),
    "scope_filter": ("before", "after"),
    "clip": ("budget", "chars"),
    "lines": ("overview", "text"),
    "restart": ("never", "session"),
    "importance": ("kind", "label"),
    "extractor": ("rules", "recorded", "none"),
    "add_kind": ("fact", "note"),
}
FLAGS = ("core_demotion", "persist_touch", "quality", "decay", "f32", "fold_chinese", "last_sentence", "tool_calls")


@dataclass(frozen=True, slots=True)
class Settings:
    """A resolved configuration. The defaults are those of profile ``seed``; :data:`CODE` are those of ``code``."""

    profile: str = "seed"
    auto_recall: bool = True
    final_k: int = 5
    max_tokens: int = 1200
    embedder: Mapping[str, Any] = field(default_factory=dict)
    promotion: Promotion = field(default_factory=Promotion)
    agent: str = "main"
    extractions: str = ""
    extraction_ms: int = 0
    core_demotion: bool = False
    touch: str = "hits"
    persist_touch: bool = True
    quality: bool = False
    decay: bool = True
    f32: bool = False
    ties: str = "id"
    scope_filter: str = "before"
    clip: str = "budget"
    lines: str = "overview"
    restart: str = "never"
    importance: str = "kind"
    extractor: str = "rules"
    add_kind: str = "fact"
    fold_chinese: bool = True
    last_sentence: bool = True
    tool_calls: bool = True


# What the public source does where the documentation says otherwise, or nothing (RS-14).
CODE: dict[str, Any] = {
    "core_demotion": True,
    "touch": "vector",
    "persist_touch": False,
    "quality": True,
    "f32": True,
    "ties": "hash",
    "scope_filter": "after",
    "clip": "chars",
    "add_kind": "note",
    "fold_chinese": False,
    "last_sentence": False,
}


def resolve(spec: ArmSpec) -> Settings:
    """Resolve the configuration of an arm (RS-14). Raises :class:`UnusableInput` with file, key and value.

    The profile is that of ``lab.profile``, else ``code`` if the run's profile is ``upstream``. ``max_items`` of the run
    applies if the configuration sets no ``recall_final_k``.
    """
    where = spec.where
    raw = {} if spec.config is None else expect(spec.config, dict, where)
    memory, evolution, lab = _parts(raw, where)
    only_keys(memory, ("auto_recall", "recall_final_k", "retrieval", "embedder"), where)
    only_keys(lab, (*_LAB_ONLY, *FLAGS, *CHOICES, "agent", "extractions", "extraction_ms"), f"{where}: lab")
    run_profile = "code" if spec.profile in ("code", "upstream") else "seed"
    profile = _word(lab, "profile", PROFILES, run_profile, f"{where}: lab")
    settings = Settings(profile, **(CODE if profile == "code" else {}))
    retrieval = _object(memory, "retrieval", where)
    only_keys(retrieval, ("maxTokens",), f"{where}: retrieval")
    file = _text(lab, "extractions", "", f"{where}: lab")
    extractor = _word(lab, "extractor", CHOICES["extractor"], "recorded" if file else "rules", f"{where}: lab")
    if (extractor == "recorded") != bool(file):
        hint = "names no file; set lab.extractions" if extractor == "recorded" else f"does not read {file!r}"
        raise UnusableInput(f"{where}: lab.extractor: {extractor!r} {hint}")
    values: dict[str, Any] = {name: _word(lab, name, words, "", f"{where}: lab") for name, words in CHOICES.items()}
    values |= {name: _typed(lab, name, bool, None, f"{where}: lab") for name in FLAGS}
    given = {name: value for name, value in values.items() if value not in ("", None)}
    return replace(
        settings,
        **given
        | {
            "auto_recall": _typed(memory, "auto_recall", bool, True, where),
            "final_k": _clamped(memory, "recall_final_k", spec.max_items or 5, FINAL_K, where),
            "max_tokens": _clamped(retrieval, "maxTokens", 1200, MAX_TOKENS, f"{where}: retrieval"),
            "embedder": _embedder(memory, where),
            "promotion": _promotion(evolution, f"{where}: evolution"),
            "agent": _text(lab, "agent", "main", f"{where}: lab"),
            "extractions": file,
            "extraction_ms": _clamped(lab, "extraction_ms", 0, (0, 86_400_000), f"{where}: lab"),
            "extractor": extractor,
        },
    )


def describe(settings: Settings) -> dict[str, Any]:
    """Return a configuration that :func:`resolve` reads back as these settings."""
    lab: dict[str, Any] = {name: getattr(settings, name) for name in (*FLAGS, *CHOICES, "agent", "extraction_ms")}
    if settings.extractions:
        lab["extractions"] = settings.extractions
    return {
        "auto_recall": settings.auto_recall,
        "recall_final_k": settings.final_k,
        "retrieval": {"maxTokens": settings.max_tokens},
        "evolution": {"promotion": asdict(settings.promotion)},
        "lab": {"profile": settings.profile} | lab,
    } | ({"embedder": dict(settings.embedder)} if settings.embedder else {})


def embedder_named(settings: Settings) -> str | None:
    """Return the name of the embedding model that a configuration names, if any (RS-15)."""
    remote, local = (settings.embedder.get(kind, {}) for kind in ("remote", "local"))
    name = remote.get("model") or str(local.get("model_dir", "")).rstrip("/").rpartition("/")[2]
    return str(name) if name else None


def without_effect(settings: Settings) -> tuple[str, ...]:
    """Return the settings that the lab reads and does not apply: a run's embedder has the instruction of a query."""
    remote = settings.embedder.get("remote", {})
    return ("embedder.remote.query_instruction",) if remote.get("query_instruction") else ()


def _parts(raw: dict[str, Any], where: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the sections ``memory``, ``evolution`` and ``lab`` of a configuration or of the program's whole file."""
    if "agents" not in raw:
        evolution, lab = _object(raw, "evolution", where), _object(raw, "lab", where)
        return {name: value for name, value in raw.items() if name not in ("evolution", "lab")}, evolution, lab
    memory, path = raw, where
    for name in _HERE.split("."):
        memory, path = _object(memory, name, path), f"{path}: {name}"
    return memory, _object(raw, "evolution", where), _object(raw, "lab", where)


def _promotion(evolution: dict[str, Any], where: str) -> Promotion:
    """Return the thresholds: a preset, changed by single values. Other keys of the section are not about recall."""
    preset = PRESETS[_word(evolution, "preset", tuple(PRESETS), "default", where)]
    section = _object(evolution, "promotion", where)
    only_keys(section, tuple(asdict(preset)), f"{where}: promotion")
    changed: dict[str, Any] = {}
    for name, value in section.items():
        is_count = name.endswith("access") or name == "access_only"
        allowed = isinstance(value, int) if is_count else isinstance(value, int | float)
        if isinstance(value, bool) or not allowed or not 0 <= value <= (1_000_000 if is_count else 1):
            kind = "a whole number from 0" if is_count else "a number from 0 to 1"
            raise UnusableInput(f"{where}: promotion: {name}: expected {kind}, found {value!r}")
        changed[name] = value if is_count else float(value)
    return replace(preset, **changed)


def _embedder(memory: dict[str, Any], where: str) -> dict[str, Any]:
    section = _object(memory, "embedder", where)
    keys = {"local": ("model_dir",), "remote": ("url", "model", "query_instruction")}
    only_keys(section, (*keys, "remote_url"), f"{where}: embedder")
    if "remote_url" in section:
        # The document's short form of ``remote.url``.
        url = expect(section["remote_url"], str, f"{where}: embedder: remote_url")
        section = {name: value for name, value in section.items() if name != "remote_url"}
        section["remote"] = {"url": url} | _object(section, "remote", f"{where}: embedder")
    if len(section) > 1:
        raise UnusableInput(f"{where}: embedder: has both 'local' and 'remote'; keep one")
    for name in section:
        part = _object(section, name, f"{where}: embedder")
        only_keys(part, keys[name], f"{where}: embedder: {name}")
        for key, value in part.items():
            if value is not None or key != "query_instruction":
                expect(value, str, f"{where}: embedder: {name}: {key}")
    return section


def _object(record: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value: dict[str, Any] = _typed(record, name, dict, {}, where)
    return value


def _text(record: Mapping[str, Any], name: str, default: str, where: str) -> str:
    value: str = _typed(record, name, str, default, where)
    if name in record and not value.strip():
        raise UnusableInput(f"{where}: {name}: is blank")
    return value


def _typed(record: Mapping[str, Any], name: str, kind: type, default: Any, where: str) -> Any:
    return expect(record[name], kind, f"{where}: {name}") if name in record else default


def _word(record: Mapping[str, Any], name: str, words: tuple[str, ...], default: str, where: str) -> str:
    value = record.get(name, default)
    if name in record and (not isinstance(value, str) or value not in words):
        shown = repr(value) if isinstance(value, str | int | float | bool) else json_type(value)
        raise UnusableInput(f"{where}: {name}: expected {' or '.join(words)}, found {shown}")
    return str(value)


def _clamped(record: Mapping[str, Any], name: str, default: int, limits: tuple[int, int], where: str) -> int:
    value = record.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        found = value if isinstance(value, float) else json_type(value)
        raise UnusableInput(f"{where}: {name}: expected a whole number, found {found}")
    return min(max(value, limits[0]), limits[1])
