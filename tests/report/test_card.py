"""Hits, repeat dominance and latency of shipped conversations, counted again, as every output shows them."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.base.formatting import milliseconds, number
from lab.measures.latency import stages
from lab.measures.score import score_run, summarise
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.report.sections import card_note, card_table
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table
from tests.commands import run_here

ARMS = ("tier_first_v1", "hybrid", "none")
STAGES = ("receipt", "retrieve", "search", "select", "wrap")


@pytest.fixture(scope="module")
def run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    out = tmp_path_factory.mktemp("card") / "run"
    return run_replay(ReplayRequest(str(operators), "lab", ARMS, embedder="hashing", limit=3), out).run


def _turns(run: RunDirectory, arm: str) -> list[list[list[str]]]:
    """Return what was injected at each recall turn, by conversation."""
    return [
        [
            row["item_key"][: row["injected"]]
            for row in read_table(run.receipts(name)).to_pylist()
            if row["arm"] == arm and row["is_recall_turn"]
        ]
        for name in run.conversations
    ]


def _dominance(turns: Sequence[Sequence[Sequence[str]]]) -> float | None:
    shares = []
    for conversation in turns:
        last = deque[Sequence[str]](maxlen=6)
        for chosen in conversation:
            last.append(chosen)
            times = Counter(key for one in last for key in one)
            if times:
                shares.append(max(times.values()) / times.total())
    return sum(shares) / len(shares) if shares else None


def _hits(run: RunDirectory, arm: str) -> float:
    gold = {probe: judged.grades for probe, judged in read_gold(run).items() if judged.grades}
    rows = [row for name in run.conversations for row in read_table(run.receipts(name)).to_pylist()]
    hit = [
        any(gold[row["probe"]].get(key, 0) > 0 for key in row["item_key"][: row["injected"]][:6])
        for row in rows
        if row["arm"] == arm and row["probe"] in gold
    ]
    return sum(hit) / len(gold) if len(hit) == len(gold) else math.nan


def _p50_p95(run: RunDirectory, arm: str, stage: str | None) -> str:
    times: dict[str, float] = {}
    for name in run.conversations:
        for row in read_table(run.latency(name)).to_pylist():
            if row["arm"] == arm and not row["cold"] and stage in (None, row["stage"]):
                times[row["turn"]] = times.get(row["turn"], 0.0) + row["ns"] / 1e6
    ordered = sorted(times.values())
    assert len(ordered) >= 72
    return "/".join(milliseconds(ordered[math.ceil(share * len(ordered)) - 1]) for share in (0.5, 0.95))


def _mean_items(run: RunDirectory, arm: str) -> float:
    sizes = [len(chosen) for turns in _turns(run, arm) for chosen in turns]
    return sum(sizes) / len(sizes)


@pytest.fixture(scope="module")
def expected(run: RunDirectory) -> dict[str, tuple[list[float | None], list[str]]]:
    """The means and the times of each arm, from the rows of receipts and timings."""
    return {
        arm: (
            [_hits(run, arm), _dominance(_turns(run, arm)), _mean_items(run, arm)],
            [_p50_p95(run, arm, stage) for stage in (None, *STAGES)],
        )
        for arm in ARMS
    }


def test_score_prints_hits_dominance_and_latency_by_stage(
    run: RunDirectory, expected: dict[str, tuple[list[float | None], list[str]]]
) -> None:
    done = run_here("score", run.path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("Hits, repeat dominance, and milliseconds by stage (p50/p95):")
    assert lines[at + 1].split() == ["arm", "hit@6", "RepeatDominance", "items", "turn"]
    assert lines[at + 6].split() == ["arm", *STAGES]
    for row, arm in enumerate(ARMS):
        means, times = expected[arm]
        assert lines[at + 3 + row].split() == [arm, *map(number, means), times[0]]
        assert lines[at + 8 + row].split() == [arm, *times[1:]]
    said = " ".join(" ".join(lines[at:]).split())
    assert "hit@6 is Success@6." in said
    assert "Not measured: the embedding of the prompt, which a replay makes before" in said
    # Who selects measures gets these alone.
    assert "hit@6" not in run_here("score", run.path, "-m", "R@6").stdout
    found = json.loads(run_here("score", run.path, "--json").stdout)
    assert {arm: sorted(by_stage) for arm, by_stage in found["latency"].items()} == {
        arm: sorted(("total", *STAGES)) for arm in ARMS
    }
    shown = {
        arm: [by_stage["total"][name]["value"] for name in ("p50", "p95")] for arm, by_stage in found["latency"].items()
    }
    assert {arm: "/".join(map(milliseconds, pair)) for arm, pair in shown.items()} == {
        arm: times[0] for arm, (_, times) in expected.items()
    }


def test_report_pages_show_hits_dominance_and_latency_by_stage(
    run: RunDirectory, expected: dict[str, tuple[list[float | None], list[str]]]
) -> None:
    build_report(run)
    markdown = (run.path / "report.md").read_text("utf-8").replace("\\", "").replace("\xa0", " ")
    html = re.sub(r"<[^>]*>", " ", (run.path / "report.html").read_text("utf-8")).replace("\xa0", " ")
    assert f"| arm | hit@6 | RepeatDominance | items | turn | {' | '.join(STAGES)} |" in markdown
    for arm, ((hits, dominance, items), times) in expected.items():
        shares = ["–" if share is None else f"{100 * share:.1f} %" for share in (hits, dominance)]
        cells = [arm, *shares, number(items), *times]
        assert f"| {' | '.join(cells)} |" in markdown
        assert " ".join(cells) in " ".join(html.split())
    for page in (markdown, html):
        assert card_note(run.cutoff, stages(run)) in " ".join(page.split())


def test_card_without_timings_says_so_and_scores_stay(run: RunDirectory, tmp_path: Path) -> None:
    arms: dict[str, Any] = summarise(score_run(run), read_gold(run), run.arms)["arms"]
    assert card_table(arms, [], 6).headers == ("arm", "hit@6", "RepeatDominance", "items")
    assert card_note(6, []).endswith(" The run has no timings.")
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / "latency" / f"{run.conversations[0]}.parquet").write_bytes(b"PAR1 and no more")
    done = run_here("score", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r".*latency/.*; no times are shown\n", done.stderr)
    assert "The run has no timings." in done.stdout


def test_card_shows_a_dash_for_a_quantile_with_too_few_turns(run: RunDirectory) -> None:
    arms: dict[str, Any] = summarise(score_run(run), read_gold(run), run.arms)["arms"]
    few = [one._replace(spent=one.spent._replace(p95=None)) for one in stages(run)]
    assert all(cell.endswith("/–") for row in card_table(arms, few, 6).rows for cell in row[4:])
