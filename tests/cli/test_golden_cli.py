"""``lab golden`` commands: pool, judge without a terminal, lint with a run, diff, split, agree."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.base.errors import UnusableInput
from lab.cli.golden_tables import emit_run
from lab.cli.main import app
from lab.golden.files import golden_bytes, read_golden
from lab.golden.judging import Decision, open_judging
from lab.golden.model import marks
from lab.golden.pool import read_pool
from lab.recordings.readers import not_among
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "golden" / "operators"
NAMES = ("harbor-release", "two-desks")


def _run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["golden", *map(str, arguments)])
    if done.exception:
        raise done.exception
    return done.stdout


def _json(*arguments: object) -> Any:
    return json.loads(_run(*arguments, "--json"))


@pytest.fixture(scope="module")
def place(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shipped conversations with their gold, as a set of one's own: a pool, and a judge's work on it."""
    place = tmp_path_factory.mktemp("mine")
    for kind in ("datasets", "golden"):
        (place / kind / "mine").mkdir(parents=True)
        for name in NAMES:
            data = (operators.parents[1] / kind / "operators" / f"{name}.jsonl").read_bytes()
            (place / kind / "mine" / f"{name}.jsonl").write_bytes(data)
    pool = place / "pool.jsonl"
    result = _json(
        *("pool", place / "datasets" / "mine", "--format", "lab", "--out", pool, "--turns", 6, "--scope", "recorded"),
        *("--embedder", "hashing", "--arm", "hybrid", "--arm", "recency"),
    )
    assert (result["turns"], result["conversations"], result["items"] > 6 * 6) == (6, 2, True)
    judging = open_judging(read_pool(pool), place / "gold.jsonl", "me")
    for turn in judging.pool.turns[:4]:
        for key in turn.keys[:2]:
            judging.decide(Decision(turn.turn, "grade", key, "2"))
        judging.decide(Decision(turn.turn, "rest", refused=tuple(judging.sheet(turn.turn).unjudged[1:])))
        judging.decide(Decision(turn.turn, "done", value="todo"))
    return place


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    recordings = str(place / "datasets" / "mine")
    request = ReplayRequest(recordings, "lab", ("hybrid", "recency"), scope="recorded", embedder="hashing")
    return run_replay(request, place / "run").run.path


def test_pool_is_not_overwritten(place: Path) -> None:
    with pytest.raises(UnusableInput, match="already exists with other content"):
        _run(
            *("pool", place / "datasets" / "mine", "--format", "lab", "--out", place / "pool.jsonl"),
            *("--arm", "recency", "--embedder", "hashing"),
        )


def test_pool_of_too_few_memories_says_which_option_takes_them(place: Path, tmp_path: Path) -> None:
    recordings = place / "datasets" / "mine"
    with pytest.raises(UnusableInput, match=r"with 1000 memories or more: nothing to pool; a smaller --depth pools"):
        _run("pool", recordings, "--format", "lab", "--out", tmp_path / "p.jsonl", "--depth", 999, "--arm", "recency")


def test_pool_inside_the_recordings_is_refused(place: Path) -> None:
    recordings = place / "datasets" / "mine"
    with pytest.raises(UnusableInput, match="would later be read as one of the recordings"):
        _run("pool", recordings, "--format", "lab", "--out", recordings / "pool.jsonl", "--arm", "recency")
    with pytest.raises(UnusableInput, match="would later be read as one of the recordings"):
        _run("judge", place / "pool.jsonl", "--out", recordings / "gold.jsonl", "--json")
    assert sorted(path.stem for path in recordings.iterdir()) == sorted(NAMES)
    not_among(recordings, "lab", recordings / "pool.txt")


def test_judge_needs_a_terminal_and_json_prints_progress(place: Path) -> None:
    command = ("judge", place / "pool.jsonl", "--out", place / "gold.jsonl")
    found = _json(*command)
    assert {name: found[name] for name in ("turns", "done", "open", "unjudged")} == {
        "turns": 6,
        "done": 4,
        "open": 2,
        "unjudged": 4,
    }
    with pytest.raises(UnusableInput, match="needs a terminal"):
        _run(*command)
    with pytest.raises(UnusableInput, match="belongs to judge 'me'"):
        _run(*command, "--judge", "ann", "--json")


