"""``lab config show`` and ``lab config check`` as commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
GATEWAY = """{
  // the gateway of the office
  "plugins": {"entries": {"openclaw-mem-engine": {"enabled": true, "config": {
    "embedding": {"apiKey": "sk-FAKE-never-shown"},
    "autoRecall": {"maxItems": 9, "selectionMode": "tier_quota_v1"},
  }}}},
}
"""


@pytest.fixture
def gateway(tmp_path: Path) -> Path:
    path = tmp_path / "openclaw.json"
    path.write_text(GATEWAY, "utf-8")
    return path


def test_show_prints_a_table_of_eighty_columns(lab: Lab, gateway: Path) -> None:
    done = lab("config", "show", "openclaw.json", cwd=gateway.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["key", "value", "decided", "by"]
    assert ["autoRecall.maxItems", "6", "clamped", "from", "9"] in rows
    assert ["autoRecall.repeatPenalty", "0.35", "profile", "default"] in rows
    assert ["embedding.apiKey", "(hidden)", "config"] in rows
    assert "FAKE" not in done.stdout


def test_show_prints_json_and_reads_the_environment(lab: Lab, gateway: Path) -> None:
    arguments = ("config", "show", "openclaw.json", "--profile", "upstream", "--json")
    done = lab(*arguments, cwd=gateway.parent, OPENCLAW_MEM_ENGINE_READONLY="yes")
    found = json.loads(done.stdout)
    assert (found["config"]["autoRecall"]["maxItems"], found["config"]["readOnly"]) == (5, True)
    assert {"key": "readOnly", "value": True, "by": "environment"} in found["decided"]
    assert "FAKE" not in done.stdout


def test_check_says_ok_and_notes_what_is_clamped(lab: Lab, gateway: Path) -> None:
    done = lab("config", "check", "openclaw.json", cwd=gateway.parent)
    assert (done.returncode, done.stderr) == (0, "")
    embedder, notes = done.stdout.split("engine\n", 1)
    assert embedder.startswith("embedder: this configuration names text-embedding-3-small; lab replay uses\nall-MiniLM")
    assert notes == "note: openclaw.json: autoRecall.maxItems: 6, clamped from 9\nok\n"


def test_check_lists_every_problem_and_ends_with_1(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text('{"receipts": {"level": 1}, "budget": {"maxChars": "x"}, "readOnly": 1}')
    done = lab("config", "check", "my.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: my.json: 3 problems under profile seed\n")
    assert done.stdout.splitlines() == [
        "my.json: receipts.level: unknown key; known: enabled, maxItems, verbosity",
        "my.json: budget.maxChars: expected a number, found 'x'",
        "my.json: readOnly: expected true or false, found 1",
    ]
    found = json.loads(lab("config", "check", "my.json", "--json", cwd=tmp_path).stdout)
    assert (found["ok"], len(found["problems"]), found["notes"]) == (False, 3, [])


def test_a_configuration_is_read_from_standard_input(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("lab"), "config", "check", "-"]
    done = subprocess.run(command, input=b'{"autoRecall": {"maxItems": "6"}}', capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"stdin: autoRecall.maxItems: expected a number, found '6'\n")
    done = subprocess.run(command, input=b"\xff", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"error: stdin: not UTF-8 text (byte 0)\n")


@pytest.mark.parametrize("verb", ["show", "check"])
@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, (), "error: my.json: no such file"),
        ('{"a": ', (), "error: my.json:1: not JSON, nor JSON5: Unexpected end of input"),
        ("{}", ("--profile", "default"), "error: unknown profile 'default'; known: seed, upstream"),
        ('{"plugins": {"entries": {}}}', (), "error: my.json: plugins.entries has no 'openclaw-mem-engine'"),
    ],
)
def test_what_cannot_be_read_ends_with_2(
    lab: Lab, tmp_path: Path, verb: str, text: str | None, arguments: tuple[str, ...], message: str
) -> None:
    if text is not None:
        (tmp_path / "my.json").write_text(text)
    done = lab("config", verb, "my.json", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
