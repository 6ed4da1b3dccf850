"""Change one value of a gateway's configuration, as an edit of its text (CN-1, CN-3)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_env import user_path
from lab.base.config_resolve import INCLUDE, Resolved, real, resolve_config
from lab.base.config_text import MISSING, Edit, at_path, differing, member_text, read_edited, set_value
from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.base.shape import expect
from lab.systems.openclaw.config.file import ENTRY
from lab.systems.openclaw.select.policies import POLICIES
from lab.systems.openclaw.upstream.host import check_host, host_of

SLOT = ("plugins", "slots", "memory")
SELECTION = ("plugins", "entries", ENTRY, "config", "autoRecall", "selectionMode")
# The memory plugin that a host takes if none is named, the one that older hosts had, and the first host without it.
HOST_MEMORY, LANCEDB, UNBUNDLED, NO_MEMORY = "memory-core", "memory-lancedb", "2026.6.11", "none"
# The plugin's own default.
DEFAULT_SELECTION = "tier_first_v1"


@dataclass(frozen=True, slots=True)
class Change:
    """One value of a configuration file, before and after.

    ``before`` is :data:`lab.base.config_text.MISSING` if the file does not set it. ``original`` and ``switched`` are
    the bytes of the file. ``notes`` are the warnings of the host's check of the changed file.
    """

    config: Path
    path: tuple[str, ...]
    before: Any
    after: str
    edit: Edit
    original: bytes
    switched: bytes
    resolved: Resolved
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the path of the value with dots."""
        return ".".join(self.path)

    @property
    def sentence(self) -> str:
        """Return the change as ``plugins.slots.memory: "memory-lancedb" -> "openclaw-mem-engine"``."""
        before = "not set" if self.before is MISSING else f'"{self.before}"'
        return f'{self.name}: {before} -> "{self.after}"'

    def lines(self) -> list[str]:
        """Return the edited member before and after with its line, without anything else that the file holds."""
        return edited_lines(self.original.decode(), self.switched.decode(), self.path)


def edited_lines(before: str, after: str, path: tuple[str, ...]) -> list[str]:
    """Return how a member of a text changed, as lines that begin with the line number and a sign."""
    old = member_text(before, path)
    shown = [f"{old[0]:>5} - {old[1]}"] if old else []
    new = member_text(after, path)
    return [*shown, *([f"{new[0]:>5} + {new[1]}"] if new else [])]


def change_of(config: Path, path: tuple[str, ...], after: str) -> Change:
    """Return the change of a value of an openclaw.json.

    Raises :class:`UnusableInput` if the file is no JSON5, is no openclaw.json, has the value already, or if its host
    would refuse the changed file.
    """
    resolved = resolved_host(config)
    require_editable(resolved, path, after)
    config = real(config)
    original = resolved.texts[resolved.config]
    text, value = read_edited(original, str(config))
    before = at_path(value, path)
    if before is not MISSING and not isinstance(before, str):
        raise UnusableInput(f"{config}: {'.'.join(path)} is not a text")
    implied = DEFAULT_SELECTION if path == SELECTION else None
    if after in (before, implied if before is MISSING else None):
        raise UnusableInput(f"{config}: {'.'.join(path)} is {after!r} already; there is nothing to switch")
    edit = set_value(text, path, after, str(config))
    changed = edit.apply(text)
    _, result = read_edited(changed.encode(), str(config))
    after_all = resolve_config(resolved.config, edited={config: changed.encode()})
    # What the edit did, read back: nothing but the value may differ.
    if [found[: len(path)] for found in differing(value, result)] != [_first_missing(value, path)]:
        raise UnusableInput(f"{config}: {'.'.join(path)} cannot be changed alone; change it by hand")
    return Change(config, path, before, after, edit, original, changed.encode(), resolved, _checked(after_all, config))


def resolved_object(config: Path) -> Resolved:
    """Return a configuration as its host uses it; raise :class:`UnusableInput` if it is no object."""
    resolved = resolve_config(config)
    expect(resolved.value, dict, str(config))
    return resolved


