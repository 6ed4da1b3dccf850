"""A league over real sets: equal tokens, equal bytes, and arms that are not ranked."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from lab.api import replay, score
from lab.base.errors import CannotMeasure, NotARun, UnusableInput
from lab.replay.plan import plan_of
from lab.runs.directory import open_run
from lab.runs.request import ReplayRequest
from lab.studies.league import league as module
from lab.studies.league.league import League
from lab.studies.league.table import OVERALL
from tests.studies.league.conftest import ARMS, BUDGETS, run

pytestmark = pytest.mark.slow
Sets = tuple[str, str]
REPEATABLE = ("league.json", "league.csv", "league.md", "admission.json", "figures/curves.svg", "figures/front.svg")


def test_every_arm_stays_within_every_budget_on_every_set(league: League) -> None:
    rows = {(row.set, row.arm, row.budget): row for row in league.rows}
    assert len(rows) == 2 * len(ARMS) * (1 + len(BUDGETS))
    for (_, arm, budget), row in rows.items():
        if budget is not None:
            assert row.cells["tokens"].mean <= budget
            assert row.cells["whole"].mean <= row.cells["hit"].mean
            assert row.cells["CleanHit"].mean <= row.cells["hit"].mean <= row.cells["Present"].mean
        assert arm == "oracle" or row.cells["items"].mean > 0 or budget == min(BUDGETS)


def test_figures_as_configured_are_those_of_lab_score(league: League, operators: Path, tmp_path: Path) -> None:
    made = replay(operators, format="lab", arms=["hybrid"], out=tmp_path, embedder="hashing", limit=1)
    means = score(made).means["hybrid"]
    row = next(row for row in league.rows if (row.set, row.arm, row.budget) == ("one", "hybrid", None))
    for short, name in (("hit", "Success@6"), ("CleanHit", "CleanHit@6"), ("nDCG", "nDCG@6"), ("Present", "Present@6")):
        assert row.mean(short) == pytest.approx(means[name])
    for name in ("RepeatRate", "FalseRecall", "StaleRecall"):
        assert row.mean(name) == pytest.approx(means[name])


def test_mean_over_sets_gives_each_set_the_same_weight(league: League) -> None:
    for row in league.overall:
        assert row.set == OVERALL
        means = [one.mean("hit") for one in league.rows if (one.arm, one.budget) == (row.arm, row.budget)]
        assert row.mean("hit") == pytest.approx(sum(value for value in means if value is not None) / 2)


def test_upper_bound_is_shown_and_cannot_win(league: League) -> None:
    assert {one.arm: one.status for one in league.standings}["oracle"] == "upper bound"
    assert "oracle" in {row.arm for row in league.rows}
    for one in league.contests:
        assert one.winner != "oracle"
        assert "oracle" not in {other.arm for other in one.against}
        assert len(one.against) == len(ARMS) - 2
    assert {one.measure for one in league.contests} == {"whole", "hit", "CleanHit", "Present"}


def test_csv_and_json_have_the_same_figures(league: League, folder: Path) -> None:
    with (folder / "out" / "league.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    value = json.loads((folder / "out" / "league.json").read_text())
    assert len(rows) == len(value["rows"]) == len(league.rows) + len(league.overall)
    for row, other in zip(rows, value["rows"], strict=True):
        assert (row["set"], row["arm"]) == (other["set"], other["arm"])
        assert float(row["hit"]) == pytest.approx(other["measures"]["hit"]["mean"], abs=1e-6)
    with (folder / "out" / "times.csv").open(newline="") as file:
        times = list(csv.DictReader(file))
    assert {row["arm"] for row in times if row["embeds"] == "true"} == {"hybrid", "seed_full"}
    for row in times:
        if row["p50_with_embedding_ms"] and row["embeds"] == "true":
            assert float(row["p50_with_embedding_ms"]) > 0


def test_league_that_is_interrupted_ends_with_the_same_bytes(
    league: League, folder: Path, sets: Sets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    real = module.run_replay

    def interrupted(*given: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        return real(*given, **options)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(module, "run_replay", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, sets)
    assert not (tmp_path / "league.json").exists()
    monkeypatch.undo()
    run(tmp_path, sets, slides=True)
    for name in REPEATABLE:
        assert (tmp_path / name).read_bytes() == (folder / "out" / name).read_bytes(), name


def test_number_of_processes_changes_no_byte(league: League, folder: Path, sets: Sets, tmp_path: Path) -> None:
    run(tmp_path, sets, jobs=2, slides=True)
    for name in REPEATABLE:
        assert (tmp_path / name).read_bytes() == (folder / "out" / name).read_bytes(), name


def test_repeated_league_writes_the_same_page(league: League, folder: Path, sets: Sets) -> None:
    before = (folder / "out" / "league.html").read_bytes()
    run(folder / "out", sets, slides=True)
    # The times were measured once and kept.
    assert (folder / "out" / "league.html").read_bytes() == before


@pytest.mark.usefixtures("own_systems")
def test_arms_that_cannot_count_are_listed_with_the_reason(sets: Sets, tmp_path: Path) -> None:
    league = run(tmp_path, sets[:1], ("bm25", "plain", "mute", "failing", "modelled"))
    status = {one.arm: (one.status, one.reason) for one in league.standings}
    assert status["bm25"] == status["plain"] == ("ranked", "")
    assert status["mute"][0] == "refused"
    assert status["mute"][1].endswith("relevant: the memory with the words of the prompt is not in the injected text")
    assert status["failing"][0] == "failed"
    assert "one: " in status["failing"][1]
    assert "recalls of failing" in status["failing"][1]
    assert status["modelled"] == ("needs a model", "it needs a language model, and is given none")
    assert {row.arm for row in league.rows} == {"bm25", "plain"}
    assert [one.arm for one in league.refused] == ["mute", "failing"]
    page = (tmp_path / "league.html").read_text()
    assert "mute is refused" in page
    assert not (tmp_path / "runs" / "one" / "mute").exists()


def test_captured_league_leaves_out_arms_that_capture_nothing(sets: Sets, tmp_path: Path) -> None:
    league = run(tmp_path, sets[:1], ("bm25", "verbatim", "seed_full"), source="captured")
    status = {one.arm: one.status for one in league.standings}
    assert status == {"bm25": "left out", "verbatim": "ranked", "seed_full": "ranked"}
    growth = {row.arm: row.mean("StoreGrowth") for row in league.rows if row.budget is None}
    assert growth["verbatim"] == pytest.approx(1.0, abs=0.02)
    assert growth["seed_full"] < growth["verbatim"]  # type: ignore[operator]  # neither is None


@pytest.mark.usefixtures("own_systems")
def test_league_without_an_arm_that_counts_fails(sets: Sets, tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match=r"no arm can be replayed .*mute: .*relevant"):
        run(tmp_path, sets[:1], ("mute",))


def test_set_without_judgements_is_refused(tmp_path: Path) -> None:
    recording = tmp_path / "a.jsonl"
    lines = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": "a"},
        {"kind": "session", "session": "s", "time": "2026-03-01T09:00:00+00:00"},
        {"kind": "turn", "turn": "t", "role": "user", "text": "good morning"},
    ]
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UnusableInput, match=r"set 'a': .* has no probe with relevant memories"):
        run(tmp_path / "out", [f"{recording}:lab"])


def test_folder_with_other_files_is_refused(sets: Sets, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UnusableInput, match="out: has files and is not the folder of a league"):
        run(tmp_path / "out", sets, ("none",))
    assert [child.name for child in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_unusable_option_of_a_set_names_the_set(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="set 'one': unknown recall turns 'al'"):
        run(tmp_path / "out", ["one=shipped:operators:limit=1:recall-turns=al"], ("none",))


def test_folder_of_a_league_is_no_run_and_names_one(league: League, folder: Path) -> None:
    with pytest.raises(NotARun, match=r"it is a league, whose runs are runs/SET/ARM, such as .*out/runs/one/bm25"):
        open_run(folder / "out")


def test_request_of_the_runs_can_be_remade(league: League, folder: Path) -> None:
    opened = open_run(folder / "out" / "runs" / "one" / "seed_full")
    assert opened.arms == ["seed_full", "seed_full@64", "seed_full@256"]
    assert plan_of(opened).request == ReplayRequest.of_manifest(opened.manifest.asked)


def long_set(folder: Path) -> Path:
    """A set whose only relevant memory is longer than what rsclaw shows of it."""
    text = " ".join(f"Sentence {number} on the lamp of the lighthouse keeper is rather long." for number in range(9))
    recording = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": "a"},
        {"kind": "session", "session": "s", "time": "2026-03-01T09:00:00+00:00"},
        {"kind": "turn", "turn": "t1", "role": "user", "text": "I will tell you about the lamp of the lighthouse."},
        {"kind": "memory", "text": text},
        {
            "kind": "turn",
            "turn": "t2",
            "role": "user",
            "text": "What do you know of the lamp of the lighthouse keeper?",
        },
    ]
    probe = {
        "kind": "probe",
        "turn": "a/s/t2",
        "type": "update",
        "reason": "said",
        "relevant": [{"memory": "a/s/t1#0", "grade": 2, "reason": "said"}],
    }
    for name, lines in (("datasets", recording), ("golden", [probe])):
        (folder / name / "long").mkdir(parents=True)
        (folder / name / "long" / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "datasets" / "long"


def test_hit_on_a_clipped_text_is_no_whole_hit(tmp_path: Path) -> None:
    league = run(tmp_path / "out", [f"{long_set(tmp_path)}:lab"], ("rsclaw", "rsclaw_text", "hybrid"))
    rows = {(row.arm, row.budget): row for row in league.rows}
    for arm, whole in (("rsclaw", 0.0), ("rsclaw_text", 1.0), ("hybrid", 1.0)):
        assert (rows[arm, 256].mean("hit"), rows[arm, 256].mean("whole")) == (1.0, whole), arm
    assert "whole" not in rows["rsclaw", None].cells
    opened = open_run(tmp_path / "out" / "runs" / "long" / "rsclaw_text")
    assert {arm.system for arm in opened.manifest.resolved.arms} == {"rsclaw"}
    assert [arm.tokens for arm in plan_of(opened).arms[1:]] == list(BUDGETS)  # type: ignore[attr-defined]  # arms under a budget
