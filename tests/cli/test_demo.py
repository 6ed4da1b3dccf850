"""``lab demo``: what it replays, what it prints, how it ends."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lab.base.set_registry import DEMO, shipped
from lab.cli.demo import emit_next
from lab.cli.main import main
from lab.gate.action import Action
from lab.report.build import Built
from lab.runs.directory import open_run

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "reports" / "example"
STEPS = ["replay", "scores", "gate", "saturation", "report"]


def test_demo_json_has_scores_comparison_and_seconds(lab: Lab, tmp_path: Path) -> None:
    """The real model over the shipped conversations: a quarter of a minute, more where no vectors are cached."""
    done = lab("demo", "--out", "demo", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = ["run", "trial", "scores", "latency", "comparison", "verdict", "files", "seconds"]
    assert list(found) == expected
    assert (found["trial"], found["comparison"]["trial"]) == ([], [])
    assert {one["n"] for one in found["scores"]["arms"].values()} == {264}
    hits = {arm: one["measures"]["Success@6"] for arm, one in found["scores"]["arms"].items()}
    assert hits["none"] == 0.0 < hits["random"] < hits["tier_first_v1"] < hits["tier_quota_v1"] < hits["oracle"]
    assert hits["random"] <= 0.1, "the haystack of 400 is split among three or four scopes"
    assert found["comparison"]["differences"]["Success@6"]["n"] == 264
    assert all((tmp_path / file).is_file() for file in found["files"])
    # The README shows the same figures.
    readme = (ROOT / "README.md").read_text("utf-8")
    measures = ("Success@6", "R@6", "nDCG@6", "GoldNice@6", "RepeatRate")
    for arm, scores in found["scores"]["arms"].items():
        means = [scores["measures"][measure] for measure in measures]
        row = " | ".join(map(_shown, means))
        assert f"| `{arm}` | {row} | " in readme
    judged = {arm: scores["measures"]["Judged@6"] for arm, scores in found["scores"]["arms"].items()}
    empty = {arm: round(264 * (1 - mean)) for arm, mean in judged.items() if mean < 1}
    assert empty == {"bm25": 1, "none": 264}, "probes at which nothing is injected count as 0"
    assert "(Judged@6 is 1.000)." in readme
    # reports/example holds the same report and figures, times and the identity of the run aside.
    spec = importlib.util.spec_from_file_location("demo_figures", ROOT / "docs" / "demo_figures.py")
    assert spec
    assert spec.loader
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    figures.write_example(open_run(tmp_path / "demo"), tmp_path / "example")
    kept, made = (_settled(folder, figures) for folder in (EXAMPLE, tmp_path / "example"))
    assert list(kept) == list(made)
    changed = [name for name, text in kept.items() if text != made[name]]
    assert changed == [], "python docs/demo_figures.py writes them again"
    assert list(found["seconds"]) == STEPS
    assert min(found["seconds"].values()) >= 0


def _settled(folder: Path, figures: ModuleType) -> dict[str, str]:
    """Return the texts of a report and its figures by name, without times and identities."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): figures.settled(path.read_text("utf-8")) for path in files}


def _shown(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.3f}"


def test_demo_list_names_shipped_conversations_once() -> None:
    for kind in ("datasets", "golden"):
        assert set(DEMO) <= {path.stem for path in shipped(kind, "operators").glob("*.jsonl")}
    assert len(set(DEMO)) == len(DEMO) == 24


@pytest.fixture
def demo(
    make_set: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the demo in this process over the set in ``tmp_path``, of which ``den`` and ``mill`` are on its list."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr("lab.base.set_registry.DEMO", ("den", "mill"))
    monkeypatch.setattr("lab.runs.notes.DEMO", ("den", "mill"))
    # Two small conversations that say the same have no haystack to give.
    monkeypatch.setattr(importlib.import_module("lab.replay.haystack"), "HAYSTACKS", {})
    monkeypatch.setattr("lab.base.set_registry.shipped", lambda kind, _: tmp_path / kind / "tiny")
    make_set(tmp_path, "den", "mill")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lab", "demo", "--jobs", "1", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(str(ended.value.code)), said.out, said.err

    return run


def test_demo_prints_times_and_next_commands_in_80_columns(demo: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = demo()
    assert code == 0, err
    heard = [line for line in err.splitlines() if line.startswith("step ")]
    expected = [f"step {number} of 5, {name}{end}" for number, name in enumerate(STEPS, 1) for end in ("", ": n s")]
    assert [re.sub(r"\d+ s$", "n s", line) for line in heard] == expected
    # The longest step says how far it is.
    steps = err.splitlines()
    assert any(
        "of 2" in line for line in steps[steps.index("step 4 of 5, saturation") : steps.index("step 5 of 5, report")]
    )
    assert re.search(
        r"^Took \d+ s: replay \d+ s, scores \d+ s, gate \d+ s, saturation \d+ s, report \d+ s\.$", out, re.MULTILINE
    )
    # Two conversations are too few for the gate, which speaks before the charts are drawn.
    assert "INCONCLUSIVE (policy rollout): " in out[: out.index("Took ")]
    assert "the policy requires at least 8" in " ".join(out.split())
    following = out[out.index("Next:\n") :].splitlines()[1:]
    assert following[0] == "  open reports/demo/report.html"
    explain = shlex.split(following[1])
    assert explain[:3] == ["lab", "explain", "reports/demo"]
    assert re.fullmatch(r"(den|mill)/s\d\d/t\d\d", explain[3])
    assert explain[4:] == ["--arm", "tier_quota_v1", "--with-text"]
    assert len(following) == 2, "nothing is left out, so --all is not named"
    assert max(map(len, (out + err).splitlines())) <= 80


def test_demo_next_names_the_turn_and_the_arm_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    action = Action("Look.", "lab explain DIR den/s07/t03 --arm tier_quota_v1 --with-text")
    opening: Any = SimpleNamespace(action=action)
    run: Any = SimpleNamespace(path=Path("reports/demo"))
    comparison: Any = SimpleNamespace(gained=["den/s08/t03"], lost=[], candidate="tier_quota_v1")
    emit_next(run, comparison, Built([Path("page.html")], opening), more=0)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  open page.html",
        "  lab explain reports/demo den/s07/t03 --arm tier_quota_v1 --with-text",
    ]


def test_demo_when_conversations_are_added_keeps_its_figures(
    demo: Callable[..., tuple[int, str, str]], make_set: Callable[..., Path], tmp_path: Path
) -> None:
    before = json.loads(demo("--json", "--out", "before")[1])
    make_set(tmp_path, "den", "mill", "quay")
    after = json.loads(demo("--json", "--out", "after")[1])
    assert (before["scores"], before["trial"]) == (after["scores"], [])
    points = [(tmp_path / name / "saturation.parquet").read_bytes() for name in ("before", "after")]
    assert points[0] == points[1]

    code, out, _ = demo("--out", "after")
    assert (code, out.splitlines()[-1]) == (0, "  lab demo --all   (with 1 more conversation)")
    everything = json.loads(demo("--json", "--all")[1])
    assert everything["run"] == "reports/demo-all"
    assert everything["scores"]["arms"]["none"]["n"] > after["scores"]["arms"]["none"]["n"]


@pytest.mark.model
def test_demo_when_a_conversation_fails_ends_with_4(
    demo: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        importlib.import_module("lab.replay.executors"), "run_task", lambda task: f"{task.conversation} is broken"
    )
    code, out, err = demo()
    assert (code, out) == (4, "")
    assert "den: failed: den is broken" in err
    assert err.splitlines()[-1].startswith("error: ")
