"""Tests of the command: exit codes, what it prints on 80 columns, and that texts are printed only when wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.canary.agree.conftest import QUERY, TEXTS, Gateway, block, row
from tests.commands import Done, run_here


@pytest.fixture
def agree(written: Any) -> Any:
    """Runs the command on a transcript."""

    def run(log: Gateway, *words: str, config: dict[str, Any] | None = None) -> Done:
        request = written(log, config)
        options = ("--format", "openclaw", "--config", request.config, "--embedder", "hashing")
        return run_here("canary", "agree", request.path, *options, *words)

    return run


def test_agree_exits_with_0_and_prints_the_totals(gateway: Gateway, agree: Any) -> None:
    gateway.says("user", f"{block('rule', 'gate', 'mill')}\n\n{QUERY}")
    gateway.searches(row("rule"), row("gate"), row("mill"))
    done = agree(gateway)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "searches of the agent: 1 of 1 equal, mean overlap 1.000, mean tau-b 1.000 over 1" in shown
    assert "injected blocks: 1 of 1 equal" in shown
    assert "the agent searched by itself 1 time at 1 of 2 user turns (0.500 per turn)" in shown
    assert "would have brought 100.0% of what the searches returned, and all of it at 1 of 1" in shown
    assert shown.endswith("AGREES: the same memories in the same order at every recall is required.")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_agree_with_another_order_exits_with_1(gateway: Gateway, agree: Any) -> None:
    gateway.searches(row("gate"), row("rule"), row("mill"))
    done = agree(gateway)
    assert done.returncode == 1
    assert "DIFFERS" in done.stdout
    assert "1: other" in done.stdout
    assert not any(text in done.stdout for text in TEXTS.values())
    # In any order, the memories are the same.
    assert agree(gateway, "--least", "1").returncode == 0


def test_agree_names_the_reason_of_the_live_results(gateway: Gateway, agree: Any) -> None:
    for _ in range(9):
        reasons = {"skipReason": None, "rejected": ["no_results_nice", "provider_unavailable"]}
        gateway.searches(row("gate"), row("rule"), ftsCount=2, vecCount=0, lifecycle=reasons)
    gateway.searches(row("rule"), row("gate"), row("mill"), ftsCount=2, vecCount=3)
    done = agree(gateway)
    assert done.returncode == 1
    assert json.loads(agree(gateway, "--json").stdout)["causes"]["provider_unavailable"] == 9
    assert "provider_unavailable (9): the live result says so" in done.stdout
    assert "embedder:" not in done.stdout


def test_agree_lists_the_differing_recalls_of_a_long_transcript(gateway: Gateway, agree: Any) -> None:
    for _ in range(30):
        gateway.searches(row("rule"), row("gate"), row("mill"))
    gateway.searches(row("gate"), row("rule"), row("mill"))
    done = agree(gateway)
    assert "1: other" in done.stdout
    assert "… and 11 more recalls (--json lists all)" in done.stdout
    assert "30 of 31 equal" in done.stdout


def test_agree_names_another_embedder_first(gateway: Gateway, agree: Any) -> None:
    gateway.searches(row("gate", distance=0.25), row("rule"), row("mill"), model="a-large-model")
    done = agree(gateway)
    assert done.stdout.startswith("embedder: hashing (for tests alone) here, a-large-model in the live engine.")
    assert "embedder (1)" in done.stdout


def test_agree_shows_texts_on_request(gateway: Gateway, agree: Any) -> None:
    gateway.searches(row("gate"), row("rule"), row("mill"))
    done = agree(gateway, "--texts")
    assert f"live: {TEXTS['gate']}" in done.stdout
    assert f"lab: {TEXTS['rule']}" in done.stdout


def test_agree_with_json_prints_one_object(gateway: Gateway, agree: Any) -> None:
    gateway.searches(row("gate"), row("rule"))
    done = agree(gateway, "--json")
    value = json.loads(done.stdout)
    assert (done.returncode, value["schema"], value["agrees"], value["source"]) == (
        1,
        "lab.agree.v1",
        False,
        "tools",
    )
    assert value["causes"] == {"other": 1}
    assert value["recalls"]["tool"]["compared"] == 1
    assert not any(text in done.stdout for text in TEXTS.values())


def test_agree_without_a_recorded_recall_exits_with_3(gateway: Gateway, agree: Any) -> None:
    done = agree(gateway)
    assert (done.returncode, done.stdout) == (3, "")
    assert "nothing to compare" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--source", "captured"), "unknown source 'captured'; known: given, tools, seen"),
        (("--source", "given"), "--memories-from must name the store"),
        (("--memories-from", "nowhere"), "nowhere: no such LanceDB folder or export file"),
        (("--vectors", "stored"), "needs a store"),
        (("--conversation", "x"), "no conversation 'x'"),
        (("--embedder", "unknown"), "unknown"),
    ],
)
def test_agree_with_unusable_input_exits_with_2(
    gateway: Gateway, agree: Any, words: tuple[str, ...], message: str
) -> None:
    gateway.searches(row("rule"))
    done = agree(gateway, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_agree_on_a_path_that_does_not_exist_exits_with_2(tmp_path: Path) -> None:
    done = run_here("canary", "agree", tmp_path / "nowhere", "--format", "openclaw")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
