"""The viewer over three shipped conversations, in English and Chinese."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from lab.replay.explain import explain, missed
from lab.replay.run import run_replay
from lab.report.explanation import explanation_text
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.view.causes import NAMES, words
from lab.view.live import Live
from lab.view.pages import Viewer
from lab.view.probes import ProbeTable, Query
from lab.view.runs import Runs
from tests.view.missed_on_page import missed_on_page


@pytest.fixture(scope="module")
def run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    arms = ("tier_first_v1", "tier_quota_v1", "quota_repeat", "hybrid")
    request = ReplayRequest(
        *(str(operators), "lab", arms),
        embedder="hashing",
        scope="recorded",
        haystack=0,
        conversation=("harbor-release", "lantern-shop", "two-desks"),
    )
    return run_replay(request, tmp_path_factory.mktemp("operators") / "run").run


def test_page_and_explain_agree_on_every_missed_memory(run: RunDirectory) -> None:
    live = Live(Runs([run]))
    viewer, state = Viewer(live, with_text=False), live.now()
    rows, _ = missed(run)
    by_place: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        by_place.setdefault((row.arm, row.conversation, row.probe), {})[row.memory] = row.cause
    # Every cause of every arm, and every tenth of the others: an explanation repeats a recall.
    chosen, seen = [], set()
    for number, (place, causes) in enumerate(by_place.items()):
        new = {(place[0], cause) for cause in causes.values()} - seen
        seen |= new
        if new or number % 10 == 0:
            chosen.append(place)
    assert len({cause for _, cause in seen}) > 3
    assert len(chosen) > 15
    for arm, conversation, probe in chosen:
        explanation = explain(run, probe, arm)
        other = next(name for name in run.arms if name != arm)
        page = viewer.turn({"conversation": conversation, "turn": probe, "base": arm, "cand": other})
        shown = missed_on_page(page, arm)
        assert {key: cause for key, (cause, _) in shown.items()} == by_place[arm, conversation, probe]
        printed = " ".join(explanation_text(explanation, with_text=False, full=True).split())
        for key, (_, reason) in shown.items():
            assert f"{key} {' '.join(reason.split())}" in printed
    state.causes.start()
    assert state.causes._thread
    state.causes._thread.join(120)
    for (arm, conversation, probe), causes in by_place.items():
        number = state.index.number_of(conversation, probe)
        assert number is not None
        assert list(words(int(state.causes.bits(arm)[number]))) == [name for name in NAMES if name in causes.values()]


def test_probes_filter_by_language(run: RunDirectory) -> None:
    live = Live(Runs([run]))
    table, state = ProbeTable(live.now()), live.now()
    pair = state.index.pair(None, None)
    languages = table.choices.slices["language"]
    assert languages == ["en", "en+zh-Hant", "zh-Hant"]
    everything = table.select(Query(), pair, state.index.where(pair, "")).tolist()
    parts = [
        table.select(Query(slices=(("slice.language", name),)), pair, state.index.where(pair, "")).tolist()
        for name in languages
    ]
    assert all(parts)
    assert sorted(number for part in parts for number in part) == everything
    conversations = {state.index.conversations[state.index.conversation_of[number]] for number in parts[-1]}
    assert "lantern-shop" in conversations
    assert {
        row.slices[list(table.choices.slices).index("language")] for row in table.rows(parts[-1], Query(), pair)
    } == {"zh-Hant"}
    page = Viewer(live, with_text=True).turns({"conversation": "lantern-shop"})
    assert len(re.findall("[\u4e00-\u9fff]", unescape(page))) > 500
    assert 'dir="auto"' in page
