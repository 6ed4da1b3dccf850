"""Every output marks a trial first, and outdated verdicts are not shown."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lab.base.set_registry import DEMO
from lab.gate.outputs import write_verdict
from lab.gate.policy import read_policy
from lab.gate.shipped import SHIPPED
from lab.gate.verdict import judge
from lab.notebook import open_run as open_notebook
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.runs.directory import RunDirectory, open_run
from lab.runs.manifest import HardRules, Labels
from lab.runs.notes import HOST, config_notes, trial, trial_line
from lab.runs.request import ReplayRequest
from lab.view.live import Live
from lab.view.pages import Viewer
from lab.view.runs import Runs
from tests.commands import without_charts

pytestmark = pytest.mark.slow

SAID = "trial: embedder hashing, which is for tests; 3 conversations, the first ones"
Lab = Callable[..., Any]


def _unfolded(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "words",
    [
        ("score",),
        ("compare",),
        ("compare", "--format", "markdown"),
        ("compare", "--format", "latex"),
        ("gate",),
    ],
)
def test_trial_is_in_the_first_line_of_every_command(run: RunDirectory, lab: Lab, words: tuple[str, ...]) -> None:
    command, *options = words
    ended = lab(command, run.path, *options)
    lines = ended.out.splitlines()
    table = next(place for place, line in enumerate(lines) if {"─", "|", "&"} & {*line})
    head = _unfolded("\n".join(lines[:table]))
    assert SAID in head
    assert "trial" in lines[0]


@pytest.mark.parametrize("words", [("score",), ("compare",), ("gate",)])
def test_trial_is_in_json_outputs(run: RunDirectory, lab: Lab, words: tuple[str, ...]) -> None:
    value = json.loads(lab(*words, run.path, "--json").out)
    assert value["trial"] == list(trial(run.manifest))


def test_trial_is_shown_by_replay_and_list(run: RunDirectory, replay_request: ReplayRequest, lab: Lab) -> None:
    golden = str(replay_request.golden)
    words = ["replay", replay_request.path, "--format", "lab", "--golden", golden, "--scope", "recorded"]
    words += [word for arm in replay_request.arms for word in ("--arm", arm)]
    ended = lab(*words, "--embedder", "hashing", "--limit", "3", "--out", run.path)
    assert _unfolded(ended.out).startswith(SAID)
    assert "0 done, 3 skipped" in _unfolded(ended.out)
    # A long path does not push the next command off the line.
    assert f"\nNext: lab score {run.path}\n" in ended.out
    assert "complete (trial)" in lab("runs", "list", run.path.parent).out


def test_trial_is_in_verdict_files(run: RunDirectory, tmp_path: Path) -> None:
    verdict = judge(read_policy("rollout"), run)
    write_verdict(verdict, tmp_path / "verdict")
    assert list(json.loads((tmp_path / "verdict" / "verdict.json").read_bytes()))[:2] == ["schema", "trial"]
    root = ElementTree.fromstring((tmp_path / "verdict" / "verdict.xml").read_bytes())
    assert root.get("name") == SAID
    said = [one.get("value") for one in root.iter("property") if one.get("name") == "trial"]
    assert said == list(trial(run.manifest))


def test_trial_is_shown_on_pages(run: RunDirectory) -> None:
    with without_charts():
        build_report(run)
    markdown = (run.path / "report.md").read_text("utf-8")
    assert markdown.splitlines()[0] == f"# Recall report ({SAID})"
    html = (run.path / "report.html").read_text("utf-8")
    assert f"<title>Recall report ({SAID})" in html
    assert f"<strong>Not evidence about an engine</strong>: {'; '.join(trial(run.manifest))}." in html
    assert json.loads((run.path / "report.json").read_bytes())["title"] == f"Recall report ({SAID})"
    page = Viewer(Live(Runs([run])), with_text=False).home({})
    assert SAID in page[: page.index("</header>")]
    assert SAID in repr(open_notebook(run.path))
    assert SAID in repr(open_notebook(run.path).compare("tier_first_v1", "tier_quota_v1"))


def test_trial_line_lists_all_reasons(sound: RunDirectory) -> None:
    manifest = sound.manifest
    resolved = replace(
        manifest.resolved,
        faults=("fts_error", "slow_embedding"),
        labels=Labels("sampled", 0.1, 0.63, 4),
        hard_rules=HardRules(2, 4),
        categories="detected",
        store="lancedb",
    )
    given = {**manifest.asked, "arms": ["tier_first_v1", "mine=mine.json"], "max_items": 6, "conversation": ["a"]}
    other = replace(manifest, resolved=resolved, asked=given, status="incomplete")
    assert trial_line(trial(other)) == (
        "trial: embedder hashing, which is for tests; faults switched on: fts_error, slow_embedding; 3 conversations, "
        "chosen by name; labels sampled, must 0.10, nice 0.63, seed 4; 2 hard rules per conversation sampled; "
        "categories detected; store lancedb; arms configured by a file: mine; at most 6 items requested; "
        "not complete"
    )


def test_configuration_of_a_live_host_is_no_trial_and_is_named(sound: RunDirectory) -> None:
    """Only the sessions and the store of a host together, under the engine's own profile, are one."""
    real = replace(sound.manifest.resolved, embedder={"kind": "sentence-transformers", "model": "m"})
    asked = {**sound.manifest.asked, "limit": None, "arms": ["engine=openclaw.json"]}
    said = ("arms configured by a file: engine",)
    for names, reasons in (
        ({"format": "openclaw", "profile": "upstream", "memories_from": "0"}, ()),
        ({"format": "openclaw-archived", "profile": "upstream", "memories_from": "0"}, ()),
        ({"format": "openclaw", "profile": "upstream"}, said),
        ({"format": "openclaw", "profile": "seed", "memories_from": "0"}, said),
        ({"format": "locomo", "profile": "upstream", "memories_from": "0"}, said),
    ):
        resolved = replace(real, **names)
        assert trial(replace(sound.manifest, resolved=resolved, asked=asked)) == reasons
        assert (HOST in config_notes(resolved)) == (not reasons)
    # Other reasons stay.
    faulty = replace(real, format="openclaw", profile="upstream", memories_from="0", faults=("fts_error",))
    assert trial(replace(sound.manifest, resolved=faulty, asked=asked)) == ("faults switched on: fts_error",)


