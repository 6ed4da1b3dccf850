"""What commands import: of the heavy libraries those that they use, and none of them to be found or to show help."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cli.sections import SECTIONS, Entry, Group

# What takes longer to import than a short command to run.
HEAVY = frozenset(
    (
        "http.client",
        "lancedb",
        "matplotlib",
        "numpy",
        "pandas",
        "pyarrow",
        "pydantic",
        "scipy",
        "sentence_transformers",
        "torch",
    )
)
TABLES = frozenset(("numpy", "pyarrow"))
# A command for which no more is imported than it says, in a folder with a run and the set that was replayed.
COMMANDS: dict[str, frozenset[str]] = {
    "--help": frozenset(),
    "--version": frozenset(),
    "memory --help": frozenset(),
    "replay --help": frozenset(),
    "report --help": frozenset(),
    "view --help": frozenset(),
    "study saturation --help": frozenset(),
    "memory store --help": frozenset(),
    "canary run --help": frozenset(),
    "score --list": frozenset(),
    "gate policies": frozenset(),
    "gate schema verdict": frozenset(),
    "gate self-test --list": frozenset(),
    "runs list .": frozenset(),
    "runs schema": frozenset(),
    "runs rm run": frozenset(),
    "config check engine.json": frozenset(),
    "config show engine.json": frozenset(),
    "recordings list": frozenset(),
    "recordings list locomo": frozenset(),
    "recordings validate datasets/tiny --format lab": frozenset(),
    "golden lint golden/tiny": frozenset(),
    "nightly baseline list": frozenset(),
    "cache stat": TABLES,
    "score run": TABLES,
    "compare run --baseline none --candidate hybrid": TABLES | {"scipy"},
    "diff run run": TABLES,
    "explain run den/s03/t01": TABLES,
    # LanceDB tokenises the texts that no cache has.
    "missed run": TABLES | {"lancedb", "pandas"},
    "gate run": TABLES | {"scipy"},
    "runs export run --out out": TABLES,
    "report run": TABLES | {"scipy"},
}
# Runs each command in a copy of one process, and says what was imported when it ended.
DRIVER = """
import json, os, sys
from importlib import import_module

import lab.cli.main

heavy, modules, commands = (json.loads(text) for text in sys.argv[1:])
found = {}
for words in (None, *commands):
    there, here = os.pipe()
    if os.fork() == 0:
        silent = os.open(os.devnull, os.O_RDWR)
        os.dup2(silent, 1), os.dup2(silent, 2)
        code = 0
        try:
            if words is None:
                list(map(import_module, modules))
            else:
                sys.argv = ["lab", *words.split()]
                lab.cli.main.main()
        except SystemExit as ended:
            code = ended.code
        os.write(here, json.dumps([code or 0, sorted(set(heavy) & set(sys.modules))]).encode())
        os._exit(0)
    os.close(here)
    with os.fdopen(there) as answer:
        found[words or "modules"] = json.load(answer)
    os.wait()
print(json.dumps(found))
"""


def _modules(entries: dict[str, Entry | Group]) -> Iterator[str]:
    for entry in entries.values():
        if isinstance(entry, Entry):
            yield entry.module
        else:
            for section in entry.sections.values():
                yield from _modules(section)


@pytest.fixture(scope="module")
def imported(place: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, list[str]]]:
    """The exit code of each command, and the heavy libraries that it imported."""
    folder = tmp_path_factory.mktemp("imports") / "place"
    shutil.copytree(place, folder)
    (folder / "engine.json").write_text('{"autoRecall": {"maxItems": 6}}', "utf-8")
    modules = {name for section in SECTIONS.values() for name in _modules(section)}
    assert len(modules) > 30
    given = map(json.dumps, (sorted(HEAVY), sorted(modules), list(COMMANDS)))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRIVER, *given], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.process
def test_modules_of_all_commands_import_nothing_heavy(imported: dict[str, tuple[int, list[str]]]) -> None:
    assert imported["modules"] == [0, []]


@pytest.mark.process
@pytest.mark.parametrize("words", COMMANDS)
def test_command_imports_only_what_it_uses(imported: dict[str, tuple[int, list[str]]], words: str) -> None:
    code, heavy = imported[words]
    # A gate may find too little to decide.
    assert code in (0, 3)
    assert set(heavy) <= COMMANDS[words]


@pytest.mark.process
def test_commands_that_read_receipts_import_what_they_use(imported: dict[str, tuple[int, list[str]]]) -> None:
    assert set(imported["score run"][1]) == TABLES
