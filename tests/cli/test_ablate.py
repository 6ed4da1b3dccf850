"""``lab study ablate``, and the options it shares with ``lab replay``."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from lab.systems.openclaw.presets import ABLATION

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
ARMS = [step.arm for step in ABLATION]
ASKED = ("--format", "lab", "--out", "run", "--hard-rules", "2", "--categories", "detected", "--scope", "recorded")
ASKED += ("--embedder", "hashing")


@pytest.fixture(scope="module")
def climbed(
    lab: Lab, operators: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One shipped conversation up the ablation."""
    folder = tmp_path_factory.mktemp("ablate")
    return folder, lab("study", "ablate", operators / "two-desks.jsonl", *ASKED, "--json", cwd=folder)


def test_json_has_one_entry_per_step(climbed: Any) -> None:
    folder, done = climbed
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    found = json.loads(done.stdout)
    assert list(found) == ["run", "trial", "steps", "page", "figures"]
    assert (found["run"], found["trial"]) == (
        "run",
        ["embedder hashing, which is for tests", "2 hard rules per conversation sampled", "categories detected"],
    )
    assert [(step["arm"], step["adds"]) for step in found["steps"]] == [(step.arm, step.adds) for step in ABLATION]
    assert found["steps"][0]["changes"] == {}
    assert all(step["changes"]["Success@6"]["p"] == 1.0 for step in found["steps"][1:])
    assert found["steps"][-1]["means"]["HardRules"] == 1.0
    assert found["steps"][0]["means"]["BackboneDuplication"] is None
    assert (found["page"], found["figures"]) == ("run/ablate.html", [])
    page = (folder / found["page"]).read_text("utf-8")
    assert ("Ablation: the effect of each phase" in page, "[no interval: 1 conversation]" in page) == (True, True)
    assert not (folder / "run" / "figures").exists()
    manifest = json.loads((folder / "run" / "manifest.json").read_text("utf-8"))
    assert [arm["name"] for arm in manifest["resolved"]["arms"]] == ARMS
    assert (manifest["asked"]["hard_rules"], manifest["asked"]["categories"]) == (2, "detected")


