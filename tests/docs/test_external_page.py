"""The page on external systems: its commands run as they stand there, and its tables name what the code has."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from lab.systems.external.protocol import ANSWERS, REQUIRED, TIMEOUTS
from lab.systems.external.settings import KEYS
from tests.commands import run_here
from tests.docs.conftest import BLOCK, ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

# Makes a replay short: two conversations of each set, and no model.
SHORT = ["--embedder", "hashing", "--haystack", "0", "--limit", "2"]
FAILED = re.compile(r"(?:HostFailed|Broken)\(\s*\"([a-z_0-9]+)\"")


@pytest.fixture(scope="module")
def page(pages: dict[str, str]) -> str:
    return pages["external.md"]


def test_every_command_of_the_page_runs_in_its_order(page: str, tmp_path: Path) -> None:
    for _, name, text in BLOCK.findall(page):
        (tmp_path / name).write_text(text, "utf-8")
    # ``python`` on the page is the one that has the lab.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "PYTHONPATH": str(ROOT), "LAB_CACHE_DIR": str(tmp_path / "cache")}
    printed: dict[str, str] = {}
    for line in re.findall(r"^    (lab .+)$", page, re.MULTILINE):
        words = shlex.split(line)[1:]
        done = run_here(*words, *(SHORT if words[0] == "replay" else []), cwd=tmp_path, **environment)
        # With two conversations a comparison is inconclusive.
        assert done.returncode in ((0, 3) if words[0] == "compare" else (0,)), (line, done.stderr)
        printed[line] = done.stdout
    assert len(printed) == 9
    assert printed["lab cache answers --stderr mine"] == "mine: its host wrote nothing to stderr\n"
    assert "mine  words   1.0" in printed["lab cache answers"]
    assert (tmp_path / "again" / "receipts").is_dir()
    stored = [path for path in (tmp_path / "kept" / "writes").glob("*.parquet") if path.stat().st_size]
    assert len(stored) == 2


def test_every_key_and_time_out_is_on_the_page(page: str) -> None:
    keys = {*KEYS} - {"lab", "hello", "could_see"}
    assert {key for key in keys if f"\n| `{key}` | " not in page} == set()
    assert ", ".join(f"{op} {seconds:g}" for op, seconds in TIMEOUTS.items()) in page


def test_every_field_of_a_result_is_on_the_page(page: str) -> None:
    table = {
        row[0]: tuple({*re.findall(r"`(\w+)`", cell)} for cell in row[1:])
        for row in re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    }
    for op, fields in ANSWERS.items():
        required = {name for name, field in fields.items() if field.default is REQUIRED}
        assert table[op] == (required, {*fields} - required), op


def test_every_kind_of_failure_is_on_the_page(page: str) -> None:
    code = [path.read_text("utf-8") for path in (ROOT / "lab/systems/external").glob("*.py")]
    # What stands before checks the types of objects, which only an arm in Python can get wrong.
    code.append((ROOT / "lab/replay/guarded.py").read_text("utf-8").partition("\nclass Guarded")[2])
    kinds = {kind for text in code for kind in FAILED.findall(text)}
    assert len(kinds) > 15
    assert {kind for kind in kinds if f"`{kind}`" not in page} == set()
