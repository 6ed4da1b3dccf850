"""Check a configuration as an OpenClaw host does: errors, warnings and notes (docs/engine.md).

Errors are what the host refuses: it does not start with such a file. It validates ``meta`` and ``plugins`` against the
schema of its version, and the engine's section against the ``configSchema`` of the plugin's manifest (0.0.9). Both are
stricter than the plugin, which clamps numbers and ignores values of another type: whole numbers must be whole and
within their range, strings must be strings, and null is never valid. The keys and ranges of the section are those of
:mod:`lab.systems.openclaw.config.table`. Warnings are settings that the host accepts but that have no effect, or an
unexpected one. Notes are values that the host accepts and the plugin then changes silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lab.base.config_resolve import Resolved
from lab.base.errors import UnusableInput
from lab.base.regex import regex
from lab.base.shape import json_type
from lab.base.utf16 import js_length
from lab.systems.openclaw.config.file import ENTRY, switched_off
from lab.systems.openclaw.config.resolve import Checked, check_config, resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.config.table import LAB_KEY, PLUGIN, UPSTREAM, Knob, Section
from lab.systems.openclaw.config.values import NOT_HERE, finite, in_short
from lab.systems.openclaw.recall.block import Slot, compose
from lab.systems.openclaw.recall.receipt import Final, LaneHit, lifecycle_receipt, prompt_comment
from lab.systems.openclaw.recall.scope import ScopePolicy, fallback_receipt
from lab.systems.openclaw.recall.working_set import no_working_set
from lab.systems.openclaw.select.outcome import TierCount

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


NO_HOST = "none"
_PATH = f"plugins.entries.{ENTRY}"
_VERSION = regex(r"v?(\d{4})\.(\d{1,2})\.(\d{1,3})([-+.].*)?")
# The length of a short memory, in characters.
_SHORT_MEMORY = 80


class Host(NamedTuple):
    """The host that a file is checked for: its version, the known version whose rules apply, the version's source."""

    version: str
    rules: str
    source: str

    def __str__(self) -> str:
        """Return the version, its source, and whose rules apply."""
        rules = "" if self.version == self.rules else f"; checked by the rules of {self.rules}, the nearest known"
        return f"{self.version} ({self.source}{rules})"


class _Parts(NamedTuple):
    """The engine's section of a file and the parts around it; missing parts are None."""

    root: Any
    plugins: Any
    entry: Any
    config: Any


def host_of(value: object, option: str | None = None) -> Host | None:
    """Return the host that a parsed file is for; None for a file of the lab.

    ``option`` is a version or ``none``. Without it, a file with the key ``plugins`` is for the host that last wrote it,
    or for the newest known one if the file does not name it.
    """
    if option == NO_HOST:
        return None
    if option is not None:
        host = _host(option, "--host")
        if host is None:
            raise UnusableInput(f"--host {option!r} is not a version; known: {', '.join((*KNOWN_HOSTS, NO_HOST))}")
        return host
    if not isinstance(value, Mapping) or "plugins" not in value:
        return None
    meta = value.get("meta")
    touched = meta.get("lastTouchedVersion") if isinstance(meta, Mapping) else None
    named = _host(touched.strip(), "meta.lastTouchedVersion") if isinstance(touched, str) else None
    return named or Host(NEWEST, NEWEST, "assumed, as the file names none: the newest known")


def _host(text: str, source: str) -> Host | None:
    match = _VERSION.fullmatch(text)
    if not match:
        return None
    # Rules change with a known version and apply until the next one.
    version = tuple(map(int, match.groups()[:3]))
    older = [known for known in KNOWN_HOSTS if tuple(map(int, known.split("."))) <= version]
    return Host(text.removeprefix("v"), older[-1] if older else KNOWN_HOSTS[0], source)


def check_host(value: object, host: Host, *, where: str = "config") -> Checked:
    """Return what a host refuses in a parsed file, settings without effect, and what the plugin changes."""
    parts = _parts(value)
    refused = tuple(f"{where}: {path}: the host refuses this: {what}" for path, what in _refused(parts, host))
    if refused:
        return Checked(refused, (), ())
    config = {} if parts.config is None else parts.config
    checked = check_config(config, UPSTREAM, where=where)
    ignored = tuple(
        f"{problem}: the host accepts it{'' if NOT_HERE in problem else ' and the plugin ignores it'}; "
        "a replay refuses it"
        for problem in checked.problems
    )
    warnings = [*_hook_warnings(parts, host)]
    if not checked.problems:
        warnings += _silent(config, resolve(config, UPSTREAM))
    notes = tuple(f"{note}: the host accepts it, and the plugin changes it silently" for note in checked.notes)
    texts = (*(f"{where}: {warning}" for warning in warnings), *checked.warnings, *ignored)
    return Checked((), texts, notes, checked.missing)


def with_unset(checked: Checked, resolved: Resolved, where: str) -> Checked:
    """Return a check with a warning of the variables that are not set, which a host leaves as they are written.

    Raises :class:`UnusableInput`, which names all of them, if the host refuses a value for this.
    """
    if not resolved.unset:
        return checked
    named = [f"{where}: {'.'.join(each.path)}:" for each in resolved.unset]
    sentence = f"{where}: {resolved.unset_sentence()}"
    if any(problem.startswith(name) for problem in checked.problems for name in named):
        raise UnusableInput(sentence)
    if checked.problems:
        return checked
    return checked._replace(
        warnings=(f"{sentence}; the host starts without and uses the text as it is", *checked.warnings)
    )


