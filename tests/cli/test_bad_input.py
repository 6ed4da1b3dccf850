"""Unusable input: a one-line message, exit code 2, never a traceback."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.base.set_registry import golden_beside, recordings_at, shipped
from lab.cli.main import app

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
Write = Callable[[Path, list[dict[str, Any]]], Path]
Refused = Callable[..., str]
REPLAY = ("replay", "datasets/tiny", "--format", "lab", "--out", "out", "--embedder", "hashing")
HEAD = {"kind": "recording", "schema": "lab.recording.v1", "conversation": "den"}
SESSION = {"kind": "session", "session": "s01", "time": "2026-03-01T09:00:00+00:00"}
TURN = {"kind": "turn", "turn": "t01", "role": "user", "text": "hello"}
MEMORY = {"kind": "memory", "text": "a lamp"}


@pytest.fixture
def here(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: the small set, its run, and room for what is broken."""
    shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def refused(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Refused]:
    """Runs the command, expects it to refuse, and gives what it says after ``error:``."""
    from lab.cli.main import main

    before = gc.get_threshold()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", os.environ.get("OPENBLAS_NUM_THREADS", "1"))

    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["lab", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        assert (end.value.code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err.removeprefix("error: ").rstrip("\n")

    yield run
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("replay", "datasets/tiny", "--format", "xml", "--arm", "none", "--out", "out"),
            "unknown format 'xml'; known:",
        ),
        (("replay", "gone", "--format", "lab", "--arm", "none", "--out", "out"), "gone: no such file or folder"),
        (("golden", "lint", "x" * 300), f"{'x' * 300}: File name too long"),
        ((*REPLAY, "--arm", "psychic"), "unknown arm 'psychic'; known: tier_first_v1, tier_quota_v1"),
        ((*REPLAY, "--arm", "none", "--arm", "none"), "arm 'none' is given twice"),
        ((*REPLAY, "--arm", "none=gone.json"), "gone.json: no such file"),
        ((*REPLAY, "--arm", "none", "--max-items", "0"), "max-items 0 is not in 1..6"),
        ((*REPLAY, "--arm", "none", "--max-items", "7"), "max-items 7 is not in 1..6"),
        ((*REPLAY, "--arm", "none", "--max-items", "6", "--profile", "upstream"), "max-items 6 is not in 1..5"),
        (
            (*REPLAY, "--arm", "none", "--labels", "sampled", "--must-share", "1.5"),
            "must-share 1.5 and nice-share",
        ),
        ((*REPLAY, "--arm", "none", "--labels", "sampled", "--must-share", "nan"), "must-share nan"),
        (
            (*REPLAY, "--arm", "none", "--labels", "sampled", "--must-share", "0.6", "--nice-share", "0.5"),
            "sum to at most 1",
        ),
        ((*REPLAY, "--arm", "none", "--must-share", "0.2"), "these are recorded; add --labels sampled"),
        ((*REPLAY, "--arm", "none", "--labels", "drawn"), "unknown labels 'drawn'; known: recorded, sampled"),
        ((*REPLAY, "--arm", "none", "--conversation", "cellar"), "no conversation 'cellar'; known: attic, den"),
        ((*REPLAY, "--arm", "none", "--limit", "0"), "limit 0 is not"),
        ((*REPLAY, "--arm", "none", "--depth", "0"), "depth 0 is not"),
        ((*REPLAY, "--arm", "none", "--store", "paper"), "unknown store 'paper'; known: exact, lancedb"),
        ((*REPLAY, "--arm", "none", "--profile", "fast"), "'fast'"),
        ((*REPLAY, "--arm", "none", "--scope", "some"), "unknown scope 'some'; known: none, recorded"),
        ((*REPLAY, "--arm", "none", "--recall-turns", "odd"), "unknown recall turns 'odd'"),
        ((*REPLAY, "--arm", "none", "--memories", "turns"), "format 'lab' has no memories 'turns'"),
        ((*REPLAY, "--arm", "none", "--golden", "gone"), "gone: no such file"),
        (
            ("replay", "datasets/tiny", "--format", "lab", "--out", "out", "--arm", "none", "--embedder", "gone"),
            "embedder 'gone': no such folder",
        ),
        (("score", "gone"), "gone: no such run directory"),
        (("score", "datasets"), "datasets: is not a run directory"),
        (("missed", "shipped:operators"), "lab replay shipped:operators --out DIR makes a run of recordings"),
        (("compare", "datasets", "--baseline", "none", "--candidate", "hybrid"), "datasets: is not a run directory"),
        (("explain", "datasets", "den/s03/t01"), "datasets: is not a run directory"),
        (("report", "datasets"), "datasets: is not a run directory"),
        (("runs", "rm", "datasets"), "datasets: is not a run directory"),
        (("compare", "run", "--baseline", "none", "--candidate", "psychic"), "run: has no arm 'psychic'; it has:"),
        (("compare", "run", "--baseline", "none", "--candidate", "none"), "both 'none'; name two different arms"),
        (("report", "run", "--candidate", "psychic"), "run: has no arm 'psychic'; it has:"),
        (("explain", "run", "den/s03/t01", "--arm", "psychic"), "run: has no arm 'psychic'; it has:"),
        (("explain", "run", "den/s03/t02"), "no recall happened at 'den/s03/t02'"),
        (
            ("explain", "run", "cellar/s01/t01"),
            "no recall happened at 'cellar/s01/t01'; recall points are, for instance, attic/s01/t01",
        ),
        (("recordings", "validate", "gone", "--format", "lab"), "gone: no such file or folder"),
        (("golden", "lint", "gone"), "gone: no such file"),
        (
            ("golden", "lint", "datasets/tiny"),
            "datasets/tiny/attic.jsonl:1: this is a recording line of a recording, not a probe of a golden set",
        ),
        (("score", "run", "--measure", "Sucess@6"), "Sucess@6"),
    ],
)
def test_unusable_argument_is_named(refused: Refused, here: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)
    assert not (here / "out").exists()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (("--arm", "hybrid", "--max-items", "3"), r"arms \(.* removed; none removed; hybrid: config\.\S+ 6 -> 3.*\)"),
        (("--arm", "none"), r"arms \(tier_first_v1 removed; tier_quota_v1 removed; hybrid removed\)"),
        (("--arm", "hybrid", "--labels", "sampled"), "labels"),
        (("--arm", "hybrid", "--scope", "recorded"), "scope"),
    ],
)
def test_run_with_other_arguments_is_left_unchanged(
    refused: Refused, here: Path, changed: tuple[str, ...], named: str
) -> None:
    arms = ("--arm", "tier_first_v1", "--arm", "tier_quota_v1", "--arm", "hybrid", "--arm", "none")
    before = {file: file.read_bytes() for file in (here / "run").rglob("*") if file.is_file()}
    common = ("replay", "datasets/tiny", "--format", "lab", "--out", "run", "--embedder", "hashing")
    arguments = changed if "--arm" in changed and named.startswith("arms") else (*arms, *changed[2:])
    message = f"run: this run was made with different arguments: {named}; choose another --out"
    assert re.search(message, refused(*common, *arguments))
    assert {file: file.read_bytes() for file in (here / "run").rglob("*") if file.is_file()} == before


