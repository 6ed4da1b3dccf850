"""Commands, their output as text and JSON, and their exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
COMPARE = ("compare", "run", "--baseline", "none", "--candidate", "hybrid")
EXPLAIN = ("explain", "run", "den/s03/t01", "--arm", "tier_quota_v1")
EXPLAINED = ["turn", "arm", "visible", "injected", "runners_up", "gold", "misleading", "marks"]
EXPLAINED += ["reasons", "causes", "places", "receipt"]
# What makes the run of the small set a trial.
TRIAL = ["embedder hashing, which is for tests"]
WORDS = ("wombatmemory", "quokkaturn")


@pytest.mark.process
def test_version_is_the_package_version(installed: Lab, tmp_path: Path) -> None:
    from lab import __version__

    assert installed("--version", cwd=tmp_path).stdout == f"lab {__version__}\n"
    module = subprocess.run(
        [sys.executable, "-m", "lab", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert module.stdout == f"lab {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (("score", "run"), ["trial", "arms", "slices", "latency"]),
        (
            COMPARE,
            [
                "trial",
                "judged",
                "baseline",
                "candidate",
                "cutoff",
                "primary",
                "differences",
                "gained",
                "lost",
                "probes",
                "sampled_labels",
                "unmeasured",
                "slices",
                "turns",
            ],
        ),
        (
            EXPLAIN,
            EXPLAINED,
        ),
        (
            (*EXPLAIN, "--with-text"),
            [*EXPLAINED, "text", "context", "texts"],
        ),
        (("report", "run"), ["files"]),
        (
            ("recordings", "validate", "datasets/tiny", "--format", "lab"),
            ["conversations", "errors", "warnings", "inventory", "notes"],
        ),
        (
            ("golden", "lint", "golden/tiny"),
            [
                "probes",
                "silent",
                "relevant",
                "forbidden",
                "refused",
                "unjudged",
                "errors",
                "warnings",
                "conditions",
                "captures",
                "power",
            ],
        ),
        (("runs", "list", "."), ["runs"]),
        (("doctor",), ["checks", "ok"]),
    ],
)
def test_json_is_one_object_with_its_keys(lab: Lab, place: Path, arguments: tuple[str, ...], keys: list[str]) -> None:
    done = lab(*arguments, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert list(json.loads(done.stdout)) == keys
    assert done.stderr == ""


def test_replay_prints_json_on_stdout_and_progress_on_stderr(
    lab: Lab, make_set: Callable[..., Path], tmp_path: Path
) -> None:
    make_set(tmp_path, "den", "attic")
    words = ("replay", "datasets/tiny", "--format", "lab", "--arm", "hybrid", "--out", "out", "--embedder", "hashing")
    first = lab(*words, "--json", cwd=tmp_path, LAB_CACHE_DIR=str(tmp_path / "cache"))
    assert first.returncode == 0
    # Both conversations say the same: four sessions with four texts of memories and one of turns each.
    assert json.loads(first.stdout) == {
        "run": "out",
        "trial": TRIAL,
        "status": "complete",
        "conversations": {"done": 2, "skipped": 0, "failed": 0},
        "failed_recalls": {},
        "embedded": 4 * 4 + 4,
        "labels": {"mode": "recorded"},
    }
    assert "attic: done (1 of 2)\nden: done (2 of 2)\n" in first.stderr
    again = lab(*words, "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["conversations"] == {"done": 0, "skipped": 2, "failed": 0}
    assert again.stderr == ""


def test_runs_list_and_rm(lab: Lab, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "run", tmp_path / "deep" / "run")
    listed = json.loads(lab("runs", "list", ".", "--json", cwd=tmp_path).stdout)
    arms = ["tier_first_v1", "tier_quota_v1", "hybrid", "none"]
    facts = {"run": "deep/run", "status": "complete", "done": 2, "conversations": 2, "arms": arms, "trial": TRIAL}
    assert listed == {"runs": [facts]}
    before = sorted(tmp_path.rglob("*"))
    files = sum(path.is_file() for path in before)
    shown = json.loads(lab("runs", "rm", "deep/run", "--json", cwd=tmp_path).stdout)
    assert sorted(tmp_path.rglob("*")) == before
    removed = json.loads(lab("runs", "rm", "deep/run", "--json", "--write", cwd=tmp_path).stdout)
    assert removed == shown | {"written": True}
    head = {"command": "lab runs rm", "target": "deep/run", "written": True}
    assert removed == head | {"counts": {"files": files}, "left": []}
    assert list((tmp_path / "deep").iterdir()) == []
    assert json.loads(lab("runs", "list", ".", "--json", cwd=tmp_path).stdout) == {"runs": []}


def test_runs_list_ignores_other_files(lab: Lab, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "run", tmp_path / "run")
    for name, text in (("app", '{"name": "a web page"}'), ("broken", '{"kind": "lab.run", ')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(text)
    listed = lab("runs", "list", ".", "--json", cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [one["run"] for one in json.loads(listed.stdout)["runs"]] == ["run"]


def test_saturation_prints_points_and_writes_charts(lab: Lab, make_set: Callable[..., Path], tmp_path: Path) -> None:
    """Loads the real model: some seconds."""
    make_set(tmp_path, "den")
    words = ("study", "saturation", "datasets/tiny", "--format", "lab", "--out", "sat", "--seeds", "1", "--json")
    done = lab(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["points", "page", "figures"]
    assert {point["arm"] for point in found["points"]} == {"tier_first_v1", "tier_quota_v1", "hybrid", "oracle"}
    assert (tmp_path / found["page"]).read_text("utf-8").count("<polyline") == 12
    assert found["figures"] == []
    assert (tmp_path / "sat" / "saturation.parquet").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "run"),
        ("score", "run", "--slices"),
        ("score", "run", "-m", "nDCG@10", "-m", "InjectedChars"),
        COMPARE,
        (*COMPARE, "--all"),
        EXPLAIN,
        (*EXPLAIN, "--with-text"),
        ("runs", "list", "."),
        ("recordings", "validate", "datasets/tiny", "--format", "lab"),
        ("golden", "lint", "golden/tiny"),
        ("--help",),
        ("replay", "--help"),
    ],
)
def test_text_fits_80_columns_without_colour(lab: Lab, place: Path, arguments: tuple[str, ...]) -> None:
    done = lab(*arguments, cwd=place)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) >= 2
    assert [line for line in lines if len(line) > 80] == []
    assert "\x1b" not in done.stdout + done.stderr


def test_score_table_shows_means_and_dashes(lab: Lab, place: Path) -> None:
    summary = json.loads(lab("score", "run", "--json", cwd=place).stdout)
    lines = lab("score", "run", cwd=place).stdout.splitlines()
    # The notes below the table may begin with the name of an arm.
    rows = {words[0]: words[1:] for line in reversed(lines) if (words := line.split())}
    assert rows["arm"] == ["n", "Success@6", "Judged@6", "R@6", "nDCG@6", "GoldNice@6", "RepeatRate"]
    for arm, one in summary["arms"].items():
        values = [one["measures"][name] for name in rows["arm"][1:]]
        assert rows[arm] == [str(one["n"]), *("–" if value is None else f"{value:.3f}" for value in values)]
    assert rows["none"][-1] == "–"


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_explain_shows_texts_only_with_text(lab: Lab, place: Path, as_json: tuple[str, ...]) -> None:
    silent = lab(*EXPLAIN, *as_json, cwd=place).stdout
    assert "den/s03/t01" in silent
    assert [word for word in WORDS if word in silent] == []
    telling = lab(*EXPLAIN, "--with-text", *as_json, cwd=place).stdout
    assert [word for word in WORDS if word in telling] == list(WORDS)


@pytest.mark.parametrize(
    ("conversation", "folder", "candidate"),
    [
        ("den", "run", "hybrid"),
        # An arm of another run is explained in its own run.
        ("den", "run", "other:oracle"),
        # What is printed is typed into a shell as it stands.
        ("night's den", "run", "hybrid"),
        ("den", "my run", "hybrid"),
    ],
)
def test_compare_prints_commands_that_work(
    lab: Lab, make_set: Callable[..., Path], tmp_path: Path, conversation: str, folder: str, candidate: str
) -> None:
    make_set(tmp_path, conversation)
    runs = {folder: ("none", "hybrid")} | ({"other": ("oracle",)} if ":" in candidate else {})
    for out, arms in runs.items():
        words = [word for arm in arms for word in ("--arm", arm)]
        common = ("--format", "lab", "--out", out, "--embedder", "hashing")
        assert lab("replay", "datasets/tiny", *words, *common, cwd=tmp_path).returncode == 0
    done = lab("compare", folder, "--baseline", "none", "--candidate", candidate, cwd=tmp_path)
    commands = [line.strip() for line in done.stdout.splitlines() if line.startswith("  lab explain ")]
    assert len(commands) >= 1
    explained = lab(*shlex.split(commands[0])[1:], cwd=tmp_path)
    assert (explained.returncode, explained.stderr) == (0, "")
    assert explained.stdout.startswith(f"{candidate.rpartition(':')[2]} at {conversation}/")


def test_compare_of_few_conversations_says_so(lab: Lab, place: Path) -> None:
    text = " ".join(lab(*COMPARE, cwd=place).stdout.split())
    assert "2 conversations" in text
    assert "No intervals: over 2 conversations no sign-flip test can reach 5 %" in text


@pytest.fixture
def copied(place: Path, tmp_path: Path) -> Path:
    """The small set and its run, to be damaged."""
    return Path(shutil.copytree(place, tmp_path / "copied"))


def _edit(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def test_validate_with_errors_exits_1(lab: Lab, copied: Path) -> None:
    def silence(lines: list[dict[str, Any]]) -> None:
        next(line for line in lines if line["kind"] == "turn")["text"] = "  "

    _edit(copied / "datasets" / "tiny" / "den.jsonl", silence)
    words = ("recordings", "validate", "datasets/tiny", "--format", "lab")
    done = lab(*words, cwd=copied)
    assert (done.returncode, done.stderr) == (1, "error: datasets/tiny: 1 error\n")
    assert "error: den: turn den/s01/t01 has no text" in done.stdout
    found = lab(*words, "--json", cwd=copied)
    assert found.returncode == 1
    assert json.loads(found.stdout)["errors"] == ["den: turn den/s01/t01 has no text"]


def test_lint_with_errors_exits_1(lab: Lab, copied: Path) -> None:
    def spoil(lines: list[dict[str, Any]]) -> None:
        lines[0]["relevant"][0]["memory"] = "den/s09/t09#9"
        lines.append(lines[1])

    _edit(copied / "golden" / "tiny" / "den.jsonl", spoil)
    done = lab("golden", "lint", "golden/tiny", "--json", cwd=copied)
    assert (done.returncode, done.stderr) == (1, "error: golden/tiny: 2 errors\n")
    assert json.loads(done.stdout)["errors"] == [
        "golden set: probe den/s02/t01 names memory 'den/s09/t09#9', which the recording does not have",
        "golden set: probe den/s03/t01 occurs twice",
    ]


def test_compare_of_incomparable_runs_exits_3(lab: Lab, place: Path, tmp_path: Path) -> None:
    common = ("--format", "lab", "--embedder", "hashing", "--labels", "sampled", "--arm", "hybrid")
    other = tmp_path / "other"
    assert lab("replay", "datasets/tiny", *common, "--out", other, cwd=place).returncode == 0
    done = lab("compare", "run", "--baseline", "none", "--candidate", f"{other}:hybrid", cwd=place)
    assert (done.returncode, done.stdout) == (3, "")
    difference = "labels (mode recorded / sampled, must_share none / 0.1, nice_share none / 0.63, 1 more)"
    assert done.stderr == f"error: run and {other} cannot be compared: they differ in {difference}\n"


def test_damaged_receipts_exit_4(lab: Lab, copied: Path) -> None:
    (copied / "run" / "receipts" / "den.parquet").write_bytes(b"PAR1 and no more")
    done = lab("score", "run", cwd=copied)
    assert done.returncode == 4
    assert re.fullmatch(r"error: run/receipts/den\.parquet: damaged .*\n", done.stderr)


def test_failed_conversation_exits_4_and_others_continue(lab: Lab, copied: Path) -> None:
    shutil.rmtree(copied / "run")
    # A folder stands where the receipts of one conversation should be written.
    (copied / "blocked").mkdir()
    words = ("replay", "datasets/tiny", "--format", "lab", "--arm", "none", "--out", "run", "--embedder", "hashing")
    assert lab(*words, cwd=copied).returncode == 0
    (copied / "run" / "receipts" / "den.parquet").unlink()
    (copied / "run" / "receipts" / "den.parquet").mkdir()
    done = lab(*words, "--json", cwd=copied)
    assert done.returncode == 4
    assert json.loads(done.stdout)["conversations"] == {"done": 0, "skipped": 1, "failed": 1}
    failures = [json.loads(line) for line in (copied / "run" / "failures.jsonl").read_text("utf-8").splitlines()]
    assert [(one["conversation"], one["phase"]) for one in failures] == [("den", "replay")]
    assert done.stderr.splitlines()[-1] == "error: 1 conversation failed; see run/failures.jsonl"


@pytest.mark.parametrize("arguments", [("nonsense",), ("replay",), ("compare",), ("score", "run", "--no-such-option")])
def test_wrong_usage_exits_2(lab: Lab, place: Path, arguments: tuple[str, ...]) -> None:
    done = lab(*arguments, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: lab" in done.stderr


@pytest.mark.process
def test_interrupt_exits_130_and_says_how_to_continue(place: Path, tmp_path: Path) -> None:
    # A shell's background job hands its children an ignored SIGINT; the command must have one to be interrupted by.
    program = "from signal import *; signal(SIGINT, default_int_handler); from lab.cli.main import main; main()"
    words = ["replay", place / "datasets/tiny", "--format", "lab", "--arm", "hybrid", "--out", tmp_path / "out"]
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        endpoint.settimeout(60)
        embedder = f"openai:mute@http://127.0.0.1:{endpoint.getsockname()[1]}/v1"
        command = [sys.executable, "-c", program, *words, "--embedder", embedder]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            # Once it calls the endpoint, which never answers, it is at work and waits for us.
            connection, _ = endpoint.accept()
            # A signal that comes just before the read begins does not end it, so there may have to be another.
            for _ in range(6):
                running.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = running.communicate(timeout=10)
                    break
            connection.close()
        finally:
            running.kill()
            running.wait()
    assert (running.returncode, out) == (130, "")
    assert re.fullmatch(r"embedding \d+ texts\nerror: interrupted; run the same command again to continue\n", err)


@pytest.mark.process
def test_closed_pipe_is_no_error(place: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [Path(sys.executable).with_name("lab"), "score", "run", "--json"]
    try:
        done = subprocess.run(command, cwd=place, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_replay_with_score_equals_lab_score(lab: Lab, place: Path) -> None:
    words = ["replay", "datasets/tiny", "--format", "lab", "--arm", "hybrid", "--embedder", "hashing", "--score"]
    done = lab(*words, "--out", "scored", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    scored = {"trial": found["trial"]} | found["scores"] | {"latency": found["latency"]}
    assert scored == json.loads(lab("score", "scored", "--json", cwd=place).stdout)
    printed = lab(*words, "--out", "scored", cwd=place).stdout
    trial, _, *scores = printed.splitlines(keepends=True)
    assert "".join([trial, *scores]) == lab("score", "scored", cwd=place).stdout
    part = lab(*words, "--out", "part", "--shard", "1/2", cwd=place)
    assert (part.returncode, part.stderr.count("\n")) == (2, 1)
    assert "--score does not work with --shard" in part.stderr
