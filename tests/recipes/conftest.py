"""A clean machine: a home without anything, on which the boxes of docs/recipes.md are executed in order."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "docs" / "recipes"
BOX = re.compile(r'^```sh title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# A quick plan with a baseline: the embedder for tests, and three of the shipped conversations.
QUICK = """name = "mine"
about = "receipts equal the approved ones"

[[set]]
name = "operators"
recordings = "shipped:operators"
format = "lab"
arms = ["tier_first_v1", "tier_quota_v1", "hybrid"]
scope = "recorded"
embedder = "hashing"
conversation = ["harbor-release", "juniper-clinic", "tea-mountain"]
"""
# Boxes and steps that replay a whole set run on six conversations of it, with the embedder for tests.
SIX = ("harbor-release", "juniper-clinic", "lantern-shop", "orchid-lab", "tea-mountain", "two-desks")
QUICKER = (
    (
        "lab replay shipped:operators ",
        f"lab replay shipped:operators --embedder hashing {' '.join(f'--conversation {name}' for name in SIX)} ",
    ),
)
# A program in place of one that changes the machine or sends something: it keeps its arguments and its input.
STAND_IN = """#!/bin/sh
echo "${{0##*/}} $*" >>"{calls}"
{more}
"""


@dataclass
class Machine:
    """A home with a PATH of its own, and what the stand-ins on it were called with."""

    home: Path
    calls: Path
    path: str
    more: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a login shell on this machine: nothing of the test's, but for what reaches packages."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LAB_CACHE"))}
        named = {"HOME": str(self.home), "PATH": self.path, "RECALL_LAB": str(ROOT), "LANG": "C.UTF-8", "USER": "ops"}
        return kept | named | self.more

    def run(self, script: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a script as a person would paste it; it stops at the first command that fails."""
        return subprocess.run(
            ["/bin/sh", "-euc", script], cwd=self.home, env=dict(env or self.env), capture_output=True, text=True
        )

    def ok(self, script: str) -> str:
        """Run a script that must succeed; return its output."""
        done = self.run(script)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def stand_in(self, name: str, more: str = "cat >/dev/null") -> None:
        """Put a stand-in on the PATH."""
        program = Path(self.path.partition(":")[0]) / name
        program.write_text(STAND_IN.format(calls=self.calls, more=more), "utf-8")
        program.chmod(0o755)

    def called(self) -> list[str]:
        """What stand-ins were called with since the last question."""
        lines = self.calls.read_text("utf-8").splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return lines


@pytest.fixture(scope="session")
def boxes() -> dict[str, str]:
    """Every box of the page by its title, in order."""
    found = BOX.findall((ROOT / "docs" / "recipes.md").read_text("utf-8"))
    assert len(dict(found)) == len(found), "two boxes have one title"
    return dict(found)


@pytest.fixture(scope="session")
def machine(boxes: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine after the box *Install*: a clone of the commit, and the lab installed under the pinned versions.

    The workers of one test run share the installation and have a home each, with copies of nothing but links.
    """
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout, which the recipe clones")
    if shutil.which("flock") is None:
        pytest.skip("needs flock (util-linux)")
    own = tmp_path_factory.mktemp("machine")
    programs = own / "bin"
    programs.mkdir()
    # The machine's Python, not that of the test's environment.
    (programs / "python3.11").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    machine = Machine(own / "home", own / "calls", f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    machine.home.mkdir()
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "recipes-machine"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = Machine(shared / "home", shared / "calls", machine.path)
        if not (shared / "done").exists():
            first.home.mkdir()
            said = first.ok(boxes["Install"])
            (shared / "done").write_text(said, "utf-8")
    (machine.home / "lab").mkdir()
    for name in (".venv", "checkout"):
        (machine.home / "lab" / name).symlink_to(shared / "home" / "lab" / name)
    return machine


@pytest.fixture(scope="session")
def installed_said(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the box *Install* printed."""
    shared = (machine.home / "lab" / ".venv").resolve().parents[2]
    return (shared / "done").read_text("utf-8")


@pytest.fixture
def prepared(machine: Machine, boxes: dict[str, str]) -> Callable[[], Machine]:
    """Makes the machine ready for a first night: the box *Prepare*, a quick plan, a program that keeps mail."""

    def prepare() -> Machine:
        lab = machine.home / "lab"
        for path in lab.iterdir():
            if path.name not in (".venv", "checkout"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        machine.ok(boxes["Prepare"])
        (lab / "plan.toml").write_text(QUICK, "utf-8")
        machine.stand_in("sendmail", f'cat >"{machine.home}/mail"')
        (machine.home / "mail").unlink(missing_ok=True)
        machine.called()
        return machine

    return prepare
