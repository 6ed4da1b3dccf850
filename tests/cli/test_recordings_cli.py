"""``lab recordings``: list, schema, import and convert."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Lab = Callable[..., "subprocess.CompletedProcess[str]"]

HISTORY = """
# aider chat started at 2024-08-06 09:00:00

#### rename fire to bake

Certainly!

#### /undo
"""


def test_list_fits_80_columns_and_details_one_format(lab: Lab, tmp_path: Path) -> None:
    for arguments in ((), ("realmem",)):
        done = lab("recordings", "list", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert max(map(len, done.stdout.splitlines())) <= 80
    shown = json.loads(lab("recordings", "list", "--json", cwd=tmp_path).stdout)
    assert [one["format"] for one in shown["formats"]] == sorted(one["format"] for one in shown["formats"])
    assert {one["format"]: one["set"] and one["set"]["licence"] for one in shown["formats"]}["locomo"] == "CC BY-NC 4.0"


def test_import_and_convert_a_history(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / ".aider.chat.history.md").write_text(HISTORY, "utf-8")
    source = ("recordings", "import", ".aider.chat.history.md", "--format", "aider", "--out", "taken")
    done = lab(*source, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "unknown version (newer, edited, or another set): 1 file." in done.stdout
    assert done.stdout.endswith("taken: 1 conversation, 0 probes\n")
    assert lab(*source, cwd=tmp_path).stdout.endswith("taken: 1 conversation, 0 probes, unchanged\n")
    refused = lab(*source[:-1], "other", "--strict", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "other").exists()
    words = ("recordings", "convert", ".aider.chat.history.md", "--format", "aider", "--out", "own", "--json")
    converted = json.loads(lab(*words, cwd=tmp_path).stdout)
    assert (converted["datasets"], converted["golden"], converted["memories"]) == ("own/datasets/aider", None, 1)


def test_schema_prints_text_and_json(lab: Lab, tmp_path: Path) -> None:
    from jsonschema import Draft202012Validator

    plain = lab("recordings", "schema", cwd=tmp_path).stdout
    Draft202012Validator.check_schema(json.loads(plain))
    assert plain.count("\n") > 50


def test_unknown_format_is_one_line(lab: Lab, tmp_path: Path) -> None:
    done = lab("recordings", "import", ".", "--format", "nosuch", "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_format_is_lab_for_shipped_sets_and_required_for_others(lab: Lab, tmp_path: Path) -> None:
    done = lab("recordings", "validate", "shipped:operators", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["errors"]) == (0, [])
    (tmp_path / "own").mkdir()
    done = lab("recordings", "validate", "own", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "error: missing option --format: lab recordings list shows the formats\n",
    )
    # Without the path, the format is of no use.
    for command in (("recordings", "validate"), ("replay", "--out", "run"), ("acceptance",)):
        done = lab(*command, "nowhere", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, "error: nowhere: no such file or folder\n")
    # A given format is used for a shipped set as well.
    done = lab("recordings", "validate", "shipped:operators", "--format", "nothing", cwd=tmp_path)
    assert (done.returncode, done.stderr.startswith("error: unknown format 'nothing'")) == (2, True)
