"""Silence: the curve of one replay equals replays with a threshold, and thresholds are told on other conversations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.base.errors import NotComparable, UnusableInput
from lab.measures.score import score_run, summarise
from lab.replay.run import run_replay
from lab.report.figures_studies import silence_chart
from lab.retrieval.silence import ABOUT, SIGNALS
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.studies.silence import Answer, Curve, Terms, auroc, choose, chosen, curves, halves
from lab.studies.silence_replay import collect
from tests.commands import run_here

CHOSEN = ("harbor-release", "juniper-clinic", "orchid-lab", "tea-mountain")


@pytest.fixture(scope="module")
def asked(operators: Path) -> ReplayRequest:
    """Four conversations."""
    return ReplayRequest(str(operators), "lab", ("hybrid",), embedder="hashing", conversation=CHOSEN)


def answers_of(*rows: tuple[str, bool, bool, float]) -> list[Answer]:
    """Answers from conversation, whether gold exists, whether it was hit, and the value of every signal."""
    return [
        Answer(name, "en", "hybrid", needed, hit, True, (value,) * len(SIGNALS)) for name, needed, hit, value in rows
    ]


@pytest.mark.parametrize(("arm", "signal"), [("hybrid", "words"), ("vector", "mean"), ("tier_quota_v1", "top")])
def test_curve_equals_a_replay_with_the_threshold(asked: ReplayRequest, tmp_path: Path, arm: str, signal: str) -> None:
    request = replace(asked, arms=(arm,))
    curve = Curve(collect(request), signal)
    steps = curve.thresholds()
    threshold = steps[len(steps) // 2]
    config = tmp_path / "silent.json"
    config.write_text(json.dumps({"lab": {"silence": {"signal": signal, "threshold": threshold}}}))
    run = run_replay(replace(request, config=str(config)), tmp_path / "run").run
    measures = summarise(score_run(run), read_gold(run), run.arms)["arms"][arm]["measures"]
    hit, false = curve.at(threshold)
    assert (measures["Success@6"], measures["FalseRecall"]) == pytest.approx((hit, false))
    assert 0 < false < curve.at(0.0)[1] or 0 < hit < curve.at(0.0)[0]


def test_auroc_counts_pairs_and_half_of_the_ties() -> None:
    assert auroc(np.array([3.0, 2.0]), np.array([1.0, 2.0])) == (1 + 1 + 1 + 0.5) / 4
    assert auroc(np.array([1.0]), np.array([2.0])) == 0.0


def test_choose_finds_the_threshold_of_each_rule() -> None:
    answers = answers_of(
        *(("a", True, True, 0.5 + at / 100) for at in range(9)),
        ("a", True, True, 0.2),
        *(("a", False, False, value) for value in (0.1, 0.15, 0.3, 0.9)),
    )
    curve = Curve(answers, "top")
    assert curve.at(0.0) == (1.0, 1.0)
    # Losing nothing silences two of the four; losing one of ten hits silences a third.
    assert curve.at(choose(curve, "loss", Terms(loss=0.0))) == (1.0, 0.5)
    assert curve.at(choose(curve, "loss", Terms(loss=0.1))) == (0.9, 0.25)
    assert curve.at(choose(curve, "cost", Terms(cost=1.0))) == (0.9, 0.25)
    assert curve.at(choose(curve, "cost", Terms(cost=3.0))) == (1.0, 0.5)


def test_chosen_is_told_on_conversations_that_did_not_choose() -> None:
    names = [f"c{number}" for number in range(6)]
    calibration, told = halves(names)
    assert calibration.isdisjoint(told)
    assert calibration | told == set(names)
    # The signal separates perfectly in one half, and misleads in the other.
    pairs = [(name, needed) for name in names for needed in (True, False)]
    rows = [(name, needed, needed, 0.8 if needed == (name in calibration) else 0.2) for name, needed in pairs]
    by_rule = {row.rule: row for row in chosen(answers_of(*rows), "e", Terms()) if row.signal == "top"}
    assert by_rule["cost"].hit == (1.0, 0.0)
    assert by_rule["cost"].false_recall == (1.0, 1.0)
    assert by_rule["cost"].auroc == 0.5


def test_listen_on_the_shipped_set_has_both_languages_and_a_figure(asked: ReplayRequest) -> None:
    answers = collect(asked)
    points = curves(answers, "hashing")
    assert {point.language for point in points} >= {"all"}
    assert all(0 <= point.hit <= 1 and 0 <= point.false_recall <= 1 for point in points)
    for signal in SIGNALS:
        falls = [point.false_recall for point in points if (point.language, point.signal) == ("all", signal)]
        assert falls == sorted(falls, reverse=True)
        assert falls[0] == 1.0
    alone = silence_chart(points).words.says
    assert alone.startswith("Chosen on all probes to lose at most 2 points of the hit rate, a threshold lowers")
    assert "All conversations are in every curve" in alone
    chart = silence_chart(points, chosen(answers, "hashing", Terms()))
    assert "; chosen on one half, on the other: to " in chart.words.says


def test_signals_are_all_explained() -> None:
    assert list(ABOUT) == list(SIGNALS)


def test_silence_of_a_run_takes_its_embedder(operators: Path, tmp_path: Path) -> None:
    names = [word for name in CHOSEN for word in ("--conversation", name)]
    words = (*names, "--arm", "hybrid", "--embedder", "hashing", "--haystack", "0", "--out", "run")
    assert run_here("replay", operators, "--format", "lab", *words, cwd=tmp_path).returncode == 0
    done = run_here("study", "silence", "run", "--out", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "embedder hashing, which is for tests" in json.loads(done.stdout)["trial"]


def test_silence_command_fits_80_columns_and_names_the_haystack(operators: Path, tmp_path: Path) -> None:
    names = [word for name in CHOSEN for word in ("--conversation", name)]
    arms = ("--arm", "hybrid", "--arm", "vector")
    words = (*names, *arms, "--embedder", "hashing", "--haystack", "30", "--out", "out")
    done = run_here("study", "silence", operators, "--format", "lab", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("trial: embedder hashing")
    shown = " ".join(done.stdout.split())
    assert "operators: 4 conversations, labels recorded, 30 memories of other conversations added to each" in shown
    header = "signal AUROC rule silent below FalseRecall hit"
    assert sum(" ".join(line.split()) == header for line in lines) == sum("that need" in line for line in lines)
    assert all(f"{name}, {about}" in shown for name, about in ABOUT.items())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"conversation": CHOSEN[:1]}, NotComparable, "only one; add conversations"),
        ({"arms": ("recommended",)}, UnusableInput, "its earlier answers change later ones"),
    ],
)
def test_listen_unusable_input_raises(
    asked: ReplayRequest, change: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        collect(replace(asked, **change))  # type: ignore[arg-type]  # fields of the request


def test_listen_without_silent_turns_raises(asked: ReplayRequest, operators: Path, tmp_path: Path) -> None:
    golden = operators.parents[1] / "golden" / "operators"
    lines = [
        line
        for name in CHOSEN
        for line in (golden / f"{name}.jsonl").read_text().splitlines()
        if "needs_nothing" not in line
    ]
    (tmp_path / "needed.jsonl").write_text("\n".join(lines))
    with pytest.raises(UnusableInput, match="no probe needs nothing"):
        collect(replace(asked, golden=str(tmp_path / "needed.jsonl")))
