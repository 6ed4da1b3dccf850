"""The Python API: functions per command, their types, and light imports."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

import lab
import lab.api
from lab.base.errors import UnusableInput
from lab.systems.contract import Item
from lab.systems.fixed import FixedArm, recall_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
TRAPS = ROOT / "datasets" / "traps"
ARMS = ["tier_first_v1", "tier_quota_v1", "hybrid"]
SCRIPT = """
from pathlib import Path

import lab

recordings = lab.recordings.read("chats.jsonl")
names: list[str] = [one.conversation for one in recordings.recordings]
run = lab.replay(recordings, arms=["tier_first_v1", "hybrid"], out=Path("run"), labels="sampled", must_share=0.4)
hits: float | None = lab.score(run).means["hybrid"]["Success@6"]
p: float = lab.compare(run, "tier_first_v1", "hybrid").differences[0].p
code: int = lab.judge(run, policy="rollout").exit_code
pages: list[Path] = lab.report(run)
why: str = lab.explain(run, "turn").explained.about
"""
WRONG = """
import lab

lab.replay("chats.jsonl", arms=["hybrid"], out="run", must_shares=0.4)
lab.replay("chats.jsonl", arms=["hybrid"], out="run", seed="x")
lab.replay("chats.jsonl", arms=["hybrid"], seed=1)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> lab.notebook.Run:
    recordings = lab.recordings.read(TRAPS)
    out = tmp_path_factory.mktemp("api") / "run"
    return lab.replay(recordings, arms=ARMS, out=out, embedder="hashing", scope="recorded")


def test_functions_pass_a_run_along(run: lab.notebook.Run) -> None:
    means = lab.score(run).means
    assert list(means) == ARMS
    compared = lab.compare(run, "tier_first_v1", "hybrid")
    assert {one.measure for one in compared.differences} >= {"Success@6", "R@6"}
    assert lab.judge(run, policy="rollout").exit_code in range(5)
    assert [path.name for path in lab.report(run, "tier_first_v1", "hybrid")][:2] == ["report.html", "report.md"]
    turn = str(run.turns["turn"][0])
    assert lab.explain(run, turn, "hybrid").recall.injected <= 6


def test_path_and_library_give_equal_runs(run: lab.notebook.Run, tmp_path: Path) -> None:
    again = lab.replay(TRAPS, arms=ARMS, out=tmp_path / "run", embedder="hashing", scope="recorded")
    (one, *_), (other, *_) = (sorted((each.path / "receipts").iterdir()) for each in (run, again))
    assert one.read_bytes() == other.read_bytes()


def test_replay_accepts_arm_objects(tmp_path: Path) -> None:
    arm = FixedArm("mine", otherwise=recall_of(Item("nowhere", "a text")))
    run = lab.replay(
        TRAPS, arms=["none", replace(arm, otherwise=recall_of())], out=tmp_path / "run", embedder="hashing"
    )
    assert run.arms == ["none", "mine"]
    assert set(run.turns.query("arm == 'mine'")["injected"]) == {0}


def test_replay_has_every_option_with_its_default() -> None:
    shown = {name: parameter.default for name, parameter in inspect.signature(lab.api.replay).parameters.items()}
    options = {field.name: field.default for field in fields(lab.Options)}
    assert options.items() <= shown.items()
    assert sorted(shown.keys() - options) == ["announce", "arms", "format", "jobs", "out", "recordings"]


def test_shipped_set_is_read_by_its_name(tmp_path: Path) -> None:
    read = lab.recordings.read("shipped:traps")
    (first, second) = (
        lab.replay(given, arms=["none"], out=tmp_path / str(number), embedder="hashing", golden="shipped:traps")
        for number, given in enumerate((read, "shipped:traps"))
    )
    assert first.directory.manifest.run_key == second.directory.manifest.run_key
    assert lab.score(first).means["none"]["Success@6"] == 0.0


def test_unreadable_input_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="no such file or folder"):
        lab.recordings.read(tmp_path / "nothing")
    with pytest.raises(UnusableInput, match="unknown arm 'best'"):
        lab.replay(TRAPS, arms=["best"], out=tmp_path / "run")


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'pandas', 'pyarrow', 'typer', 'torch'}"
    code = f"import sys, lab; lab.recordings; print(sorted({heavy} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_type_checker_sees_real_types(tmp_path: Path) -> None:
    # A missing mypy fails: skipped, this would go unnoticed where it matters.
    from mypy import api as mypy

    scripts = {"right.py": SCRIPT, "wrong.py": WRONG}
    for name, script in scripts.items():
        (tmp_path / name).write_text(script, "utf-8")
    before = os.environ.get("MYPYPATH")
    os.environ["MYPYPATH"] = str(ROOT)
    try:
        words = ["--strict", "--cache-dir", str(tmp_path / "cache")]
        told, _, code = mypy.run([*words, *(str(tmp_path / name) for name in scripts)])
    finally:
        os.environ.pop("MYPYPATH") if before is None else os.environ.__setitem__("MYPYPATH", before)
    errors = [line for line in told.splitlines() if " error: " in line]
    assert code == 1, told
    assert [sum(name in line for line in errors) for name in scripts] == [0, 3], told
