"""Scores of complete runs: a small one computed by hand, then public sets with known figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from lab.base.errors import CannotMeasure, Incomplete, UnusableInput
from lab.compare.paired import compare_arms
from lab.measures.judged import judged_shares
from lab.measures.score import more_measures, score_and_write, score_run, summarise
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.scores import Scores, read_gold

ARMS = ("recency", "none", "oracle", "tier_first_v1")
A, B, C, D, E = "desk/s01/t01#0", "desk/s01/t01#1", "desk/s01/t03#0", "desk/s01/t04#0", "desk/s02/t01#0"


def _lines(*values: dict[str, Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def _head(name: str) -> dict[str, Any]:
    return {"kind": "recording", "schema": "lab.recording.v1", "conversation": name}


def _session(name: str, day: int, scope: str) -> dict[str, Any]:
    return {"kind": "session", "session": name, "time": f"2026-03-{day:02}T09:00:00+00:00", "scope": scope}


def _turn(name: str, role: str) -> dict[str, Any]:
    return {"kind": "turn", "turn": name, "role": role, "text": f"words of {name}"}


def _memory(label: str, scope: str) -> dict[str, Any]:
    return {"kind": "memory", "text": f"a note, {label} in {scope}", "importance_label": label, "scope": scope}


def _probe(kind: str, where: dict[str, str], relevant: dict[str, int], *unwanted: str) -> dict[str, Any]:
    return {
        "kind": "probe",
        **where,
        "type": kind,
        "relevant": [{"memory": key, "grade": grade} for key, grade in relevant.items()],
        "forbidden": [{"memory": key} for key in unwanted],
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Two short conversations; the recency arm injects the two newest memories, so values can be counted by hand."""
    folder = tmp_path_factory.mktemp("score")
    recordings, golden = folder / "datasets" / "tiny", folder / "golden" / "tiny"
    recordings.mkdir(parents=True)
    golden.mkdir(parents=True)
    (recordings / "desk.jsonl").write_text(
        _lines(
            _head("desk"),
            _session("s01", 1, "shop"),
            _turn("t01", "user"),
            _memory("must_remember", "shop"),  # A
            _memory("nice_to_have", "shop"),  # B
            _turn("t02", "assistant"),
            _turn("t03", "user"),
            _memory("nice_to_have", "global"),  # C
            _turn("t04", "assistant"),
            _memory("unknown", "yard"),  # D
            _turn("t05", "user"),
            _session("s02", 2, "yard"),
            _turn("t01", "user"),
            _memory("must_remember", "yard"),  # E
            _turn("t02", "user"),
            _turn("t03", "assistant"),
            _turn("t04", "user"),
        )
    )
    (golden / "desk.jsonl").write_text(
        _lines(
            # D does not exist yet: no arm can return it, and it still counts.
            _probe("rule", {"turn": "desk/s01/t03"}, {D: 1}),
            _probe("rule", {"turn": "desk/s01/t05"}, {C: 2, A: 1}, D),
            _probe("fact", {"turn": "desk/s02/t01"}, {B: 1}),
            _probe("silent", {"turn": "desk/s02/t02"}, {}, C),
            _probe("fact", {"id": "after", "conversation": "desk", "query": "what now?"}, {E: 1}),
        )
    )
    (recordings / "shed.jsonl").write_text(
        _lines(
            _head("shed"),
            _session("s01", 3, "yard"),
            _turn("t01", "user"),
            _memory("nice_to_have", "yard"),
            _turn("t02", "user"),
        )
    )
    (golden / "shed.jsonl").write_text(_lines(_probe("rule", {"turn": "shed/s01/t02"}, {"shed/s01/t01#0": 1})))
    asked = ReplayRequest(str(recordings), "lab", ARMS, max_items=2, embedder="hashing")
    return run_replay(asked, folder / "run").run


@pytest.fixture(scope="module")
def scores(run: RunDirectory) -> Scores:
    """The scores of the run."""
    return score_and_write(run)


@pytest.fixture(scope="module")
def summary(run: RunDirectory, scores: Scores) -> dict[str, Any]:
    """The means of the run."""
    return summarise(scores, read_gold(run), run.arms)