def _parts(value: object) -> _Parts:
    root = value if isinstance(value, Mapping) and "plugins" in value else None
    plugins = root["plugins"] if root is not None else _with(value, "entries")
    entries = plugins.get("entries") if isinstance(plugins, Mapping) else _with(value, ENTRY)
    entry = entries.get(ENTRY) if isinstance(entries, Mapping) else None
    if root is None and plugins is None and entries is None:
        entry = _with(value, "config")
        return _Parts(None, None, entry, value if entry is None else entry["config"])
    return _Parts(root, plugins, entry, entry.get("config") if isinstance(entry, Mapping) else None)


def _with(value: object, key: str) -> Any:
    return value if isinstance(value, Mapping) and key in value else None


def _refused(parts: _Parts, host: Host) -> list[tuple[str, str]]:
    refused: list[tuple[str, str]] = []
    if parts.root is not None and "meta" in parts.root:
        refused += refusals(META_OF[host.rules], parts.root["meta"], "meta")
    at = "plugins" if parts.root is not None else ""
    if parts.plugins is not None:
        refused += refusals(PLUGINS_OF[host.rules], parts.plugins, at)
    elif parts.root is not None:
        refused.append((at, "expected an object, found null"))
    elif parts.entry is not None:
        refused += refusals(ENTRY_OF[host.rules], parts.entry, _PATH)
    bare = parts.plugins is None and parts.entry is None
    if bare or parts.config is not None:
        refused += refusals(ENGINE, parts.config, "" if bare else f"{_PATH}.config")
    return [(path or "config", what) for path, what in refused]


def _hook_warnings(parts: _Parts, host: Host) -> Iterator[str]:
    """Yield the reasons why the host would not load the engine, or not call it."""
    plugins = parts.plugins if isinstance(parts.plugins, Mapping) else {}
    entry = parts.entry if isinstance(parts.entry, Mapping) else {}
    whole = parts.plugins is not None
    yield from switched_off({"plugins": plugins} if whole else {ENTRY: entry}, complete=whole)
    if parts.entry is None:
        return
    hooks = entry.get("hooks") or {}
    if hooks.get("allowConversationAccess") is not True:
        at = f"{_PATH}.hooks.allowConversationAccess: must be true, or"
        if host.rules == NEWEST:
            yield (
                f"{at} nothing happens: the host blocks both hooks, recall (before_prompt_build) and capture "
                f"(agent_end), although the log says that they are registered"
            )
        else:
            yield f"{at} nothing is captured: the host blocks the hook agent_end"


def _silent(config: Mapping[str, Any], resolved: EngineConfig) -> Iterator[str]:
    """Yield the settings of the engine's own section that have no effect, or an unexpected one."""
    if not resolved.auto_recall.enabled:
        yield "autoRecall: nothing is injected: it is switched off"
    recall = config.get("autoRecall")
    quotas = recall.get("quotas") if isinstance(recall, Mapping) else None
    if quotas and resolved.auto_recall.selection_mode != "tier_quota_v1":
        yield 'autoRecall.quotas: no quota is applied: selectionMode is not "tier_quota_v1"'
    for name, section in PLUGIN.items():
        given, switch = config.get(name), section.keys.get("enabled") if isinstance(section, Section) else None
        if isinstance(given, Mapping) and given and "enabled" not in given and _is_off(switch):
            yield f"{name}: it stays off: enabled is not set, and its default is false"
    receipts, budget = resolved.receipts, resolved.budget
    if not receipts.enabled:
        yield "receipts.enabled: recalls are not logged, so a canary has no receipts to check"
    if receipts.enabled and receipts.verbosity == "high" and budget.enabled and resolved.auto_recall.enabled:
        comment, least = _comment_length(resolved)
        if least > budget.max_chars:
            yield (
                f"receipts.verbosity: most blocks would hold no memory: at high verbosity the receipt's comment takes "
                f"about {comment} of the {budget.max_chars} characters of budget.maxChars, and no short memory fits "
                f"beside it; receipts report injections nevertheless. Set it to low, or budget.maxChars to at least "
                f"{-(-least // 100) * 100 + 1000}"
            )


def _is_off(switch: Any) -> bool:
    return switch is not None and switch.default_in(UPSTREAM) is False


def _comment_length(config: EngineConfig) -> tuple[int, int]:
    """Return the length of a full recall's comment, and of a block with it and one short memory, in UTF-16 units."""
    recall, scope = config.auto_recall, config.scope_policy.default_scope
    ids = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(recall.max_items)]
    tiers = ("must_remember", "nice_to_have", "unknown")
    receipt = lifecycle_receipt(
        config.receipts,
        scope=scope,
        scope_mode="global",
        mode=recall.selection_mode,
        quota=recall.quota._replace(wildcard_used=1) if recall.selection_mode == "tier_quota_v1" else None,
        tier_counts=[TierCount(tier, (tier,), recall.search_limit, 1) for tier in tiers],
        fts=[LaneHit(identity, 1.0, 0.0) for identity in ids],
        vec=[LaneHit(identity, 1.0, 0.0) for identity in ids],
        final=[Final(identity, tiers[index % len(tiers)], scope) for index, identity in enumerate(ids)],
        injected=len(ids),
        parts={
            "fallback": fallback_receipt(ScopePolicy()),
            "workingSet": no_working_set(enabled=config.working_set.enabled),
        },
    )
    comment = prompt_comment(config.receipts, receipt)
    block = compose([Slot(ids[0], 0, "preference", "must_remember", "x" * _SHORT_MEMORY)], comment)
    return js_length(comment), js_length(block)
