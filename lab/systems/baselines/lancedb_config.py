"""The configuration of OpenClaw's plugin memory-lancedb, under the plugin's own names (HB-9, HB-14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.shape import expect
from lab.base.utf16 import js_length
from lab.systems.files.settings import Reader
from lab.systems.openclaw.config.file import EMBEDDER

# The name of the plugin in a host's file, and its versions that the lab knows, the present one first.
PLUGIN = "memory-lancedb"
PRESENT, OLD = VERSIONS = ("2026.9.6", "2026.3.13")
KEYS = {
    PRESENT: (
        *("embedding", "dreaming", "dbPath", "autoCapture", "autoRecall", "captureMaxChars", "recallMaxChars"),
        *("customTriggers", "storageOptions"),
    ),
    OLD: ("embedding", "dbPath", "autoCapture", "autoRecall", "captureMaxChars"),
}
EMBEDDING = {
    PRESENT: ("provider", "model", "apiKey", "baseUrl", "dimensions"),
    OLD: ("apiKey", "model", "baseUrl", "dimensions"),
}
LAB = ("arm", "version", "maxItems")
LENGTHS = (100, 10_000)
TRIGGERS, TRIGGER_LENGTH = 50, 100
# What auto-recall injects, and the most that it fetches.
CAP, FETCHED = 3, 10


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved settings. Lengths are in UTF-16 units; ``recall_max_chars`` None: queries and memories stay whole.

    ``auto_capture`` is on by default, unlike in the plugin: an arm that does not capture would be given memories in a
    run whose memories are captured.
    """

    version: str = PRESENT
    auto_recall: bool = True
    auto_capture: bool = True
    capture_max_chars: int = 500
    recall_max_chars: int | None = 1000
    custom_triggers: tuple[str, ...] = ()
    max_items: int = CAP

    @property
    def is_old(self) -> bool:
        """Whether the rules are those of 2026.3.13."""
        return self.version == OLD

    @property
    def fetched(self) -> int:
        """The number of hits that auto-recall requests; 2026.3.13 requests no more than it injects."""
        return self.max_items if self.is_old else FETCHED

    def as_json(self) -> dict[str, Any]:
        """Return the settings as a configuration; :func:`settings_of` reads it back."""
        config: dict[str, Any] = {
            "lab": {"arm": "memory_lancedb", "version": self.version, "maxItems": self.max_items},
            "autoRecall": self.auto_recall,
            "autoCapture": self.auto_capture,
            "captureMaxChars": self.capture_max_chars,
        }
        if not self.is_old:
            config["recallMaxChars"] = self.recall_max_chars
            config["customTriggers"] = list(self.custom_triggers)
        return config


def settings_of(config: object, raw: object, where: str) -> tuple[Settings, str | None]:
    """Return the settings, and the embedding model that the configuration names.

    ``config`` is the plugin's configuration; ``raw`` is the whole file. A host's file implies the plugin's default
    model. Raise :class:`UnusableInput`, naming file, key and value, for what the plugin refuses.
    """
    host = isinstance(raw, Mapping) and any(key in raw for key in ("plugins", "entries", PLUGIN))
    if config is None:
        return Settings(), EMBEDDER if host else None
    values = expect(config, dict, where)
    lab = Reader(values.get("lab", {}), f"{where}: lab", LAB)
    version = lab.choice("version", VERSIONS)
    top = Reader(values, where, ("lab", *KEYS[version]))
    defaults = Settings(version)
    most = None if version == OLD else defaults.recall_max_chars
    return (
        Settings(
            version,
            top.flag("autoRecall", True),
            top.flag("autoCapture", True),
            top.whole("captureMaxChars", defaults.capture_max_chars, *LENGTHS),
            most if most is None else top.whole("recallMaxChars", most, *LENGTHS),
            _triggers(top.get("customTriggers", ()), where),
            lab.whole("maxItems", CAP, 1, FETCHED),
        ),
        _model(top.get("embedding"), version, where, implied=host),
    )


def _triggers(value: object, where: str) -> tuple[str, ...]:
    given = list(value) if isinstance(value, list | tuple) else None
    if given is None or len(given) > TRIGGERS or not all(_is_trigger(each) for each in given):
        raise UnusableInput(
            f"{where}: customTriggers: expected at most {TRIGGERS} texts of 1 to {TRIGGER_LENGTH} characters, "
            f"found {value!r:.80}"
        )
    return tuple(given)


def _is_trigger(value: object) -> bool:
    return isinstance(value, str) and 0 < js_length(value) <= TRIGGER_LENGTH


def _model(section: object, version: str, where: str, *, implied: bool) -> str | None:
    if section is None:
        return EMBEDDER if implied else None
    return str(Reader(section, f"{where}: embedding", EMBEDDING[version]).get("model") or EMBEDDER)
