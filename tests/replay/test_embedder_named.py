"""Every output says in its first lines if a configuration names an embedder that the run did not use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lab.cli import compare as compare_verb
from lab.cli.score import score
from lab.cli.verdict_tables import emit_verdict
from lab.compare.paired import compare_arms
from lab.gate.outputs import junit, summary
from lab.gate.policy import read_policy
from lab.gate.schema import verdict_schema
from lab.gate.verdict import judge
from lab.replay.plan import plan_of
from lab.report.build import build_report
from lab.runs.directory import RunDirectory, open_run
from lab.runs.notes import config_note, config_notes
from lab.systems.contract import ArmInfo
from lab.systems.openclaw.config.file import EMBEDDER, embedder_of
from lab.systems.openclaw.config.table import PLUGIN, Knob, Section
from tests.commands import without_charts
from tests.replay.conftest import Desk

HOST = {"plugins": {"entries": {"openclaw-mem-engine": {"enabled": True, "config": {"autoRecall": {"maxItems": 4}}}}}}
NOTE = (
    "embedder: the configuration of arm live names text-embedding-3-small; this run used hashing (for tests alone), so "
    "its figures are not those of that engine"
)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, None),
        ({}, None),
        ({"autoRecall": {"maxItems": 4}}, None),
        ({"lab": {"arm": "engine"}}, None),
        ({"embedding": {"maxChars": 3000}}, "text-embedding-3-small"),
        ({"embedding": {"model": "text-embedding-3-large"}}, "text-embedding-3-large"),
        (HOST, "text-embedding-3-small"),
        (HOST["plugins"], "text-embedding-3-small"),
        ({"enabled": True, "config": {}}, "text-embedding-3-small"),
        ({"config": {"embedding": {"model": "text-embedding-3-large"}}}, "text-embedding-3-large"),
        ({"plugins": {"entries": {"another": {}}}}, None),
        ("seed", None),
    ],
)
def test_embedder_of_configuration_is_the_one_of_its_engine(value: Any, result: str | None) -> None:
    assert embedder_of(value) == result


def test_embedder_of_default_configuration_is_the_plugins_first() -> None:
    section = PLUGIN["embedding"]
    assert isinstance(section, Section)
    model = section.keys["model"]
    assert isinstance(model, Knob)
    assert model.default == EMBEDDER


def _arm(name: str, named: str | None = None) -> ArmInfo:
    return ArmInfo(name, "engine", 6, 6, {}, embedder=named)


def test_config_notes_name_only_arms_that_differ(ran: RunDirectory) -> None:
    def notes(used: str, arms: Sequence[ArmInfo], of: Sequence[str] | None = None) -> tuple[str, ...]:
        resolved = replace(ran.manifest.resolved, embedder={"model": used}, arms=tuple(arms))
        return config_notes(resolved, of)

    small, large = "text-embedding-3-small", "text-embedding-3-large"
    arms = [_arm("a", small), _arm("b"), _arm("c", small), _arm("d", large)]
    both, other = notes("m", arms)
    assert both.startswith(f"embedder: the configuration of arms a, c names {small}; this run used m, so its figures")
    assert other.startswith(f"embedder: the configuration of arm d names {large}; ")
    assert notes("m", arms, ["b"]) == ()
    assert notes(small, arms[:3]) == ()
    assert config_note(None) is config_note("all-MiniLM-L6-v2") is None
    assert "names text-embedding-3-small; lab replay uses all-MiniLM-L6-v2" in str(config_note(small))


@pytest.fixture
def ran(desk: Desk) -> RunDirectory:
    """Two arms over a small recording: ``live`` with the configuration of a host, ``hybrid`` with none."""
    for name, port in (("first", 8080), ("second", 9090)):
        desk.say(name, ("global", [("user", f"the port is {port}", f"port {port}"), ("user", "which port is it?")]))
        desk.judge(f"{name}/s1/t1#0", turn=f"{name}/s1/t2")
    host = desk.home / "openclaw.json"
    host.write_text(json.dumps(HOST | {"lab": {}}))
    config = desk.home / "live.json"
    config.write_text(json.dumps({"config": {"lab": {"arm": "engine"}}}))
    return desk.run(f"live={config}", "hybrid").run


def _after(text: str, lines: int) -> str:
    """Return the first lines, unwrapped."""
    return " ".join("\n".join(text.splitlines()[:lines]).split())


def test_plan_of_run_keeps_the_embedder_name(ran: RunDirectory) -> None:
    arms = json.loads((ran.path / "manifest.json").read_text())["resolved"]["arms"]
    assert [arm.get("embedder") for arm in arms] == ["text-embedding-3-small", None]
    assert config_notes(ran.manifest.resolved) == (NOTE,)
    assert plan_of(ran).run_key() == ran.manifest.run_key


def test_replay_other_embedder_is_announced_first(desk: Desk, ran: RunDirectory) -> None:
    from lab.replay.run import run_replay
    from lab.runs.request import ReplayRequest

    messages: list[str] = []
    run_replay(ReplayRequest.of_manifest(ran.manifest.asked), desk.home / "again", announce=messages.append)
    # Below that the conversations are too small for the cutoff.
    assert messages[0].startswith("too small to choose from: 2 of 2 conversations")
    assert messages[1] == NOTE


def test_score_and_compare_other_embedder_is_shown_first(ran: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    scored = score(ran.path)
    scored.show()
    output = _after(capsys.readouterr().out, 6)
    assert output.startswith("trial: embedder hashing")
    assert NOTE in output
    assert scored.as_json()["embedder"][-1] == NOTE
    for form, begins in (("text", "trial: "), ("markdown", "## live minus hybrid "), ("latex", "% live ")):
        compare_verb.compare(ran.path, "hybrid", "live", None, False, False, 3, form).show()
        output = _after(capsys.readouterr().out, 9)
        assert output.startswith(begins)
        assert "live minus hybrid " in output
        assert NOTE in output.replace("\\_", "_")
    assert NOTE in compare_arms(open_run(ran.path), "hybrid", "live").as_json()["embedder"]


def test_gate_other_embedder_is_in_all_outputs(
    ran: RunDirectory, capsys: pytest.CaptureFixture[str], desk: Desk
) -> None:
    policy = desk.home / "policy.toml"
    policy.write_text(
        'name = "mine"\nabout = "x"\n[comparison]\nbaseline = "hybrid"\ncandidate = "live"\n'
        '[[guard]]\nmeasure = "RepeatRate"\nmargin = 0.02\n'
    )
    verdict = judge(read_policy(str(policy)), ran)
    assert verdict.embedder[-1] == NOTE
    emit_verdict(verdict)
    assert NOTE in _after(capsys.readouterr().out, 9)
    assert NOTE in junit(verdict).decode().split("<testcase")[0]
    assert NOTE in "".join(summary(verdict).splitlines(keepends=True)[:8])
    jsonschema.validate(json.loads(json.dumps(verdict.as_json())), verdict_schema())


@pytest.mark.slow
def test_report_other_embedder_is_below_the_title(ran: RunDirectory) -> None:
    with without_charts():
        page, markdown = _reported(build_report(ran))
    assert NOTE in page.split("<main")[0]
    assert NOTE in "".join(markdown.splitlines(keepends=True)[:6])


def _reported(files: Sequence[Path]) -> tuple[str, str]:
    return files[0].read_text("utf-8"), files[1].read_text("utf-8")
