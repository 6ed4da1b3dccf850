"""What a terminal shows: its width, colours that can be turned off, and progress on one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.terminal import on_a_terminal

SGR = re.compile("\x1b\\[[0-9;]*m")
CONFIG = '{"embedding": {"model": "text-embedding-3-small"}, "autoRecall": {"selectionMode": "tier_quota_v1"}}'


def _command(*words: str) -> str:
    return f"import sys; from lab.cli.main import main; sys.argv = {['lab', *words]!r}; main()"


@pytest.mark.process
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_config_show_breaks_no_key_at_any_width(columns: int, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(CONFIG, "utf-8")
    shown = on_a_terminal(_command("config", "show", "c.json"), tmp_path, columns)
    lines = shown.splitlines()
    assert max(map(cell_len, lines)) <= columns
    assert [line for line in lines if line.startswith("scopePolicy.skipFallbackOnInvalidScope")]
    assert "text-embedding-3-small" in shown


@pytest.mark.process
@pytest.mark.parametrize("columns", [60, 80])
def test_receipt_and_memory_fit_a_narrow_terminal(columns: int, tmp_path: Path) -> None:
    code = (
        "from lab.memory.cli.memory_options import with_places; from lab.cli.output import emit, emit_hanging\n"
        f"row = '  {'m' * 36} nice reserved fts+vec from the_global_scope'; emit_hanging(row)\n"
        f"memory = {{'id': '{'i' * 36}', 'scope': 'shop', 'createdAt': 1767225660000}}\n"
        "emit(with_places('1. [fact|unknown] a text', ['[fact|unknown] a text'], [memory]))"
    )
    lines = on_a_terminal(code, tmp_path, columns, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith(f"  {'m' * 36}")
    assert " ".join(" ".join(lines).split()) == (
        f"{'m' * 36} nice reserved fts+vec from the_global_scope "
        f"1. [fact|unknown] a text {'i' * 36} shop 2026-01-01T00:01:00.000Z"
    )
    assert len(lines) == (5 if columns == 60 else 4)


@pytest.mark.process
@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_verdicts_are_coloured_unless_turned_off(
    environment: dict[str, str], is_coloured: bool, tmp_path: Path
) -> None:
    code = (
        "from lab.cli.output import emit, emit_table, complain\n"
        "emit('FAIL: rollout'); emit('- inconclusive: R@6'); emit_table(['rule', 'verdict', 'n'], "
        "[['R@6', 'pass', 1]], left=2)\n"
        "emit('a sentence on what may fail: nothing'); complain('no such file')"
    )
    shown = on_a_terminal(code, tmp_path, 80, **environment)
    assert ("\x1b[31mFAIL\x1b[0m: rollout" in shown) == is_coloured
    assert shown.count("\x1b[0m") == 4 * is_coloured
    plain = [line.rstrip() for line in SGR.sub("", shown).splitlines()]
    assert plain[:2] == ["FAIL: rollout", "- inconclusive: R@6"]
    assert "R@6   pass     1" in plain
    assert plain[-2:] == ["a sentence on what may fail: nothing", "error: no such file"]


@pytest.mark.process
def test_pipe_has_neither_colours_nor_moves(tmp_path: Path) -> None:
    code = (
        "from lab.cli.output import announce, emit; from lab.base.progress import Progress\n"
        "announce(Progress(2).next('attic: done')); emit('PASS: rollout')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    assert (done.stdout, done.stderr) == ("PASS: rollout\n", "attic: done (1 of 2)\n")


@pytest.mark.process
def test_progress_takes_one_line_of_a_terminal(tmp_path: Path) -> None:
    code = (
        "from lab.cli.output import announce, emit; from lab.base.progress import Progress\n"
        "progress = Progress(3)\n"
        "for name in ('attic', 'den', 'loft' * 30): announce(progress.next(name))\n"
        "announce('a note'); announce(progress.next('x')); emit('PASS: done')"
    )
    shown = on_a_terminal(code, tmp_path, 40, NO_COLOR="1")
    assert shown.count("\n") == 2
    pieces = shown.split("\r\x1b[2K")
    assert pieces[:2] == ["attic (1 of 3)", "den (2 of 3)"]
    assert cell_len(pieces[2]) < 40
    assert [piece.strip() for piece in pieces[3:]] == ["a note\r\nx (4 of 3)", "PASS: done"]


@pytest.mark.process
def test_long_error_is_folded_and_its_command_is_not(tmp_path: Path) -> None:
    code = (
        "from lab.cli.output import complain\n"
        f"complain('run: has no arm that is needed here for this; add it with: lab replay {'--arm hybrid ' * 8}')"
    )
    lines = on_a_terminal(code, tmp_path, 40, NO_COLOR="1").splitlines()
    assert max(map(len, lines[:-1])) <= 40
    assert lines[-1].startswith("  lab replay --arm hybrid")
    assert lines[-1].count("--arm hybrid") == 8


@pytest.mark.process
def test_interrupt_during_imports_ends_without_traceback() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'lab.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from lab.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted; run the same command again to continue\n")