def test_summarise_n_is_equal_for_all_arms(summary: dict[str, Any]) -> None:
    # Six probes, one without gold.
    assert {arm: one["n"] for arm, one in summary["arms"].items()} == dict.fromkeys(ARMS, 5)


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        (
            "recency",
            {
                # Ranks of the first gold by probe: never, 2, 3, 1, 1.
                "Success@1": 2 / 5,
                "Success@3": 4 / 5,
                "R@3": (0 + 1 / 2 + 1 + 1 + 1) / 5,
                "R@5": (0 + 1 + 1 + 1 + 1) / 5,
                "AllGold@3": (0 + 0 + 1 + 1 + 1) / 5,
                "AllGold@5": 4 / 5,
                # One probe has no gold.
                "FalseRecall": 1.0,
                "FalseItems": 2.0,
                "P@1": 2 / 5,
                "RR@3": (0 + 1 / 2 + 1 / 3 + 1 + 1) / 5,
                # Visible nice gold: C (injected), B (rank 3), the shed's (injected).
                "GoldNice@2": 2 / 3,
                # D is injected where it is misleading, C is not.
                "Forbidden@2": 1 / 2,
                # Desk: – 0 1 ½ 1 after its first selection; shed has one selection alone.
                "RepeatRate": (0 + 1 + 1 / 2 + 1) / 4,
                # The last turn is not a probe.
                "RepeatRate(probes)": (0 + 1 + 1 / 2) / 3,
                "Jaccard": (0 + 0 + 1 + 1 / 3 + 1 + 0) / 6,
                "NicePresence": (1 + 1 + 1 + 0 + 0 + 1) / 6,
                # D, of the yard, in a turn of the shop.
                "WrongScope": (0 + 1 / 2 + 0 + 0 + 0 + 0) / 6,
                "AnyWrongScope": 1 / 8,
                # Desk: – 2/2 4/4 4/6 5/8 5/10; shed: – 1/1.
                "DistinctShare": (1 + 1 + 4 / 6 + 5 / 8 + 5 / 10 + 1) / 6,
                "StaleRecall": None,
                "Future": 0.0,
                "InjectedItems": (0 + 2 + 2 + 2 + 2 + 2 + 0 + 1) / 8,
                # D comes back in the last four turns of the desk.
                "LongestStreak": (4 + 1) / 2,
            },
        ),
        (
            "none",
            {
                "Success@50": 0.0,
                "R@5": 0.0,
                "GoldNice@2": 0.0,
                "Forbidden@2": 0.0,
                "RepeatRate": None,
                "RepeatDominance": None,
                "Jaccard": None,
                "NicePresence": 0.0,
                "WrongScope": None,
                "AnyWrongScope": 0.0,
                "FalseRecall": 0.0,
                "Duplicates": None,
                "InjectedItems": 0.0,
                "InjectedChars": 0.0,
                "InjectedTokens": 0.0,
                "LongestStreak": None,
            },
        ),
        (
            "oracle",
            # Everything that exists.
            {"Success@1": 4 / 5, "R@3": 4 / 5, "RR@1": 4 / 5, "nDCG@3": 4 / 5, "GoldNice@2": 1.0, "Forbidden@2": 0.0},
        ),
    ],
)
def test_summarise_means_equal_values_by_hand(
    summary: dict[str, Any], arm: str, expected: dict[str, float | None]
) -> None:
    result = summary["arms"][arm]["measures"]
    assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_score_run_additional_measures_are_not_written(run: RunDirectory, scores: Scores) -> None:
    before = (run.path / "scores.parquet").read_bytes()
    asked = more_measures(["R@4", "P(rel=2)@2", "R@3", "RR(rel=2)@60", "RepeatRate", "nDCG(rel=2)@3", "AP"], [2])
    assert asked == ("R@4", "P(rel=2)@2", "RR(rel=2)@60")
    result = score_run(run, asked)
    assert (run.path / "scores.parquet").read_bytes() == before
    means = summarise(result, read_gold(run), run.arms)["arms"]["recency"]["measures"]
    # Ranks of the first gold by probe: never, 2, 3, 1, 1; gold of grade 2 is second where it is relevant.
    assert means["R@4"] == pytest.approx((0 + 1 + 1 + 1 + 1) / 5)
    assert means["P(rel=2)@2"] == pytest.approx((0 + 1 / 2 + 0 + 0 + 0) / 5)
    assert means["RR(rel=2)@60"] is None
    assert set(result.measures) == {*scores.measures, *asked}


