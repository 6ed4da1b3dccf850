"""The pages of docs/, and a copy of the lab with the extensions of docs/extending.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="session")
def pages() -> dict[str, str]:
    """Return the text of every page by its path relative to docs/."""
    folder = ROOT / "docs"
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.md"))}


@pytest.fixture(scope="session")
def extended(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the worked example of extending.md in a copy of the lab; return its folder and its output."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "lab", folder / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    for kind, name, text in BLOCK.findall(pages["extending.md"]):
        path = folder / name
        if kind == "diff":
            _apply(path, text)
        else:
            assert not path.exists(), f"{name} exists already"
            path.write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "walks.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def _apply(path: Path, change: str) -> None:
    """Insert the lines with a plus at the place of the others, which must occur exactly once."""
    lines = change.splitlines(keepends=True)
    assert all(line[0] in " +" for line in lines), f"{path}: a diff may only add lines"
    before = "".join(line[1:] for line in lines if line[0] == " ")
    text = path.read_text("utf-8")
    assert text.count(before) == 1, f"{path}: occurs {text.count(before)} times:\n{before}"
    path.write_text(text.replace(before, "".join(line[1:] for line in lines)), "utf-8")