def resolved_host(config: Path) -> Resolved:
    """Return a gateway's configuration as it uses it; raise :class:`UnusableInput` if it is no openclaw.json."""
    resolved = resolved_object(config)
    if not isinstance(resolved.value.get("plugins"), dict):
        raise UnusableInput(f"{config}: has no object 'plugins'; name the openclaw.json of the gateway")
    return resolved


def require_editable(resolved: Resolved, path: tuple[str, ...], after: str) -> None:
    """Raise :class:`UnusableInput` if a value is decided elsewhere than in the configuration itself (HC-8).

    A canary puts one file back, byte for byte, so it changes no included file and no variable.
    """
    name = ".".join(path)
    found = at_path(resolved.value, path)
    if found == after:
        raise UnusableInput(f"{resolved.name}: {name} is {after!r} already; there is nothing to switch")
    resolved.require_set(path)
    deciding = resolved.decides(path)
    if deciding.why_not:
        raise UnusableInput(f"{resolved.name}: {name} cannot be switched: {deciding.why_not}")
    if deciding.file != resolved.config:
        raise UnusableInput(
            f"{resolved.name}: {name} is decided in {resolved.place(path)}, which it includes; a canary changes the "
            f"configuration alone: set {name} in {resolved.name}, beside {INCLUDE}, and repeat this"
        )


def slot_change(config: Path, slot: str) -> Change:
    """Return the change of the memory slot to a plugin."""
    if not slot.strip():
        raise UnusableInput("--slot: needs the id of a plugin, such as openclaw-mem-engine")
    change = change_of(config, SLOT, slot)
    target = target_of(change.resolved, slot)
    if target.refused:
        raise UnusableInput(
            f"{config}: the host would not load {slot}: {target.refused}; name another plugin, or enable it"
        )
    # Every host starts with memory-lancedb in its slot; where that is missing, a warning says so.
    if target.known is None and slot != LANCEDB and slot not in (offered := plugins_of(change.resolved)):
        raise UnusableInput(f"{config}: nothing says that the host has a plugin {slot!r}; {choices(slot, offered)}")
    return change


def plugins_of(resolved: Resolved) -> list[str]:
    """Return the plugins that a configuration and the folders of its host name, and the host's own memory."""
    section = resolved.value.get("plugins")
    plugins = section if isinstance(section, Mapping) else {}
    names = {HOST_MEMORY, *_names(plugins.get("allow"))}
    for key in ("entries", "installs"):
        names.update(plugins[key] if isinstance(plugins.get(key), Mapping) else ())
    homes = (real(resolved.config).parent, resolved.state)
    names |= {path.name for home in homes for path in (home / "extensions").glob("*") if path.is_dir()}
    return sorted(names)


class Target(NamedTuple):
    """A plugin for the memory slot: its id, how it is known (None: nothing says that the host has it), and why not."""

    plugin: str
    known: str | None
    refused: str | None = None


def target_of(resolved: Resolved, plugin: str) -> Target:
    """Return what a configuration, and the files of its host, say of a plugin that shall own the memory slot (CN-19).

    A host refuses a configuration that denies its own memory plugin, and one whose memory plugin is not installed,
    apart from memory-lancedb: without that, it runs without memory.
    """
    value = resolved.value
    section = value.get("plugins")
    plugins = section if isinstance(section, Mapping) else {}
    entries, loaded = plugins.get("entries"), plugins.get("load")
    entry = entries.get(plugin) if isinstance(entries, Mapping) else None
    refused = None
    if plugin in _names(plugins.get("deny")):
        refused = f"plugins.deny names {plugin}"
    elif isinstance(entry, Mapping) and entry.get("enabled") is False:
        refused = f"plugins.entries.{plugin}.enabled is false"
    known = None
    homes = dict.fromkeys((real(resolved.config).parent, resolved.state))
    records = plugins.get("installs")
    if plugin.lower() == NO_MEMORY:
        known = "the host runs without memory"
    elif plugin == HOST_MEMORY:
        known = "every host has it"
    elif isinstance(records, Mapping) and plugin in records:
        known = "plugins.installs names it"
    elif any(_is_plugin(folder, plugin) for home in homes for folder in _folders(home, loaded, plugin)):
        known = "its folder is there"
    elif plugin == LANCEDB and entry is not None and _is_before(value, UNBUNDLED):
        known = f"hosts before {UNBUNDLED} have it"
    return Target(plugin, known, refused)


