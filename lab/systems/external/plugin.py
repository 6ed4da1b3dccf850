"""An OpenClaw memory plugin as an arm, run as it is by the lab's Node host.

``--arm NAME=plugin:FOLDER``, or a file ``{"lab": {"arm": "plugin"}, "plugin": FOLDER, "config": {…}}``. The folder
holds the plugin with its packages. ``openclaw/presets`` has a configuration for plugins that the lab knows by their id;
what the file says overrides it (EX-38).

The host consists of ``openclaw/host.mjs`` (the protocol, recall, capturing and evidence: EX-36, EX-37, EX-39),
``plugin.mjs`` (loading and the host's API: EX-27, EX-32), ``world.mjs`` (home, time, chance and network: EX-28, EX-29,
EX-30, EX-31), ``store.mjs`` (memories in and out: EX-33, EX-34) and ``block.mjs`` (which memories a text names: EX-35).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import read_json
from lab.base.shape import deep_merge, expect, only_keys
from lab.systems.external import arm as external
from lab.systems.spec import ArmSpec

HOST = Path(__file__).parent / "openclaw" / "host.mjs"
PRESETS = Path(__file__).parent / "openclaw" / "presets"
# The first version with module.registerHooks.
OLDEST = (22, 15)
KEYS = ("lab", "plugin", "config", "host", "embedder", "env", "timeouts")
MANIFEST = "openclaw.plugin.json"


def make(spec: ArmSpec) -> external.ExternalArm:
    """Make the arm.

    Raises :class:`UnusableInput` for unusable settings or a folder without a plugin, and :class:`CannotMeasure` without
    a Node that can run it.
    """
    if spec.config is None or ("plugin" not in spec.config and "exec" not in spec.config):
        raise UnusableInput(
            f"{spec.where}: plugin needs a folder: --arm NAME=plugin:FOLDER, or a file with the key plugin"
        )
    values = expect(spec.config, dict, spec.where)
    # A manifest holds what the arm resolved to.
    if "exec" in values:
        return external.make(spec)
    only_keys(values, KEYS, spec.where)
    folder = Path(expect(values.get("plugin"), str, f"{spec.where}: plugin")).expanduser().resolve()
    about = _manifest(folder, f"{spec.where}: plugin")
    merged = deep_merge(preset(about.get("id")), values)
    host = expect(merged.get("host", {}), dict, f"{spec.where}: host")
    config = expect(merged.get("config", {}), dict, f"{spec.where}: config")
    resolved: dict[str, Any] = {name: merged[name] for name in ("embedder", "env", "timeouts") if name in merged}
    resolved["exec"] = [find_node(), "--no-warnings", str(HOST)]
    resolved["settings"] = {**host, "plugin": str(folder), "config": config}
    return external.make(replace(spec, config=resolved))


def preset(identity: object) -> Mapping[str, Any]:
    """Return the configuration that the lab has for a plugin of this id; empty if it has none."""
    file = PRESETS / f"{identity}.json"
    known = isinstance(identity, str) and re.fullmatch(r"[\w.-]+", identity) and file.is_file()
    return expect(read_json(file), dict, file.name) if known else {}


def find_node() -> str:
    """Return the Node that ``LAB_NODE`` names, else the one on the path.

    Raises :class:`CannotMeasure` where there is none, or one that is too old.
    """
    needed = ".".join(map(str, OLDEST))
    node = os.environ.get("LAB_NODE") or shutil.which("node")
    if node is None:
        raise CannotMeasure(f"no Node here: put node {needed} or later on the path, or name it in LAB_NODE")
    try:
        shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603 - the user's own Node
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotMeasure(f"{node} does not run: {error}") from None
    numbers = re.match(r"v(\d+)\.(\d+)", shown)
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
        raise CannotMeasure(f"{node} is {shown.strip()}, and {needed} or later is needed; name another in LAB_NODE")
    return node


def _manifest(folder: Path, where: str) -> Mapping[str, Any]:
    """Return the manifest of a plugin, or an empty one. Raises :class:`UnusableInput` if there is no plugin."""
    if not folder.is_dir():
        raise UnusableInput(f"{where}: {folder}: no such folder")
    if not any((folder / name).is_file() for name in (MANIFEST, "package.json")):
        raise UnusableInput(f"{where}: {folder}: no plugin there: it has neither {MANIFEST} nor package.json")
    file = folder / MANIFEST
    about: Mapping[str, Any] = expect(read_json(file), dict, str(file)) if file.is_file() else {}
    package = folder / "package.json"
    needed = expect(read_json(package), dict, str(package)).get("dependencies", {}) if package.is_file() else {}
    missing = [
        name for name in needed if not any((up / "node_modules" / name).is_dir() for up in (folder, *folder.parents))
    ]
    if missing:
        raise CannotMeasure(f"{where}: {folder}: its package {missing[0]} is not installed")
    return about
