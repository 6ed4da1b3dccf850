"""A policy registered as in docs/extending.md works wherever a policy runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.runs.request import ReplayRequest
from lab.studies.sweep.grid import grid_of
from lab.studies.sweep.sweep import sweep
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r'^```(\w+) title="(lab/systems/openclaw/[^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SCRIPT = """
import json, sys
from pathlib import Path
from lab.measures.score import read_gold, score_and_write, summarise
from lab.notebook import Run
from lab.replay.explain import explain
from lab.runs.request import ReplayRequest
from lab.replay.run import run_replay
from lab.report.figures_studies import saturation_chart
from lab.report.slides import draw, save
from lab.studies.sweep.grid import grid_of
from lab.studies.saturation import saturation
from lab.studies.sweep.groups import grouped
from lab.studies.sweep.sweep import plan_sweep, sweep
from lab.studies.sweep.groups import MEASURES

path, out = sys.argv[1], Path("out")
flow = {"autoRecall": {"selectionMode": "best_first"}, "lab": {"arm": "engine"}}
Path("flow.json").write_text(json.dumps(flow))
names = ("best_first", "flow=flow.json", "tier_first_v1", "tier_quota_v1")
options = dict(embedder="hashing", labels="sampled", must_share=0.3, nice_share=0.49, conversation=("two-desks",))
run = run_replay(ReplayRequest(path, "lab", names, **options), out / "run").run
frame = Run(run)
scored = summarise(score_and_write(run), read_gold(run), run.arms)["arms"]
told = {arm: scored[arm]["measures"]["InjectedChars"] for arm in run.arms}
decisions = {arm: sorted(set(some["decision"])) for arm, some in frame.items.groupby("arm", observed=True)}
at = MEASURES.index("InjectedChars")
swept = {}
for arm, config in (("best_first", {}), ("engine", {"autoRecall": {"selectionMode": "best_first"}})):
    grid = grid_of({"arm": arm, "config": config, "grid": {"autoRecall.quotas.mustMax": [1, 2]}}, "here")
    asked = ReplayRequest(path, "lab", (), **options)
    together = [one.together for one in grouped(plan_sweep(asked, grid).arms)]
    swept[arm] = [sweep(asked, grid, out / arm).means()[0, :2, at].tolist(), together]
key = next(one for one in frame.turns["turn"] if "/s0" in one)
explained = {arm: explain(run, key, arm).recall.receipt["selectionMode"] for arm in ("best_first", "flow")}
points = saturation(ReplayRequest(path, "lab", (), embedder="hashing", conversation=("two-desks",)), seeds=1)
save(draw(saturation_chart(points)), out / "figure")
grown = {}
for point in points:
    if (point.mode, point.share) == ("independent", 0.3):
        grown[point.arm] = [point.hit, point.repeat]
print(json.dumps([told, decisions, swept, explained, grown]))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, operators: Path) -> list[dict[str, Any]]:
    """Return the results of a copy of the lab with the policy of the page."""
    folder = tmp_path_factory.mktemp("policy")
    shutil.copytree(ROOT / "lab", folder / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    blocks = BLOCK.findall((ROOT / "docs" / "extending.md").read_text("utf-8"))
    assert len(blocks) == 4
    for kind, name, text in blocks:
        path = folder / name
        if kind == "diff":
            before = "".join(line[1:] for line in text.splitlines(keepends=True) if line[0] == " ")
            after = "".join(line[1:] for line in text.splitlines(keepends=True))
            assert path.read_text("utf-8").count(before) == 1
            path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")
        else:
            path.write_text(text, "utf-8")
    (folder / "run.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "run.py", str(operators)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.process
def test_replay_runs_a_new_policy(told: list[dict[str, Any]]) -> None:
    decisions = told[1]
    assert decisions["best_first"] == ["best"]
    assert decisions["flow"] == ["best"]
    assert "best" not in decisions["tier_first_v1"] + decisions["tier_quota_v1"]


@pytest.mark.process
def test_sweep_of_a_new_policy_equals_its_replay(told: list[dict[str, Any]]) -> None:
    chars, swept = told[0], told[2]
    for arm, name in (("best_first", "best_first"), ("engine", "flow")):
        means, together = swept[arm]
        assert means == pytest.approx([chars[name]] * 2, abs=1e-9)
        assert together == [False, False, False]
    assert len({round(one, 6) for one in chars.values()}) > 2


@pytest.mark.process
def test_explain_names_a_new_policy(told: list[dict[str, Any]]) -> None:
    assert told[3] == {"best_first": "best_first", "flow": "best_first"}


@pytest.mark.process
def test_saturation_includes_a_new_policy(told: list[dict[str, Any]]) -> None:
    grown = told[4]
    assert list(grown) == ["tier_first_v1", "tier_quota_v1", "best_first"]
    assert grown["best_first"] not in (grown["tier_first_v1"], grown["tier_quota_v1"])


def test_unknown_policy_is_an_error(tmp_path: Path, operators: Path) -> None:
    with pytest.raises(UnusableInput, match="tier_third_v1"):
        make_arm(ArmSpec("tier_third_v1", "tier_third_v1"))
    with pytest.raises(UnusableInput, match="tier_third_v1"):
        grid_of({"arm": "tier_third_v1", "grid": {"autoRecall.maxItems": [1]}}, "here")
    grid = grid_of({"arm": "engine", "grid": {"autoRecall.selectionMode": ["tier_third_v1"]}}, "here")
    with pytest.raises(UnusableInput, match=r"configuration 0 of the grid.*tier_third_v1"):
        sweep(ReplayRequest(str(operators), "lab", ()), grid, tmp_path / "sweep")