def slot_to_go_back_to(resolved: Resolved) -> str:
    """Return the plugin that shall own the memory slot after a downgrade, unless another one is named.

    memory-lancedb where something says that the host has it; else memory-core, which the host takes by itself. Raises
    :class:`UnusableInput` if what says it names variables that are not set.
    """
    resolved.require_set(*(("plugins", key) for key in ("deny", "installs", "load")), ("plugins", "entries", LANCEDB))
    found = target_of(resolved, LANCEDB)
    return LANCEDB if found.known and not found.refused else HOST_MEMORY


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _folders(home: Path, loaded: object, plugin: str) -> list[Path]:
    paths = _names(loaded.get("paths")) if isinstance(loaded, Mapping) else []
    given = [home.joinpath(*Path(path).parts[2:]) if path.startswith("~/.openclaw/") else Path(path) for path in paths]
    named = [user_path(str(path)) for path in given]
    npm = home / "npm" / "node_modules"
    return [*named, *(path / plugin for path in named), home / "extensions" / plugin, npm / "@openclaw" / plugin]


def _is_plugin(folder: Path, plugin: str) -> bool:
    manifest = folder / "openclaw.plugin.json"
    try:
        return bool(json.loads(manifest.read_text("utf-8")).get("id") == plugin)
    except (OSError, ValueError, AttributeError):
        return False


def _is_before(value: Mapping[str, Any], version: str) -> bool:
    host = host_of(value)
    known = re.match(r"(\d+)\.(\d+)\.(\d+)", host.version) if host else None
    return known is not None and tuple(map(int, known.groups())) < tuple(map(int, version.split(".")))


def selection_change(config: Path, policy: str) -> Change:
    """Return the change of the engine's selection policy."""
    if policy not in POLICIES:
        raise UnusableInput(f"--selection: unknown policy {policy!r}; {choices(policy, POLICIES)}")
    change = change_of(config, SELECTION, policy)
    slot = at_path(change.resolved.value, SLOT)
    if slot != ENTRY:
        found = "not set" if slot is MISSING else repr(slot)
        raise UnusableInput(
            f"{config}: {'.'.join(SLOT)} is {found}, so its selection policy has no effect; switch the slot with --slot"
        )
    return change


def _first_missing(value: Any, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path at which the edit begins: the value's own, or that of the first object that was missing."""
    for depth in range(1, len(path)):
        if at_path(value, path[:depth]) is MISSING:
            return path[:depth]
    return path


def _checked(resolved: Resolved, config: Path) -> tuple[str, ...]:
    """Return the warnings of the host's check; raise :class:`UnusableInput` for what the host refuses.

    A value that names a variable which is not set here cannot be checked; the gateway may have it.
    """
    host = host_of(resolved.value)
    if host is None:
        return ()
    checked = check_host(resolved.value, host, where=config.name)
    named = [f"{config.name}: {'.'.join(each.path)}:" for each in resolved.unset]
    known = tuple(one for one in checked.problems if not any(one.startswith(name) for name in named))
    if resolved.unset:
        sentence = f"{config.name}: {resolved.unset_sentence()}; it was not checked here"
        checked = checked._replace(problems=known, warnings=(sentence, *checked.warnings))
    if checked.problems:
        count = len(checked.problems)
        more = f" (and {count - 1} more: lab config check {config})" if count > 1 else ""
        raise UnusableInput(f"after the switch the gateway would not start: {checked.problems[0]}{more}")
    return checked.warnings