def test_summarise_unseen_harm_has_a_bound(summary: dict[str, Any]) -> None:
    unseen = {arm: one["unseen"] for arm, one in summary["arms"].items()}
    # One item is never beside another.
    assert set(unseen["recency"]) == {"HarmAlone@2", "HarmBeside@1"}
    harms = {f"{name}@{k}" for name in ("Forbidden", "HarmAlone", "HarmBeside") for k in (1, 2)}
    assert set(unseen["none"]) == {"AnyWrongScope", "FalseRecall", *harms}
    # With a rate of 31 %, eight turns show none once in twenty times.
    assert unseen["none"]["AnyWrongScope"] == {"n": 8, "at_most": pytest.approx(0.3123, abs=1e-4)}
    assert (1 - unseen["none"]["AnyWrongScope"]["at_most"]) ** 8 == pytest.approx(0.05)
    assert unseen["none"]["FalseRecall"]["n"] == 1


def test_injected_chars_is_the_length_of_the_block(run: RunDirectory, scores: Scores) -> None:
    chars = {
        (row["arm"], row["turn"]): float(row["chars"])
        for name in run.conversations
        for row in parquet.read_table(run.receipts(name)).to_pylist()
        if row["is_recall_turn"]
    }
    assert {(score.arm, score.at): score.value for score in scores if score.measure == "InjectedChars"} == chars
    assert max(chars.values()) > len("a note, must_remember in shop")


def test_score_run_cutoff_beyond_the_items_of_an_arm_is_missing(summary: dict[str, Any]) -> None:
    tiered, untiered = (summary["arms"][arm]["measures"] for arm in ("tier_first_v1", "recency"))
    assert {name: tiered[name] for name in ("R@3", "Success@6", "nDCG@50")} == dict.fromkeys(
        ("R@3", "Success@6", "nDCG@50")
    )
    assert tiered["R@1"] is not None
    assert untiered["nDCG@50"] is not None


def test_summarise_means_equal_those_of_the_file(run: RunDirectory, summary: dict[str, Any]) -> None:
    table = parquet.read_table(run.path / "scores.parquet")
    assert table.column_names == ["arm", "conversation", "at", "measure", "value", "slices"]
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    measures = set()
    for row in table.to_pylist():
        measures.add(row["measure"])
        if row["value"] is not None:
            values[row["arm"], row["measure"]].append(row["value"])
    for arm in ARMS:
        again = {name: sum(result) / len(result) if (result := values[arm, name]) else None for name in measures}
        assert summary["arms"][arm]["measures"] == pytest.approx(again, abs=1e-12)


def test_write_scores_includes_the_slices_of_probes(run: RunDirectory) -> None:
    score_and_write(run)
    rows = parquet.read_table(run.path / "scores.parquet").to_pylist()
    slices = {row["at"]: row["slices"] for row in rows if row["slices"]}
    assert {at: json.loads(text) for at, text in slices.items()} == {
        "desk/s01/t03": {"type": "rule"},
        "desk/s01/t05": {"type": "rule"},
        "desk/s02/t01": {"type": "fact"},
        "desk/s02/t02": {"type": "silent"},
        "after": {"type": "fact"},
        "shed/s01/t02": {"type": "rule"},
    }


def test_score_and_write_replaces_only_a_differing_file(run: RunDirectory, scores: Scores) -> None:
    file = run.path / "scores.parquet"
    score_and_write(run)
    before, written = file.read_bytes(), file.stat().st_mtime_ns
    assert list(score_and_write(run)) == list(scores)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, written)
    file.unlink()
    assert list(score_and_write(run)) == list(scores)
    assert file.read_bytes() == before


def test_score_run_writes_nothing(run: RunDirectory, scores: Scores) -> None:
    file = run.path / "scores.parquet"
    kept = file.read_bytes()
    file.unlink()
    assert list(score_run(run)) == list(scores)
    compare_arms(run, "recency", "none")
    assert not file.exists()
    file.write_bytes(kept)