def test_next_command_can_be_copied_whatever_the_folder_is_called(lab: Lab, climbed: Any) -> None:
    folder, _ = climbed
    name = "it's the run of an ablation, under a name that is too long for a line"
    shutil.copytree(folder / "run", folder / name)
    done = lab("study", "retention", name, "--rule", "90/30", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert shlex.split(done.stdout.partition("Next:")[2].replace("\\\n", "")) == ["lab", "missed", name]


def test_ablate_repeated_prints_the_same_without_replaying(lab: Lab, operators: Path, climbed: Any) -> None:
    folder, first = climbed
    assert first.stderr.endswith("two-desks: done (1 of 1)\n")
    before = {path: path.read_bytes() for path in sorted((folder / "run").rglob("*")) if path.is_file()}
    again = lab("study", "ablate", operators / "two-desks.jsonl", *ASKED, "--json", cwd=folder)
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    assert {path: path.read_bytes() for path in sorted((folder / "run").rglob("*")) if path.is_file()} == before


def test_study_of_a_run_takes_its_recordings_and_options_except_those_given(lab: Lab, climbed: Any) -> None:
    folder, _ = climbed
    asked = json.loads((folder / "run" / "manifest.json").read_text("utf-8"))["asked"]
    done = lab("study", "ablate", "run", "--hard-rules", "1", "--out", "again", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"recordings and options of run: {asked['path']}\n")
    again = json.loads((folder / "again" / "manifest.json").read_text("utf-8"))["asked"]
    assert again == {**asked, "hard_rules": 1}


def test_study_of_a_run_says_which_of_its_options_it_lacks(lab: Lab, climbed: Any) -> None:
    done = lab("study", "saturation", "run", "--seeds", "1", "--out", "sat", "--embedder", "hashing", cwd=climbed[0])
    assert done.returncode == 0, done.stderr
    assert ", but not its --hard-rules, --categories\n" in done.stderr


@pytest.mark.parametrize(
    "words",
    [("replay", "run", "--out", "x"), ("recordings", "validate", "run"), ("memory", "observe", "run", "--out", "x")],
)
def test_command_that_reads_recordings_names_those_of_a_run(lab: Lab, climbed: Any, words: tuple[str, ...]) -> None:
    done = lab(*words, cwd=climbed[0])
    assert done.returncode == 2
    said = "error: run: is a run, and this command reads recordings; those of the run are "
    assert done.stderr.startswith(said)
    assert done.stderr.endswith("two-desks.jsonl (--format lab)\n")


def test_text_shows_one_line_per_step_in_80_columns(lab: Lab, operators: Path, climbed: Any) -> None:
    folder, first = climbed
    done = lab("study", "ablate", operators / "two-desks.jsonl", *ASKED, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    # A path is not folded.
    assert [line for line in lines if len(line) > 80 and "/" not in line] == []
    steps = json.loads(first.stdout)["steps"]
    for step in steps:
        means, *rest = [line.split()[1:] for line in lines if line.split()[:1] == [step["arm"]]]
        hit = step["means"]["Success@6"]
        assert means[0] == f"{hit:.3f}"
        assert len(rest) == (2 if step["changes"] else 0)
        assert not rest or rest[-1][0] == f"{step['changes']['Success@6']['mean']:+.3f}"
    assert lines[-2:] == ["Page: run/ablate.html", "Next: lab explain run TURN --arm ARM"]


def test_ablate_with_other_arguments_refuses_the_folder(lab: Lab, operators: Path, climbed: Any) -> None:
    folder, _ = climbed
    done = lab("study", "ablate", operators / "two-desks.jsonl", *ASKED, "--seed", "1", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: run")


def test_explain_works_on_a_run_of_an_ablation(lab: Lab, climbed: Any) -> None:
    folder, _ = climbed
    done = lab("explain", "run", "two-desks/s03/t01", "--arm", "seed_full", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["arm"]["name"] == "seed_full"


def test_shared_options_have_the_same_help() -> None:
    from lab.cli.main import app

    commands = typer.main.get_command(app).commands
    study = commands["study"].commands
    commands = {"replay": commands["replay"], "ablate": study["ablate"], "saturation": study["saturation"]}
    helps = {
        command: {name: one.help for one in commands[command].params for name in one.opts if name.startswith("--")}
        for command in ("replay", "ablate", "saturation")
    }
    # What a sweep writes is no run.
    assert helps["saturation"].pop("--out") != helps["replay"]["--out"]
    for command in ("ablate", "saturation"):
        shared = helps[command].keys() & helps["replay"].keys()
        assert {name: helps[command][name] for name in shared} == {name: helps["replay"][name] for name in shared}
        assert shared >= {"--format", "--golden", "--scope", "--jobs", "--json"}
    assert helps["ablate"].keys() - {"--slides"} <= helps["replay"].keys()


def test_help_describes_the_ablation(lab: Lab, tmp_path: Path) -> None:
    done = lab("study", "ablate", "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Shows what each step adds" in " ".join(done.stdout.split())
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


# --- what replay takes besides


def test_replay_accepts_hard_rules_categories_faults_and_tags(lab: Lab, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("replay", "datasets/tiny", "--format", "lab", "--arm", "seed_full", "--embedder", "hashing", "--out", out)
    more = ("--hard-rules", "2", "--categories", "detected", "--scope", "tags")
    faults = ("--fault", "fts_error=0.5", "--fault", "slow_store=den/s03/t01")
    done = lab(*words, *more, *faults, cwd=place)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    found = [manifest["resolved"][name] for name in ("hard_rules", "categories", "scope", "faults")]
    assert found == [{"drawn": 2, "seed": 0}, "detected", "tags", ["fts_error=0.5", "slow_store=den/s03/t01"]]
    # Without the faults it is another run.
    assert lab(*words, *more, cwd=place).returncode == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fault", "earthquake"), "unknown fault 'earthquake'; known: embedder_down"),
        (("--fault", "fts_error=den/s99/t01"), "fault 'fts_error': there is no recall point 'den/s99/t01'"),
        (("--categories", "guessed"), "unknown categories 'guessed'; known: recorded, detected"),
        (("--scope", "session"), "unknown scope 'session'; known: none, recorded, tags"),
        (("--arm", "seed_full", "--profile", "upstream"), "arm 'seed_full': profile upstream does not support it"),
    ],
)
def test_replay_with_unusable_options_names_them(
    lab: Lab, place: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    words = ("replay", "datasets/tiny", "--format", "lab", "--arm", "none", "--out", tmp_path / "run")
    done = lab(*words, *options, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert not (tmp_path / "run").exists()