def test_trial_of_real_conditions_has_no_reasons(sound: RunDirectory) -> None:
    resolved = replace(sound.manifest.resolved, embedder={"kind": "sentence-transformers", "model": "m"})
    manifest = replace(sound.manifest, resolved=resolved, asked={**sound.manifest.asked, "limit": None})
    assert trial(manifest) == ()
    demo, fewer = (
        replace(manifest, asked={**manifest.asked, "limit": None, "conversation": list(names)})
        for names in (DEMO, DEMO[1:])
    )
    assert (trial(demo), trial(fewer)) == ((), ("3 conversations, chosen by name",))
    assert trial_line(()) is None


def _judged(run: RunDirectory, policy: str = "rollout") -> None:
    write_verdict(judge(read_policy(policy), run), run.path)


def _pages(run: RunDirectory) -> str:
    with without_charts():
        build_report(run)
    return (run.path / "report.md").read_text("utf-8")


def test_labels_of_a_run_whose_arms_all_capture_are_not_sampled(sound: RunDirectory) -> None:
    resolved = sound.manifest.resolved
    sampled = replace(resolved, labels=Labels("sampled", 0.1, 0.63, 0))
    assert any(reason.startswith("labels sampled") for reason in trial(replace(sound.manifest, resolved=sampled)))
    capturing = replace(sampled, arms=tuple(replace(arm, writes=True) for arm in resolved.arms))
    assert not any("labels" in reason for reason in trial(replace(sound.manifest, resolved=capturing)))


def test_report_current_verdict_is_shown(run: RunDirectory) -> None:
    _judged(run)
    text = _pages(run)
    assert re.search(r"^## INCONCLUSIVE: .*\(policy rollout\)$", text, re.MULTILINE)
    assert "stale" not in text


def test_report_verdict_on_older_contents_is_not_shown(run: RunDirectory, replay_request: ReplayRequest) -> None:
    _judged(run)
    run.receipts(run.conversations[0]).unlink()
    again = run_replay(replay_request, run.path).run
    text = _pages(again)
    assert "INCONCLUSIVE" not in text
    assert "verdict.json is stale and is not shown: the run has changed since" in text
    assert "Run lab gate again" in text
    page = (again.path / "report.html").read_text("utf-8")
    assert "the verdict of this run is stale" in page
    assert "Judge this run again." in page
    assert "lab gate DIR --policy rollout" in re.sub(r"<[^>]+>", "", page)
    assert "no gate has judged this run" not in page
    _judged(again)
    assert "(policy rollout)" in _pages(again)


def test_report_verdict_of_another_run_is_not_shown(
    run: RunDirectory, replay_request: ReplayRequest, tmp_path: Path
) -> None:
    other = run_replay(replace(replay_request, limit=2), tmp_path / "other").run
    _judged(other)
    shutil.copyfile(other.path / "verdict.json", run.path / "verdict.json")
    assert "the run has changed since" in _pages(run)


def test_report_verdict_of_a_changed_policy_is_not_shown(run: RunDirectory, tmp_path: Path) -> None:
    policy = tmp_path / "mine.toml"
    policy.write_bytes((SHIPPED / "rollout.toml").read_bytes().replace(b'name = "rollout"', b'name = "mine"'))
    _judged(run, str(policy))
    assert re.search(r"\(policy mine\.toml \\?\(sha256 \w{8}, not a shipped policy", _pages(run))
    policy.write_text(policy.read_text("utf-8").replace("margin = 0.02", "margin = 0.04", 1), "utf-8")
    assert re.search(r"is not shown: policy mine\.toml .* has changed since", _pages(run))


def test_report_verdict_against_a_changed_run_is_not_shown(
    run: RunDirectory, sound: RunDirectory, replay_request: ReplayRequest, tmp_path: Path
) -> None:
    shutil.copytree(sound.path, tmp_path / "base")
    base = open_run(tmp_path / "base")
    write_verdict(judge(read_policy("nightly"), run, against=base), run.path)
    assert "(policy nightly)" in _pages(run).replace("\\", "")
    base.receipts(base.conversations[0]).unlink()
    run_replay(replay_request, base.path)
    assert f"{base.path}, the run that it was compared with, has changed since" in _pages(run).replace("\\", "")


def test_report_verdict_without_its_inputs_is_not_shown(run: RunDirectory) -> None:
    _judged(run)
    path = run.path / "verdict.json"
    value = json.loads(path.read_bytes())
    path.write_text(json.dumps({name: one for name, one in value.items() if name not in ("evidence", "trial")}))
    assert "is not shown: it does not record its policy and runs" in _pages(run)
