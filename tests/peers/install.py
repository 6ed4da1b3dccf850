"""Install Node, the plugins and the sidecar: ``python install.py FOLDER``. Imports only the standard library.

What is there already is kept. Nothing is built: mem0's native SQLite is replaced by Node's own (EX-32).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

NODE = "node@24"
MEM0 = ("@mem0/openclaw-mem0@1.0.16", "mem0ai@3.0.7")
OPENCLAW = "openclaw@2026.3.13"
# The public sidecar, in an environment of its own. The package openclaw-mem is another project.
SIDECAR = "openclaw-context-pack==2.0.0"
# The plugin within the package, which has it as TypeScript, without its packages.
LANCEDB = "package/extensions/memory-lancedb/"


def install(place: Path) -> None:
    """Install what is missing in a folder. Raises CalledProcessError if the registry does not give it."""
    place.mkdir(parents=True, exist_ok=True)
    manifest = place / "package.json"
    if not manifest.is_file():
        manifest.write_text('{"name": "plugins", "private": true}\n', "utf-8")
    if not (place / "node_modules" / "node").is_dir():
        npm(place, "install", NODE)
    if not (place / "node_modules" / "@mem0").is_dir():
        npm(place, "install", "--ignore-scripts", *MEM0)
    plugin = place / "memory-lancedb"
    if not (plugin / "node_modules").is_dir():
        unpack(place, plugin)
        npm(plugin, "install", "--omit=dev", "--ignore-scripts")
    sidecar = place / "sidecar"
    if not (sidecar / "bin" / "openclaw-mem").is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(sidecar)], check=True)
        subprocess.run([str(sidecar / "bin" / "pip"), "install", "--quiet", SIDECAR], check=True)


def unpack(place: Path, plugin: Path) -> None:
    """Unpack the host's own plugin out of the host's package."""
    told = npm(place, "pack", "--json", OPENCLAW)
    archive = place / json.loads(told)[0]["filename"]
    shutil.rmtree(plugin, ignore_errors=True)
    with tarfile.open(archive) as packed:
        members = [member for member in packed if member.name.startswith(LANCEDB)]
        for member in members:
            member.name = member.name.removeprefix(LANCEDB)
        packed.extractall(plugin, members, filter="data")
    archive.unlink()


def npm(place: Path, *words: str) -> str:
    """Run npm in a folder and return what it writes."""
    command = ["npm", *words, "--no-audit", "--no-fund", "--loglevel=error"]
    return subprocess.run(command, cwd=place, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    install(Path(sys.argv[1]).resolve())
