"""Find Node and the plugins, which these comparisons need."""

from __future__ import annotations

import os
from pathlib import Path

from lab.base.errors import CannotMeasure
from lab.systems.external import plugin

# Where tests/peers/install.py puts each plugin.
INSTALLED = {"memory-lancedb": "memory-lancedb", "openclaw-mem0": "node_modules/@mem0/openclaw-mem0"}


class Missing(Exception):
    """A requirement is missing on this machine; the text says which."""


def find_node() -> str:
    """Return the Node that ``LAB_NODE`` names, else the one on the path.

    Raises :class:`Missing` where there is none, or one that is too old.
    """
    try:
        return plugin.find_node()
    except CannotMeasure as error:
        raise Missing(str(error)) from None


def find_plugin(given: str | None) -> Path:
    """Return the folder of openclaw-mem-engine, given or named in ``LAB_PLUGIN``.

    Raises :class:`Missing` where it is not given, or lacks what the plugin imports.
    """
    given = given or os.environ.get("LAB_PLUGIN")
    if not given:
        raise Missing("no plugin: give the folder of openclaw-mem-engine, or name it in LAB_PLUGIN")
    folder = Path(given)
    if not (folder / "index.ts").is_file():
        raise Missing(f"{folder}: holds no index.ts; give the folder extensions/openclaw-mem-engine of the plugin")
    if not (folder / "node_modules" / "@lancedb" / "lancedb").is_dir():
        raise Missing(f"{folder}: its packages are not installed")
    return folder


def find_installed(name: str) -> Path:
    """Return the folder of a plugin that ``nox -s peers`` has installed in the folder ``LAB_PLUGINS``.

    Raises :class:`Missing` where it is not there.
    """
    given = os.environ.get("LAB_PLUGINS")
    if not given:
        raise Missing(f"no {name}: nox -s peers installs it; LAB_PLUGINS names the folder")
    folder = Path(given) / INSTALLED[name]
    if not (folder / "package.json").is_file():
        raise Missing(f"no {name} in {folder}: nox -s peers installs it")
    return folder


def find_sidecar() -> Path:
    """Return the command of the public sidecar, which ``LAB_SIDECAR`` names. Raises :class:`Missing` without one."""
    given = os.environ.get("LAB_SIDECAR")
    if not given or not Path(given).is_file():
        raise Missing("no sidecar: nox -s peers installs openclaw-context-pack, whose command LAB_SIDECAR names")
    return Path(given).resolve()
