"""Terminal and CI output is safe whatever ids, notes and messages contain."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cli import main as cli
from lab.cli import output
from tests.cli.terminal import on_a_terminal

EVIL = "den\x1b[2Jend\x9b31m\r::error::gone\u202e"


@pytest.mark.process
def test_hostile_ids_print_no_control_character(tmp_path: Path) -> None:
    code = (
        "from lab.cli.output import announce, complain, emit, emit_json, emit_list, emit_table\n"
        f"evil = {EVIL!r}\n"
        "emit(evil); emit_json({'id': evil}); emit_list('warning', [evil]); announce(evil); complain(evil)\n"
        "emit_table([evil, 'n'], [[evil, 1], ['::warning::x', None]])\n"
    )
    text = on_a_terminal(code, tmp_path)
    assert text.count("u001b") >= 6
    # The lab's own colours, around its own words, are all that is left.
    assert "\x1b[31m" not in text
    assert "\x1b[35merror\x1b[0m: " in text
    text = re.sub("\x1b\\[(?:0|33|35)m", "", text)
    assert {one for one in text if not one.isprintable()} <= {"\r", "\n"}
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


@given(st.text())
def test_escape_controls_keeps_printable_text(text: str) -> None:
    made = output.escape_controls(text)
    assert all(one.isprintable() or one in "\n\t" or not one.isascii() for one in made)
    assert "\x1b" not in made
    assert output.escape_controls(made) == made
    if text.isascii() and text.isprintable() and "::" not in text and "##[" not in text:
        assert made == text


def test_emit_json_with_control_characters_round_trips(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit_json({"id": EVIL, "more": ["::error::x", "\x7f"]})
    written = capsys.readouterr().out
    assert json.loads(written) == {"id": EVIL, "more": ["::error::x", "\x7f"]}
    assert "\x9b" not in written


def test_unexpected_exception_exits_4_with_private_trace(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError("the secret text of a memory")

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(cli, "set_up", lambda: None)
    with pytest.raises(SystemExit) as end:
        cli.main()
    written = capfd.readouterr().err
    assert end.value.code == 4
    assert written.startswith("error: ZeroDivisionError in test_output_safety.py, line ")
    assert written.count("\n") == 1
    assert "secret" not in written
    (trace,) = tmp_path.glob("lab-trace-*.txt")
    assert str(trace) in written
    assert "secret" in trace.read_text()
    assert trace.stat().st_mode & 0o077 == 0


def test_unexpected_exception_without_trace_file_exits_4(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(**_: object) -> None:
        raise io.UnsupportedOperation("fileno")

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(cli, "set_up", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
        with pytest.raises(SystemExit) as end:
            cli.main()
    assert end.value.code == 4
    assert "the traceback could not be saved" in capfd.readouterr().err