def test_folder_with_other_files_is_refused_as_run(refused: Refused, here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "thesis.txt").write_text("years of work")
    assert "out: exists and is not a run directory" in refused(*REPLAY, "--arm", "none")
    assert [file.name for file in (here / "out").iterdir()] == ["thesis.txt"]


def test_recorded_labels_without_any_are_refused(refused: Refused, here: Path, write_lines: Write) -> None:
    write_lines(here / "plain.jsonl", [HEAD, SESSION, TURN, MEMORY])
    arguments = ("replay", "plain.jsonl", "--format", "lab", "--arm", "none", "--out", "out", "--labels", "recorded")
    assert "labels 'recorded': this recording has memories without labels; use --labels sampled" in refused(*arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.jsonl: is empty"),
        ("\n\n", "bad.jsonl: is empty"),
        (json.dumps(HEAD), "conversation 'den' has no turns"),
        (json.dumps(HEAD) + "\n" + json.dumps(SESSION)[:-9], "bad.jsonl:2: not JSON:"),
        (json.dumps(HEAD) + "\n[1, 2]", "bad.jsonl:2: expected one JSON object a line, found a list"),
        ('{"kind": "probe"}', "bad.jsonl:1: the first line must be"),
        (json.dumps(HEAD) + '\n{"kind": "song"}', "bad.jsonl:2: kind 'song' is none of"),
        # Values of a kind that a lookup stumbles over.
        (json.dumps(HEAD) + '\n{"kind": ["turn"]}', "bad.jsonl:2: kind ['turn']"),
        (
            "\n".join(json.dumps(line) for line in (HEAD, SESSION, TURN, MEMORY | {"supersedes": [["x"]]})),
            "bad.jsonl:4: field 'supersedes': expected a string, found a list",
        ),
        (
            "\n".join(json.dumps(line) for line in (HEAD, SESSION, TURN, MEMORY | {"category": ["fact"]})),
            "bad.jsonl:4: category ['fact'] is none of",
        ),
        ("[" * 100_000, "bad.jsonl:1: JSON is nested too deeply"),
        ("caf\u00e9".encode("latin-1"), "bad.jsonl: not UTF-8 text (byte 3)"),
    ],
    ids=[
        "empty",
        "blank",
        "no-turns",
        "cut",
        "list",
        "probe",
        "song",
        "kind",
        "supersedes",
        "category",
        "deep",
        "latin",
    ],
)
def test_unreadable_recording_is_refused_with_line(
    refused: Refused, here: Path, text: str | bytes, message: str
) -> None:
    (here / "bad.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert message in refused("recordings", "validate", "bad.jsonl", "--format", "lab")
    assert message in refused("replay", "bad.jsonl", "--format", "lab", "--arm", "none", "--out", "out")
    assert not (here / "out").exists()


def _persona(spoken: list[Any]) -> dict[str, Any]:
    session = {
        "session_identifier": "Shop:S1",
        "session_uuid": "s0",
        "current_time": "2026-01-01 (Thursday)",
        "dialogue_turns": spoken,
        "extracted_memory": [],
    }
    return {"_metadata": {"person_name": "Ada"}, "dialogues": [session]}


QUERY = {"speaker": "User", "content": "which?", "is_query": True}
SAMPLE = {"sample_id": "c1", "qa": [], "conversation": {"session_1": [], "session_1_date_time": "today"}}


@pytest.mark.parametrize(
    ("format_name", "value", "message"),
    [
        ("realmem", [], "bad.json: expected an object, found a list"),
        ("realmem", {"_metadata": {}}, "has no field 'person_name'"),
        ("realmem", _persona([]), "conversation 'Ada' has no turns"),
        ("realmem", _persona(["hello"]), "dialogues[0].dialogue_turns[0]: expected an object, found a string"),
        # The turn after a question is looked at while the question is read.
        ("realmem", _persona([QUERY, "hello"]), "expected an object, found a string"),
        (
            "realmem",
            _persona([QUERY, {"speaker": "Assistant", "content": "x", "memory_used": ["s0"]}]),
            "expected an object, found a string",
        ),
        ("locomo", {}, "bad.json: expected a list, found an object"),
        ("locomo", [], "bad.json: contains no conversation"),
        ("locomo", [7], "bad.json: [0]: expected an object, found a number"),
        ("locomo", [SAMPLE], "conversation 'c1' has no turns"),
        (
            "locomo",
            [SAMPLE | {"conversation": {"session_1": ["hi"], "session_1_date_time": "today"}}],
            "date 'today' is not like",
        ),
    ],
)
def test_public_file_of_wrong_shape_is_refused_with_position(
    refused: Refused, here: Path, format_name: str, value: Any, message: str
) -> None:
    (here / "bad.json").write_text(json.dumps(value))
    assert message in refused("recordings", "validate", "bad.json", "--format", format_name)


@pytest.mark.parametrize("format_name", ["realmem", "locomo"])
def test_truncated_public_file_is_refused_with_line(refused: Refused, here: Path, format_name: str) -> None:
    (here / "bad.json").write_text(json.dumps(_persona([QUERY]), indent=1)[:120])
    found = refused("replay", "bad.json", "--format", format_name, "--arm", "none", "--out", "out")
    assert found.startswith("bad.json:")
    assert "not JSON" in found
    assert "(the file seems cut off)" in found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"kind": "probe", "turn": "den/s02/t01", "relevant": [{"memory": "den/s01/t01#9"}]},
            "probe den/s02/t01 names memory 'den/s01/t01#9', which the recording does not have",
        ),
        ({"kind": "probe", "turn": "den/s02/t09"}, "names turn 'den/s02/t09', which the recording does not have"),
        ({"kind": "probe", "turn": "cellar/s01/t01"}, "names conversation 'cellar', which no recording has"),
        ({"kind": "probe", "turn": "den"}, "bad.jsonl:1: turn 'den' is not"),
        ({"kind": "probe"}, "bad.jsonl:1: a probe needs either a turn or a query"),
        ({"kind": "probe", "turn": "den/s02/t01", "relevant": ["den/s01/t01#0"]}, "bad.jsonl:1: relevant: each"),
        (
            {"kind": "probe", "turn": "den/s02/t01", "relevant": [{"memory": "den/s01/t01#0", "grade": 0}]},
            "bad.jsonl:1: relevant: grade 0",
        ),
    ],
)
def test_replay_with_unfit_golden_set_is_refused(
    refused: Refused, here: Path, write_lines: Write, line: dict[str, Any], message: str
) -> None:
    write_lines(here / "bad.jsonl", [line])
    assert message in refused(*REPLAY, "--arm", "none", "--golden", "bad.jsonl")
    assert not (here / "out").exists()


