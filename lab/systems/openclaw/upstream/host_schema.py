"""The schema by which an OpenClaw host validates its file, by version: its keys and the engine's section (0.0.9).

The host validates ``meta`` and ``plugins`` against the schema of its version, and the engine's section against the
``configSchema`` of the plugin's manifest. Both are stricter than the plugin, which clamps numbers and ignores values
of another type: whole numbers must be whole and within their range, strings must be strings, and null is never valid.
The section's keys and ranges are those of :mod:`lab.systems.openclaw.config.table`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.base.shape import json_type
from lab.systems.openclaw.config.table import LAB_KEY, PLUGIN, Knob, Section
from lab.systems.openclaw.config.values import finite, in_short

OLDER, NEWEST = KNOWN_HOSTS = ("2026.6.11", "2026.9.6")
# Matches any key.
ANY_KEY = "*"
# The host replaces this key by another file's content before validating.
# The largest JavaScript date, in milliseconds.
LAST_TIME_MS = 8.64e15
_FLAG, _TEXT, _TEXTS = Knob("flag"), Knob("text"), Knob("texts")
_TIMEOUT = Knob("whole", low=1, high=600_000)


def _object(keys: Mapping[str, Knob | Section]) -> Section:
    return Section(keys, boolean=False)


def _entry(**llm: Knob) -> Section:
    hooks: dict[str, Knob | Section] = {
        "allowPromptInjection": _FLAG,
        "allowConversationAccess": _FLAG,
        "timeoutMs": _TIMEOUT,
        "timeouts": _object({ANY_KEY: _TIMEOUT}),
    }
    models: dict[str, Knob | Section] = {"allowModelOverride": _FLAG, "allowedModels": _TEXTS}
    return _object(
        {
            "enabled": _FLAG,
            "hooks": _object(hooks),
            "subagent": _object(models),
            "llm": _object(models | {"allowAgentIdOverride": _FLAG} | llm),
            "config": _object({ANY_KEY: Knob("any")}),
        }
    )


def _plugins(entry: Section, more: Mapping[str, Knob]) -> Section:
    return _object(
        {
            "enabled": _FLAG,
            "allow": _TEXTS,
            "deny": _TEXTS,
            "load": _object({"paths": _TEXTS}),
            "slots": _object({"memory": _TEXT, "contextEngine": _TEXT}),
            "entries": _object({ANY_KEY: entry}),
            **more,
        }
    )


ENTRY_OF = {
    OLDER: _entry(),
    NEWEST: _entry(allowedCompletionModels=_TEXTS, allowAuthProfileOverride=_FLAG),
}
PLUGINS_OF = {
    OLDER: _plugins(
        ENTRY_OF[OLDER],
        {"bundledDiscovery": Knob("choice", choices=("compat", "allowlist")), "installs": Knob("any")},
    ),
    NEWEST: _plugins(ENTRY_OF[NEWEST], {}),
}
META_OF = {
    OLDER: _object({"lastTouchedVersion": _TEXT, "lastTouchedAt": Knob("time")}),
    NEWEST: _object(
        {
            "lastTouchedVersion": _TEXT,
            "migrations": _object({"modelPolicyAllowlist": Knob("true"), "utilityModelSeparation": Knob("true")}),
        }
    ),
}
ENGINE = _object(PLUGIN)


def refusals(section: Section, raw: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and complaint of everything that a host refuses in a section. Secrets are never repeated."""
    if isinstance(raw, bool) and section.boolean and not section.only_object:
        return
    if not isinstance(raw, Mapping):
        words = "true, false or an object" if section.boolean and not section.only_object else "an object"
        yield path, f"expected {words}, found {json_type(raw)}"
        return
    known = sorted(key for key, entry in section.keys.items() if not entry.only_seed)
    for key, value in raw.items():
        at, entry = f"{path}.{key}" if path else str(key), section.keys.get(key, section.keys.get(ANY_KEY))
        if entry is None or entry.only_seed:
            is_lab_key = key == LAB_KEY and section is ENGINE
            owner = (
                "a key of this lab"
                if is_lab_key
                else "a key of this lab's profile 'seed'"
                if entry is not None
                else None
            )
            hint = f"{owner}; keep it in the file of an arm" if owner else f"known: {', '.join(known)}"
            yield at, f"unknown key ({hint})"
        elif isinstance(entry, Section):
            yield from refusals(entry, value, at)
        elif what := _refusal(entry, value):
            yield at, what


def _refusal(knob: Knob, value: object) -> str | None:
    """Return why a host refuses a value; None if it accepts it."""
    if knob.kind == "any":
        return None
    if knob.kind == "time":
        number = finite(value)
        known = isinstance(value, str) or (number is not None and abs(number) <= LAST_TIME_MS)
        return None if known else f"expected a time, found {in_short(value)}"
    if knob.kind == "true":
        return None if value is True else f"expected true, found {in_short(value)}"
    if knob.kind == "flag":
        return None if isinstance(value, bool) else f"expected true or false, found {in_short(value)}"
    if knob.kind in ("whole", "number", "positive"):
        return _number_refusal(knob, value)
    if knob.kind in ("choice", "word"):
        return None if value in knob.choices else f"expected one of {', '.join(knob.choices)}, found {in_short(value)}"
    if knob.kind == "map":
        if not isinstance(value, Mapping):
            return f"expected an object of lists, found {in_short(value)}"
        wrong = ((key, _refusal(_TEXTS, inner)) for key, inner in value.items())
        return next((f"{key}: {what}" for key, what in wrong if what), None)
    if knob.kind in ("texts", "args", "scopes"):
        if not isinstance(value, list):
            return f"expected a list of strings, found {in_short(value)}"
        wrong_item = next((number for number, item in enumerate(value, 1) if not isinstance(item, str)), None)
        return f"item {wrong_item}: expected a string, found {json_type(value[wrong_item - 1])}" if wrong_item else None
    if isinstance(value, str):
        return None
    return f"expected a string, found {json_type(value) if knob.kind == 'secret' else in_short(value)}"


def _number_refusal(knob: Knob, value: object) -> str | None:
    low, high = knob.manifest or (knob.low, knob.high)
    kind = "a number" if knob.kind == "number" else "a whole number"
    number = finite(value)
    if number is not None and (knob.kind == "number" or float(number).is_integer()) and low <= number <= high:
        return None
    return f"expected {kind} from {_plain(low)} to {_plain(high)}, found {in_short(value)}"


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)