def test_lint_with_run_shows_judged_share(place: Path, run: Path) -> None:
    found = _json("lint", place / "gold.jsonl", "--recordings", place / "datasets" / "mine", "--run", run)
    assert found["power"]["probes"] == 4
    judged = {one["arm"]: one for one in found["judged"]}
    done = read_pool(place / "pool.jsonl").turns[:4]
    # What was pooled was judged, but for one memory a turn that was left. The run recalls at open turns, too.
    for arm in ("hybrid", "recency"):
        returned = [(turn, item.memory) for turn in done for item in turn.items if arm in item.arms]
        assert (judged[arm]["probes"], judged[arm]["returned"]) == (4, len(returned))
        assert len(returned) - judged[arm]["judged"] == sum(key == turn.keys[2] for turn, key in returned)
    (place / "gold.judging").rename(place / "away")
    try:
        without = _json("lint", place / "gold.jsonl", "--recordings", place / "datasets" / "mine", "--run", run)
    finally:
        (place / "away").rename(place / "gold.judging")
    # The golden set lists the memories of grade 0, too; the side file only adds those of older versions.
    assert without["judged"] == found["judged"]
    older = place / "older.jsonl"
    older.write_bytes(golden_bytes(replace(probe, irrelevant=()) for probe in read_golden(place / "gold.jsonl").probes))
    lint = ("lint", older, "--recordings", place / "datasets" / "mine", "--run", run)
    fewer = sum(one["judged"] for one in _json(*lint)["judged"])
    shutil.copyfile(place / "gold.judging", place / "older.judging")
    assert fewer < sum(one["judged"] for one in found["judged"])
    assert _json(*lint)["judged"] == found["judged"]
    for name in ("older.jsonl", "older.judging"):
        (place / name).unlink()


def test_effect_above_1_is_printed_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    for detectable, said in ((1.2, "(80 % power): none"), (0.5, "(80 % power): ±0.500")):
        measured = {"measure": "Success@6", "changed": 0.5, "probes": 9, "conversations": 2, "detectable": detectable}
        emit_run({"measured": measured})
        assert said in " ".join(capsys.readouterr().out.split())


def test_lint_counts_many_judgements_without_reason(place: Path) -> None:
    arguments = ("lint", place / "gold.jsonl", "--recordings", place / "datasets" / "mine")
    bare = [line for line in _json(*arguments)["warnings"] if "gives no reason for" in line]
    text = " ".join(_run(*arguments).split())
    assert f"warning: {len(bare)} judgements give no reason (--json lists them" in text
    assert (len(bare) > 3, "gives no reason for" in text) == (True, False)
    assert "power: none below 6 conversations; judge turns of more conversations" in text


def test_lint_measures_power_between_two_arms(place: Path, run: Path) -> None:
    gold = place / "golden" / "mine"
    arms = ("--baseline", "recency", "--candidate", "hybrid")
    found = _json("lint", gold, "--run", run, *arms)
    assert found["measured"]["conversations"] == 2
    assert 0 < found["measured"]["changed"] < 1
    text = _run("lint", gold, "--run", run, *arms)
    # Two conversations are too few for an interval, and so for a minimum detectable effect.
    assert "Judged@6" in text
    with pytest.raises(UnusableInput, match="give all three"):
        _run("lint", gold, "--run", run, "--baseline", "recency")
    with pytest.raises(UnusableInput, match="has no probe of this golden set"):
        _run("lint", GOLDEN / "tea-mountain.jsonl", "--run", run)