def test_golden_set_without_recordings_asks_for_them(refused: Refused, here: Path) -> None:
    shutil.copytree(here / "golden" / "tiny", here / "lone")
    assert "lone: no recordings found beside it; give them with --recordings" in refused("golden", "lint", "lone")


def test_truncated_golden_set_is_refused_with_line(refused: Refused, here: Path) -> None:
    path = here / "golden" / "tiny" / "den.jsonl"
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")
    assert "den.jsonl:3: not JSON" in refused(*REPLAY, "--arm", "none")
    assert "golden/tiny/den.jsonl:3: not JSON" in refused("golden", "lint", "golden/tiny")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"autoRecall": ', "arm.json:1: neither JSON nor JSON5"),
        ("[]", "arm.json"),
        ('{"autoRecall": {"maxItem": 4}}', "arm.json: autoRecall.maxItem: unknown key; known:"),
        ('{"autoRecall": {"maxItems": "4"}}', "arm.json: autoRecall.maxItems: expected a number, found '4'"),
        ('{"lab": {"arm": "psychic"}}', "unknown arm 'psychic'"),
    ],
)
def test_unusable_configuration_is_named(refused: Refused, here: Path, text: str, message: str) -> None:
    (here / "arm.json").write_text(text)
    assert message in refused(*REPLAY, "--arm", "tier_quota_v1=arm.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind": "lab.run", ', "run/manifest.json:1: not JSON"),
        ("{}", "run/manifest.json: is not the manifest of a run"),
        ("[]", "run/manifest.json: is not the manifest of a run"),
        ('{"kind": "lab.run", "schema_version": 99}', "has schema_version 99, this version reads 4"),
        # What a manifest must hold, and this one does not.
        ('{"kind": "lab.run", "schema_version": 4}', "run/manifest.json: has no field 'sha256'"),
        ('{"kind": "lab.run", "schema_version": 3}', "this version reads 4; run the replay again"),
    ],
)
def test_damaged_manifest_is_refused(refused: Refused, here: Path, text: str, message: str) -> None:
    (here / "run" / "manifest.json").write_text(text)
    assert message in refused("score", "run")


