"""Draw faults at random over lab/ and say which test catches each: ``python -m tests.faults COVERAGE [--count N]``.

A fault changes one line inside a function: a comparison is turned round, a ``not`` dropped, a whole number raised by
one, ``and`` exchanged for ``or``, a value returned as None, or a statement left out. COVERAGE is what a run of pytest
with ``--cov=lab --cov-context=test`` wrote; coverage and pytest-cov are in no group of the project. The tests that
cover the line run first, those that cover least before others; then the files of tests that import the module; with
``--thorough``, those of the folder that mirrors its own. Tests of ``nox -s full`` are left out. The first failure ends
it. Modules are changed in the checkout that it runs in, and put back, so it should be one of its own.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
TURNED = {"==": "!=", "<": ">=", ">": "<=", "in": "not in", "is": "is not"}
OPPOSITE = TURNED | {new: old for old, new in TURNED.items()}
# Other libraries, which take most of the time that a short run of tests needs.
IMPORTS = ("matplotlib.pyplot", "pandas", "pyarrow.parquet", "scipy.stats", "typer.testing")
# What is said, and what is logged.
NO_FAULT = (b"log", b"help", b"echo(")
# A test that takes longer hangs.
HUNG = 900
# Tests of a line that are tried before the folder.
MOST = 400


class Fault(NamedTuple):
    """A change of one line."""

    path: str
    line: int
    kind: str
    old: str
    new: str


def changes(node: ast.AST, line: bytes) -> Iterator[tuple[str, str]]:
    """Yield what may be changed at a node of one line: its kind and its new text."""

    def source(part: ast.expr) -> str:
        return line[part.col_offset : part.end_col_offset].decode()

    match node:
        case ast.Compare(left=left, comparators=[right]):
            sign = line[left.end_col_offset : right.col_offset].decode().strip("() ")
            if sign in OPPOSITE:
                yield "comparison", f"{source(left)} {OPPOSITE[sign]} {source(right)}"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", f"({source(operand)})"
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield "number", str(number + 1)
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield "and/or", word.join(f"({source(part)})" for part in values)
        case ast.Return(value=ast.expr() as value) if source(value) != "None":
            yield "return", "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue():
            yield "left out", "pass"


def faults_of(path: Path, root: Path) -> Iterator[Fault]:
    """Yield all faults of a module, in functions alone, on one line each; no messages, logging, or help."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    inside = [
        child
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for child in ast.walk(statement)
    ]
    for node in {id(one): one for one in inside if isinstance(one, ast.expr | ast.stmt)}.values():
        line = lines[node.lineno - 1].encode()
        if node.end_lineno == node.lineno and not any(word in line for word in NO_FAULT):
            for kind, new in changes(node, line):
                after = line[: node.col_offset] + new.encode() + line[node.end_col_offset :]
                yield Fault(path.relative_to(root).as_posix(), node.lineno, kind, line.decode(), after.decode())


def draw(root: Path, count: int, seed: int) -> list[Fault]:
    """Return faults on lines drawn at random, one a line."""
    by_line: dict[tuple[str, int], list[Fault]] = {}
    for path in sorted((root / "lab").rglob("*.py")):
        for fault in faults_of(path, root):
            by_line.setdefault((fault.path, fault.line), []).append(fault)
    chance = random.Random(seed)
    return [chance.choice(by_line[place]) for place in chance.sample(sorted(by_line), count)]


def covering(database: Path, faults: list[Fault]) -> list[list[str]]:
    """Return the tests of the line of each fault, those that cover the fewest lines first."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as data:
        names = {number: context.rpartition("|")[0] for number, context in data.execute("SELECT * FROM context")}
        paths = {number: "lab/" + path.rpartition("/lab/")[2] for number, path in data.execute("SELECT * FROM file")}
        width: Counter[str] = Counter()
        found: dict[tuple[str, int], set[str]] = {(fault.path, fault.line): set() for fault in faults}
        lines = {path: [line for known, line in found if known == path] for path, _ in found}
        for file, context, numbits in data.execute("SELECT file_id, context_id, numbits FROM line_bits"):
            bits, path = int.from_bytes(numbits, "little"), paths[file]
            width[names[context]] += bits.bit_count()
            for line in lines.get(path, ()):
                if bits >> line & 1 and names[context]:
                    found[path, line].add(names[context])
    return [sorted(found[fault.path, fault.line], key=lambda test: (width[test], test)) for fault in faults]


def others(path: str, root: Path) -> tuple[list[str], list[str]]:
    """Return the files of tests that import a module, and those of the nearest folder that mirrors its own."""
    folder = root / "tests" / Path(path).parent.relative_to("lab")
    while not folder.is_dir():
        folder = folder.parent
    name = path.removesuffix(".py").replace("/", ".")
    package, _, last = name.rpartition(".")
    words = (rf"from {name} import", rf"import {name}\b", rf"from {package} import .*\b{last}\b")
    imports = re.compile("|".join(words))
    files = sorted((root / "tests").rglob("test_*.py"), key=lambda file: (last not in file.stem, file))
    importing = [str(file) for file in files if imports.search(file.read_text("utf-8"))]
    near = (str(file) for file in sorted(folder.rglob("test_*.py")))
    return importing, [file for file in near if file not in importing]


class First:
    """Notes the first test that fails."""

    def __init__(self, out: Connection) -> None:
        self._out = out

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure of a test or of what it needs."""
        if report.failed:
            self._out.send(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be imported."""
        if report.failed:
            self._out.send(report.nodeid)


def _run(words: list[str], out: Connection) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nothing, number)
    code = pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no", *words], [First(out)])
    out.send(None if code in (0, 5) else f"pytest ends with {code}")
    out.close()
    os._exit(0)


def caught(words: list[str]) -> str | None:
    """Run tests in a copy of this process, which has imported what is not the lab; return the first that fails."""
    here, there = Pipe(duplex=False)
    process = get_context("fork").Process(target=_run, args=(words, there))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(HUNG) else "hangs"
    except EOFError:
        return "the tests end at once"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()


def tried(fault: Fault, tests: list[str], root: Path, *, thorough: bool) -> str | None:
    """Make a fault, run its tests, and undo it; return the test that fails, or None."""
    path = root / fault.path
    sound = path.read_bytes()
    lines = sound.decode().splitlines(keepends=True)
    lines[fault.line - 1] = fault.new + "\n"
    path.write_text("".join(lines), "utf-8")
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:
            chosen.write("\n".join(tests[:MOST]))
            chosen.flush()
            found = caught([f"@{chosen.name}"]) if tests else None
        for files in others(fault.path, root)[: 1 + thorough]:
            found = found or (caught(["-m", "not full", *files]) if files else None)
        return found
    finally:
        path.write_bytes(sound)


def main() -> int:
    """Print each fault and its test; return 1 if one is not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=str(__doc__).partition("\n")[0])
    parser.add_argument("coverage", type=Path, metavar="COVERAGE")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first that is tried")
    parser.add_argument("--until", type=int, help="the first that is not tried any more")
    parser.add_argument("--thorough", action="store_true", help="try the folder of the module, too")
    given = parser.parse_args()
    faults = draw(ROOT, given.count, given.seed)
    tests = covering(given.coverage, faults)
    for name in IMPORTS:
        importlib.import_module(name)
    lost = 0
    for number in range(given.first, given.until or given.count):
        found = tried(faults[number], tests[number], ROOT, thorough=given.thorough)
        lost += found is None
        record: dict[str, Any] = {"number": number, "covered by": len(tests[number]), **faults[number]._asdict()}
        print(json.dumps(record | {"caught": found}, ensure_ascii=False), flush=True)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
