"""Find Node and the plugin, which the comparison needs. Imports only the standard library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

# The first version with module.registerHooks and types that are transformed.
OLDEST = (22, 15)


class Missing(Exception):
    """A requirement is missing on this machine; the text says which."""


def find_node() -> str:
    """Return the Node that ``LAB_NODE`` names, else the one on the path.

    Raises :class:`Missing` where there is none, or one that is too old.
    """
    node = os.environ.get("LAB_NODE") or shutil.which("node")
    if node is None:
        raise Missing("no Node here: put node on the path, or name it in LAB_NODE")
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(f"{node} does not run: {error}") from None
    numbers = re.match(r"v(\d+)\.(\d+)", told)
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
        raise Missing(
            f"{node} is {told}, and a version from {'.'.join(map(str, OLDEST))} is needed; name it in LAB_NODE"
        )
    return node


def find_plugin(given: str | None) -> Path:
    """Return the plugin's folder, given or named in ``LAB_PLUGIN``.

    Raises :class:`Missing` where it is not given, or lacks what the plugin imports.
    """
    given = given or os.environ.get("LAB_PLUGIN")
    if not given:
        raise Missing("no plugin: give the folder of openclaw-mem-engine, or name it in LAB_PLUGIN")
    folder = Path(given)
    if not (folder / "index.ts").is_file():
        raise Missing(f"{folder}: holds no index.ts; give the folder extensions/openclaw-mem-engine of the plugin")
    if not (folder / "node_modules" / "@lancedb" / "lancedb").is_dir():
        raise Missing(f"{folder}: its packages are not installed; run npm ci --omit=dev there")
    return folder