def test_score_of_unfinished_run_is_refused(lab: Lab, here: Path) -> None:
    (here / "run" / "receipts" / "den.parquet").unlink()
    done = lab("score", "run", cwd=here)
    assert (done.returncode, done.stdout) == (4, "")
    assert "run: 1 of 2 conversations are missing; run the same replay again" in done.stderr


def test_explain_with_changed_recording_is_refused(refused: Refused, here: Path) -> None:
    with (here / "datasets" / "tiny" / "den.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(MEMORY) + "\n")
    assert "has changed since; replay it" in refused("explain", "run", "den/s03/t01")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("replay", "gone", "--format", "lab", "--arm", "none", "--out", "out"), 2),
        (("score", "datasets"), 2),
        (("golden", "lint", "datasets/tiny"), 2),
    ],
)
def test_installed_command_refuses_in_the_same_way(lab: Lab, here: Path, arguments: tuple[str, ...], code: int) -> None:
    done = lab(*arguments, cwd=here)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_lone_surrogate_in_a_text_breaks_no_command(lab: Lab, here: Path) -> None:
    """Texts cut in the middle of an emoji occur in recordings that JavaScript wrote."""
    path = here / "datasets" / "tiny" / "den.jsonl"
    path.write_text(path.read_text("utf-8").replace("lamp 1 shelf", r"lamp \ud83d 1 shelf"), "utf-8")
    assert lab(*REPLAY, "--arm", "hybrid", cwd=here).returncode == 0
    for options in (("--with-text",), ("--with-text", "--json")):
        done = lab("explain", "out", "den/s02/t01", *options, cwd=here)
        assert (done.returncode, done.stderr) == (0, ""), options


def test_shipped_set_works_as_path_and_unknown_one_is_refused(refused: Refused) -> None:
    said = refused("recordings", "validate", "shipped:trap", "--format", "lab")
    assert (
        "shipped:trap: no such shipped set; known: shipped:capture, shipped:harms, shipped:operators, shipped:traps"
        in said
    )
    found = CliRunner().invoke(app, ["recordings", "validate", "shipped:traps", "--format", "lab", "--json"])
    assert found.exit_code == 0, found.output
    # Its golden set is found beside it, as for any path.
    assert golden_beside(recordings_at("shipped:traps")) == shipped("golden", "traps")
