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


def test_show_prints_a_table_in_80_columns(lab: Lab, gateway: Path) -> None:
    done = lab("config", "show", "openclaw.json", cwd=gateway.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["key", "value", "set", "by"]
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


def test_check_prints_ok_and_notes_clamped_values(lab: Lab, gateway: Path) -> None:
    done = lab("config", "check", "openclaw.json", "--host", "none", cwd=gateway.parent)
    assert (done.returncode, done.stderr) == (0, "")
    embedder, notes = done.stdout.split("engine\n", 1)
    assert embedder.startswith("embedder: this configuration names text-embedding-3-small; lab replay uses\nall-MiniLM")
    assert notes == "note: openclaw.json: autoRecall.maxItems: 6, clamped from 9\nok\n"


def test_check_openclaw_json_reports_what_its_host_refuses(lab: Lab, gateway: Path) -> None:
    done = lab("config", "check", "openclaw.json", cwd=gateway.parent)
    assert done.returncode == 1
    assert done.stderr == "error: openclaw.json: 1 problem that host 2026.9.6 refuses\n"
    said = " ".join(done.stdout.split())
    assert said == (
        "host: 2026.9.6 (assumed, as the file names none: the newest known) embedder: this configuration names "
        "text-embedding-3-small; lab replay uses all-MiniLM-L6-v2 unless --embedder names another, and its figures "
        "are then not those of this engine error: openclaw.json: "
        "plugins.entries.openclaw-mem-engine.config.autoRecall.maxItems: the host refuses this: "
        "expected a whole number from 1 to 6, found 9"
    )


def test_check_openclaw_json_separates_errors_warnings_notes(lab: Lab, tmp_path: Path) -> None:
    sound = GATEWAY.replace('"maxItems": 9', '"maxItems": 6')
    (tmp_path / "openclaw.json").write_text(sound, "utf-8")
    done = lab("config", "check", "openclaw.json", "--host", "2026.6.11", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["ok"], found["problems"]) == (0, "", True, [])
    assert found["host"] == {"version": "2026.6.11", "rules": "2026.6.11", "source": "--host"}
    assert [one.split(": ")[1] for one in found["warnings"]] == [
        "plugins.slots.memory",
        "plugins.entries.openclaw-mem-engine.hooks.allowConversationAccess",
    ]
    assert [one.split(": the host")[0] for one in found["notes"]] == [
        "openclaw.json: autoRecall.maxItems: 5, clamped from 6"
    ]
    text = lab("config", "check", "openclaw.json", cwd=tmp_path).stdout
    assert [line.split(":")[0] for line in text.splitlines() if line[0].islower() and ": openclaw" in line] == [
        "warning",
        "warning",
        "note",
    ]
    assert "FAKE" not in done.stdout + text


def test_check_with_invalid_host_exits_2(lab: Lab, gateway: Path) -> None:
    done = lab("config", "check", "openclaw.json", "--host", "latest", cwd=gateway.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --host 'latest' is not a version; known: 2026.6.11, 2026.9.6, none\n"


def test_check_lists_every_problem_and_exits_1(lab: Lab, tmp_path: Path) -> None:
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


@pytest.mark.process
def test_config_reads_standard_input(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("lab"), "config", "check", "-"]
    done = subprocess.run(command, input=b'{"autoRecall": {"maxItems": "6"}}', capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"stdin: autoRecall.maxItems: expected a number, found '6'\n")
    done = subprocess.run(command, input=b"\xff", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"error: stdin: not UTF-8 text (byte 0)\n")


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, (), "error: my.json: no such file"),
        ('{"a": ', (), "error: my.json:1: neither JSON nor JSON5: Unexpected end of input"),
        ("{}", ("--profile", "default"), "error: unknown profile 'default'; known: seed, upstream"),
        ('{"plugins": {"entries": {}}}', (), "error: my.json: plugins.entries has no 'openclaw-mem-engine'"),
    ],
)
def test_unreadable_configuration_exits_2(
    lab: Lab, tmp_path: Path, command: str, text: str | None, arguments: tuple[str, ...], message: str
) -> None:
    if text is not None:
        (tmp_path / "my.json").write_text(text)
    done = lab("config", command, "my.json", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_features_not_implemented_are_listed_or_refused(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "live.json").write_text('{"weijiMemoryPreflight": true, "gbrainMirror": true}')
    (tmp_path / "own.json").write_text('{"gbrainMirror": true, "lab": {"arm": "engine"}}')
    for command in ("show", "check"):
        done = lab("config", command, "live.json", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert (
            done.stdout.count(
                "not implemented here: gbrainMirror\nused by lab memory store alone: weijiMemoryPreflight\n"
            )
            == 1
        )
        found = json.loads(lab("config", command, "live.json", "--json", cwd=tmp_path).stdout)
        assert found["missing"] == ["weijiMemoryPreflight", "gbrainMirror"]
    refused = lab("config", "show", "own.json", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: own.json: gbrainMirror: not implemented here; leave it out")


def test_check_of_a_file_of_comments_says_that_it_sets_nothing(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("# autoRecall:\n", "utf-8")
    done = lab("config", "check", "mine.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (
        0,
        "note: mine.yaml: sets nothing, so every setting has its default\nok\n",
    )


def test_check_resolves_includes_and_variables(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = {
        "slots": {"memory": "openclaw-mem-engine"},
        "entries": {
            "openclaw-mem-engine": {
                "enabled": True,
                "hooks": {"allowConversationAccess": True},
                "config": {
                    "embedding": {"apiKey": "${LAB_TEST_KEY}"},
                    "autoRecall": {"selectionMode": "${LAB_TEST_MODE}"},
                },
            }
        },
    }
    (tmp_path / "openclaw.json").write_text('{"plugins": {"$include": "part.json"}}')
    (tmp_path / "part.json").write_text(json.dumps(part))
    unset = lab("config", "check", "openclaw.json", cwd=tmp_path)
    assert (unset.returncode, unset.stdout, unset.stderr.count("\n")) == (2, "", 1)
    at = "plugins.entries.openclaw-mem-engine.config"
    named = f"not set: LAB_TEST_KEY ({at}.embedding.apiKey), LAB_TEST_MODE ({at}.autoRecall.selectionMode)"
    assert f"openclaw.json: {named}" in unset.stderr
    monkeypatch.setenv("LAB_TEST_MODE", "tier_quota_v1")
    warned = lab("config", "check", "openclaw.json", cwd=tmp_path)
    assert warned.returncode == 0
    assert "warning: openclaw.json: not set: LAB_TEST_KEY" in warned.stdout
    shown = lab("config", "show", "openclaw.json", cwd=tmp_path)
    assert "tier_quota_v1" in shown.stdout
    monkeypatch.setenv("LAB_TEST_KEY", "sk-never-shown")
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(tmp_path / "openclaw.json"))
    found = lab("config", "check")
    assert (found.returncode, found.stderr) == (0, "")
    assert "warning" not in found.stdout
    assert "sk-never" not in found.stdout + shown.stdout + warned.stdout


def test_check_of_a_missing_include_is_one_line(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_text('{"plugins": {"$include": "gone.json"}}')
    done = lab("config", "check", "openclaw.json", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "error: openclaw.json: plugins: $include 'gone.json': gone.json: no such file\n",
    )