@pytest.mark.process
def test_score_does_not_import_heavy_packages(run: RunDirectory, tmp_path: Path) -> None:
    """Importing pandas alone takes as long as scoring thousands of turns."""
    work = f"""if True:
        import sys
        from pathlib import Path
        from lab.measures.score import more_measures, score_run, summarise
        from lab.runs.scores import read_gold
        from lab.runs.directory import open_run
        run = open_run(Path({str(run.path)!r}))
        summarise(score_run(run), read_gold(run), run.arms)
        heavy = {{"pandas", "scipy", "torch", "lancedb", "pyarrow.compute", "lab.systems.openclaw.config.settings"}}
        print(heavy & {{*sys.modules}})
    """
    done = subprocess.run([sys.executable, "-c", work], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_summarise_slices_are_subgroups_and_conversations(summary: dict[str, Any]) -> None:
    counts = {
        name: {value: {arm["n"] for arm in arms.values()} for value, arms in values.items()}
        for name, values in summary["slices"].items()
    }
    # Probes without gold do not count, so their type is not a slice.
    assert counts == {"type": {"rule": {3}, "fact": {2}}, "conversation": {"desk": {4}, "shed": {1}}}


def test_summarise_absent_condition_is_a_slice(run: RunDirectory, scores: Scores) -> None:
    gold = {
        probe: judged._replace(slices={"condition": "adjacent" if judged.grades else "absent"})
        for probe, judged in read_gold(run).items()
    }
    assert set(summarise(scores, gold, run.arms)["slices"]["condition"]) == {"absent", "adjacent"}


@pytest.mark.parametrize("name", ["type", "conversation"])
@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("measure", ["Success@1", "R@1", "P@1", "nDCG@1", "RR@1"])
def test_summarise_slices_add_up(summary: dict[str, Any], name: str, arm: str, measure: str) -> None:
    whole = summary["arms"][arm]
    parts = [arms[arm] for arms in summary["slices"][name].values()]
    assert sum(part["n"] for part in parts) == whole["n"]
    total = sum(part["n"] * part["measures"][measure] for part in parts)
    assert total == pytest.approx(whole["n"] * whole["measures"][measure], abs=1e-12)


def test_summarise_conversation_slices_include_turns(summary: dict[str, Any]) -> None:
    by_conversation = {value: arms["recency"]["measures"] for value, arms in summary["slices"]["conversation"].items()}
    assert {name: one["LongestStreak"] for name, one in by_conversation.items()} == {"desk": 4.0, "shed": 1.0}
    assert {name: one["InjectedItems"] for name, one in by_conversation.items()} == {"desk": 10 / 6, "shed": 1 / 2}


def test_score_run_missing_conversation_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    unfinished = RunDirectory(tmp_path, run.manifest)
    unfinished.receipts("desk").parent.mkdir()
    unfinished.receipts("desk").write_bytes(run.receipts("desk").read_bytes())
    with pytest.raises(Incomplete, match="1 of 2 conversations are missing"):
        score_run(unfinished)
    assert not (tmp_path / "scores.parquet").exists()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"relevant": ...}, "has no field 'relevant'"),
        ({"relevant": [{"memory": "m"}]}, "has no field 'grade'"),
        ({"relevant": 7}, "field 'relevant': expected a list, found a number"),
        ({"forbidden": None}, "field 'forbidden': expected a list, found null"),
        ({"irrelevant": "m"}, "field 'irrelevant': expected a list, found a string"),
        ({"slices": 3}, "field 'slices': expected an object, found a number"),
    ],
)
def test_read_gold_damaged_file_names_the_line(
    run: RunDirectory,
    tmp_path: Path,
    resealed: Callable[[Path], RunDirectory],
    changed: dict[str, Any],
    problem: str,
) -> None:
    good = {"probe": "x", "conversation": "desk", "relevant": [], "forbidden": [], "slices": {}}
    line = {name: value for name, value in (good | changed).items() if value is not ...}
    path = tmp_path / "golden.jsonl"
    path.write_bytes((run.path / "golden.jsonl").read_bytes() + json.dumps(line).encode() + b"\n")
    (tmp_path / "manifest.json").write_bytes((run.path / "manifest.json").read_bytes())
    number = len(path.read_text("utf-8").splitlines())
    with pytest.raises(CannotMeasure, match=rf"golden\.jsonl:{number}: {problem}; delete it and run the replay again"):
        read_gold(resealed(tmp_path))


def test_judged_shares_count_returned_memories_only(run: RunDirectory) -> None:
    rows = [
        row
        for name in run.conversations
        for row in parquet.read_table(run.receipts(name), columns=["arm", "turn", "item_key"]).to_pylist()
    ]
    judged = {row["turn"]: set(row["item_key"][1::2]) for row in rows if row["arm"] == "recency"}
    for result in judged_shares(run, judged, set(), 2):
        own = [row["item_key"][:2] for row in rows if row["arm"] == result.arm and row["turn"] in judged]
        seen = [key in judged[row["turn"]] for row in rows if row["arm"] == result.arm for key in row["item_key"][:2]]
        assert (result.probes, result.returned, result.judged) == (len(own), sum(map(len, own)), sum(seen))
        assert result.returned < 2 * result.probes
    with pytest.raises(UnusableInput, match="has no probe of this golden set"):
        judged_shares(run, {"nowhere": set()}, set(), 2)