def test_diff_of_different_sets_exits_1(place: Path, tmp_path: Path) -> None:
    gold = place / "golden" / "mine"
    assert "0 probes added, 0 removed; 0 changes" in _run("diff", gold, gold)
    some = tmp_path / "some.jsonl"
    some.write_bytes(golden_bytes(read_golden(gold).probes[1:]))
    result = CliRunner().invoke(app, ["golden", "diff", str(gold), str(some)])
    assert (result.exit_code, result.stderr) == (1, "")
    assert "0 probes added, 1 removed; 0 changes in 0 probes; 0 of another type" in result.stdout
    done = CliRunner().invoke(app, ["golden", "diff", str(gold), str(some), "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["removed"] == [read_golden(gold).probes[0].id]


def test_split_writes_two_valid_sets(place: Path, tmp_path: Path) -> None:
    result = _json("split", place / "golden" / "mine", "--out", tmp_path / "halves")
    assert [len(result[name]["conversations"]) for name in ("dev", "test")] == [1, 1]
    before = {path.name: path.read_bytes() for path in (tmp_path / "halves").iterdir()}
    assert "dev.jsonl" in _run("split", place / "golden" / "mine", "--out", tmp_path / "halves")
    assert {path.name: path.read_bytes() for path in (tmp_path / "halves").iterdir()} == before
    for name in before:
        found = _json("lint", tmp_path / "halves" / name, "--recordings", place / "datasets" / "mine")
        assert (found["errors"], found["probes"]) == ([], result[Path(name).stem]["probes"])
    (tmp_path / "halves" / "test.jsonl").write_bytes(b"")
    (tmp_path / "halves" / "dev.jsonl").unlink()
    # Never half of it: a new dev.jsonl beside an old test.jsonl could have conversations in common. Nor into the set
    # itself, which would hold every probe twice.
    for folder in (tmp_path / "halves", place / "golden" / "mine"):
        names = sorted(path.name for path in folder.iterdir())
        with pytest.raises(UnusableInput, match="already holds other files"):
            _run("split", place / "golden" / "mine", "--out", folder)
        assert sorted(path.name for path in folder.iterdir()) == names


def test_split_by_a_slice_writes_one_set_for_each_value(place: Path, tmp_path: Path) -> None:
    gold = read_golden(place / "golden" / "mine")
    result = _json("split", place / "golden" / "mine", "--out", tmp_path / "types", "--by", "type")
    assert set(result) == {probe.slices["type"] for probe in gold.probes if "type" in probe.slices}
    for value in result:
        part = read_golden(tmp_path / "types" / f"{value}.jsonl")
        assert part.probes == tuple(probe for probe in gold.probes if probe.slices.get("type") == value)
    with pytest.raises(UnusableInput, match="no probe has this slice; did you mean 'type'"):
        _run("split", place / "golden" / "mine", "--out", tmp_path / "other", "--by", "typ")


def test_agree_with_three_judges_compares_pairs(place: Path, tmp_path: Path) -> None:
    gold = place / "golden" / "mine"
    second, third = tmp_path / "second.jsonl", tmp_path / "third.jsonl"
    probes = read_golden(gold).probes
    second.write_bytes(golden_bytes(probes))
    third.write_bytes(golden_bytes(probes[:-1]))
    found = _json("agree", gold, second, third)
    assert [(one["probes"], one["alone"]) for one in found] == [
        (len(probes), [0, 0]),
        (len(probes) - 1, [1, 0]),
        (len(probes) - 1, [1, 0]),
    ]
    assert [one["agreement"][0]["kappa"] for one in found] == [1, 1, 1]
    with pytest.raises(UnusableInput, match="the same golden set was given twice"):
        _run("agree", gold, gold)


def test_agree_with_pool_counts_its_memories(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(golden_bytes(read_golden(place / "gold.jsonl").probes[::-1]))
    text = _run("agree", place / "gold.jsonl", other, "--pool", place / "pool.jsonl")
    assert "4 probes judged by both" in text
    assert "Pairs: the memories of" in " ".join(text.split())
    assert "more not in the pool" not in text
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(golden_bytes(read_golden(place / "golden" / "mine").probes))
    pooled = {turn.turn for turn in read_pool(place / "pool.jsonl").turns}
    others = sum(probe.id not in pooled for probe in read_golden(copy).probes)
    text = _run("agree", place / "golden" / "mine", copy, "--pool", place / "pool.jsonl")
    assert f"(by one only: 0 and 0; not in the pool: {others})" in " ".join(text.split())


def test_recordings_in_other_format_ask_for_format(tmp_path: Path, place: Path) -> None:
    history = tmp_path / "history.md"
    history.write_text("# aider chat started at 2024-08-05 19:33:02\n\n#### hello\n", "utf-8")
    other = tmp_path / "other.jsonl"
    other.write_bytes((place / "gold.jsonl").read_bytes())
    with pytest.raises(UnusableInput, match=r"not JSON.*give --format"):
        _run("agree", place / "gold.jsonl", other, "--recordings", history)
    with pytest.raises(UnusableInput, match="give them with --recordings and --format"):
        _run("agree", other, place / "gold.jsonl")


def test_pool_with_probes_of_takes_turns_of_first_judge(place: Path, tmp_path: Path) -> None:
    arguments = ("pool", place / "datasets" / "mine", "--format", "lab", "--out", tmp_path / "again.jsonl")
    result = _json(*arguments, "--probes-of", place / "gold.jsonl", "--arm", "recency", "--embedder", "hashing")
    judged = {probe.turn for probe in read_golden(place / "gold.jsonl").probes}
    again = read_pool(tmp_path / "again.jsonl")
    assert (result["turns"], {turn.turn for turn in again.turns}) == (4, judged)
    # What the first judge graded is not offered again; the side file is not needed for that.
    shutil.copyfile(place / "gold.jsonl", tmp_path / "gold.jsonl")
    arguments = ("pool", place / "datasets" / "mine", "--format", "lab", "--out", tmp_path / "new.jsonl")
    arguments = (*arguments, "--probes-of", place / "gold.jsonl", "--arm", "recency", "--embedder", "hashing")
    fewer = _json(*arguments, "--unjudged", tmp_path / "gold.jsonl")
    known = {probe.id: set(marks(probe)) for probe in read_golden(place / "gold.jsonl").probes}
    expected = [(turn.turn, key) for turn in again.turns for key in turn.keys if key not in known[turn.turn]]
    new = read_pool(tmp_path / "new.jsonl")
    assert [(turn.turn, key) for turn in new.turns for key in turn.keys] == expected
    assert 0 < fewer["items"] < result["items"]


def test_pool_where_everything_is_judged_is_refused(place: Path, tmp_path: Path) -> None:
    again = read_pool(place / "pool.jsonl").turns[:1]
    judged = {turn.turn: set(turn.keys) for turn in again}
    left = read_pool(place / "pool.jsonl").without(judged, tmp_path)
    assert [turn.turn for turn in left.turns] == [turn.turn for turn in read_pool(place / "pool.jsonl").turns[1:]]
    with pytest.raises(UnusableInput, match="judges every pooled memory; nothing is left to judge"):
        left.without({turn.turn: turn.keys for turn in left.turns}, tmp_path)
