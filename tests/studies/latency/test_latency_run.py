"""A small latency measurement on real LanceDB tables: its results, resuming, and refused arguments."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure, OtherArguments, UnusableInput
from lab.cli.latency import study_of
from lab.cli.study import conclude
from lab.runs.request import ReplayRequest
from lab.studies.latency import run
from lab.studies.latency.bench import Sample
from lab.studies.latency.request import LatencyRequest, plan_latency
from lab.studies.latency.run import Folder, read_cell, run_latency
from lab.studies.latency.summary import summarise
from lab.studies.latency.work import Measured, measure

pytestmark = pytest.mark.slow

ARMS = ("tier_first_v1", "seed_full")


@pytest.fixture(scope="module")
def latency_request(operators: Path) -> LatencyRequest:
    return LatencyRequest(
        ReplayRequest(str(operators), "lab", ARMS, embedder="hashing"),
        sizes=(200,),
        stores=("lancedb", "exact"),
        turns=8,
        warm_up=2,
        cold=1,
        rate=40.0,
        cadences=("2",),
        appends=5,
        waiting=(3,),
        grow_from=20,
    )


@pytest.fixture(scope="module")
def place(latency_request: LatencyRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("latency") / "out"


@pytest.fixture(scope="module")
def ran(latency_request: LatencyRequest, place: Path) -> tuple[Folder, list[Measured]]:
    apart = run._apart
    with pytest.MonkeyPatch.context() as patch:
        # A process of its own for each cell would take most of the time; cold turns need theirs.
        patch.setattr(run, "_apart", lambda work, *given: work(*given) if work is measure else apart(work, *given))
        return run_latency(latency_request, place)


def whole(samples: list[Sample], part: str, stage: str = "turn") -> list[Sample]:
    return [one for one in samples if (one.part, one.stage) == (part, stage)]


def test_run_latency_measures_every_arm_in_abba_order(
    ran: tuple[Folder, list[Measured]],
) -> None:
    turns = whole(ran[1][0].samples, "warm")
    assert Counter((one.store, one.arm) for one in turns) == {
        (store, arm): 8 for store in ("lancedb", "exact") for arm in ARMS
    }
    order = {turn: [(one.store, one.arm) for one in turns if one.turn == turn] for turn in (0, 1)}
    assert order[0] == order[1][::-1] == [(store, arm) for store in ("lancedb", "exact") for arm in ARMS]


def test_stages_add_up_and_stores_agree(ran: tuple[Folder, list[Measured]]) -> None:
    cell = ran[1][0]
    for turn in whole(cell.samples, "warm"):
        same = {
            one.stage: one.ns
            for one in cell.samples
            if (one.part, one.store, one.arm, one.turn) == ("warm", turn.store, turn.arm, turn.turn)
        }
        recall, embed = same.pop("recall"), same.pop("embed", 0)
        assert same.pop("turn") == recall + embed
        assert 0 < sum(same.values()) <= recall
        # A turn that the arm skips needs no vector.
        assert (embed == 0) == turn.passed_over
    assert cell.about["agree"] == {"turns": 16, "of": 16}


def test_run_latency_searches_for_every_arm(ran: tuple[Folder, list[Measured]]) -> None:
    """An arm that reused another arm's search would take almost no time."""
    live = [one for one in ran[1][0].samples if (one.part, one.store, one.stage) == ("warm", "lancedb", "search")]
    assert min(one.ns for one in live if not one.passed_over) > 500_000


def test_open_loop_latency_counts_from_the_intended_start(ran: tuple[Folder, list[Measured]]) -> None:
    samples = ran[1][0].samples
    late = {(one.store, one.arm, one.turn): one.ns for one in samples if (one.part, one.stage) == ("open", "late")}
    turns = whole(samples, "open")
    assert len(turns) == len(late) == 32
    assert all(one.ns > late[one.store, one.arm, one.turn] >= 0 for one in turns)


def test_cold_turns_run_in_fresh_processes(ran: tuple[Folder, list[Measured]]) -> None:
    cell = ran[1][0]
    cold = [one for one in cell.samples if one.part == "cold"]
    assert {one.arm for one in cold} == set(ARMS)
    assert {"import", "open", "search", "recall"} <= {one.stage for one in cold if one.arm == "tier_first_v1"}
    resident = [one for one in cell.about["cold"] if one["rows"] is not None]
    assert all(one["rows"] < one["first"] for one in resident)


def test_cadence_compacts_after_its_rows(ran: tuple[Folder, list[Measured]]) -> None:
    waiting, cadence = ran[1][1:]
    assert waiting.about["waiting"] == 3
    assert waiting.about["compact_ns"] > 0
    assert waiting.about["changed"]["of"] == 2 * 22
    appended = [one for one in cadence.samples if one.part == "append"]
    assert [(one.appended, one.waiting) for one in appended] == [(1, 1), (2, 0), (3, 1), (4, 0), (5, 1)]


def test_summary_has_no_quantiles_with_few_turns(
    latency_request: LatencyRequest, ran: tuple[Folder, list[Measured]]
) -> None:
    found = summarise(latency_request, *ran)
    one = found["warm"][0]["stages"]["turn"]
    assert (one["n"], one["p95"], one["p99"]) == (8, None, None)
    assert one["p50"]["low"] <= one["p50"]["value"] <= one["p50"]["high"]
    assert [one["stages"]["recall"]["p50"] for one in found["cold"]] == [None, None]
    assert {one["baseline"] for one in found["ratios"]} == {"tier_first_v1"}
    # Four blocks of two turns are too few for an interval.
    assert [(one["blocks"], one["ratio"]) for one in found["ratios"]] == [(4, None), (4, None)]
    (stores,) = found["stores"]
    assert (stores["turns"], stores["arms"]) == (8, 2)
    assert stores["times"] == pytest.approx(stores["lancedb_ms"] / stores["exact_ms"])
    assert stores["lancedb_ms"] > stores["shared_ms"] > 0
    assert found["cheapest_cadence"] == 2
    assert found["manifest"]["resolved"]["embedder"]["kind"] == "hashing"


def test_latency_tables_fit_80_columns(
    latency_request: LatencyRequest,
    ran: tuple[Folder, list[Measured]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    conclude(study_of(summarise(latency_request, *ran), Path("out")), Path("page.html"))
    output = capsys.readouterr().out
    assert [line for line in output.splitlines() if len(line) > 80] == []
    for part in (
        "Warm, exact: a turn, ms",
        "Warm, exact: the embedding of its prompt, ms",
        "Open loop, lancedb, 40 per second",
        "Cold:",
        "Rows waiting for compaction, over 20",
        "every 2.",
    ):
        assert part in output


@pytest.mark.parametrize(
    ("alone", "said"),
    [
        ([], None),
        (["verbatim"], ": verbatim, which does not search the shared table."),
        (["verbatim", "mine"], ": verbatim, mine, which do not search the shared table."),
    ],
)
def test_summary_names_arms_outside_the_shared_table(
    latency_request: LatencyRequest,
    ran: tuple[Folder, list[Measured]],
    capsys: pytest.CaptureFixture[str],
    alone: list[str],
    said: str | None,
) -> None:
    folder, (size, *others) = ran
    found = summarise(latency_request, folder, [size._replace(about=size.about | {"alone": alone}), *others])
    parts = "cold turns, turns over one view, waiting rows, compaction cadences"
    assert found["left_out"] == (said and f"Not measured with {parts}{said}")
    conclude(study_of(found, Path("out")), Path("page.html"))
    assert (" ".join(capsys.readouterr().out.split()).find("Not measured with") >= 0) == (said is not None)
    # Parts that were not measured have no missing arms.
    warm = size._replace(
        about={name: one for name, one in size.about.items() if name != "cold"} | {"alone": alone},
        samples=[one for one in size.samples if one.part != "shared" and one.store == "lancedb"],
    )
    assert summarise(latency_request, folder, [warm])["left_out"] is None


def test_run_latency_writes_no_text_of_a_memory(operators: Path, place: Path, latency_request: LatencyRequest) -> None:
    folder, cells = run_latency(latency_request, place)
    kept = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    kept += json.dumps(summarise(latency_request, folder, cells)).encode()
    texts = [
        json.loads(line)["text"]
        for path in operators.glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
        if '"memory"' in line
    ]
    assert len(texts) > 100
    assert [text for text in texts if text.encode() in kept] == []
    assert not list(place.glob("work-*"))


def test_run_latency_resumes_missing_cells(
    latency_request: LatencyRequest, ran: tuple[Folder, list[Measured]], place: Path
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = place / f"work-{gone.pid}"
    (left / "lancedb").mkdir(parents=True)
    before = {path.name: path.read_bytes() for path in (place / "samples").iterdir()}
    (place / "samples" / "cadence-00000002.parquet").unlink()
    _, cells = run_latency(latency_request, place)
    after = {path.name: path.read_bytes() for path in (place / "samples").iterdir()}
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == ["cadence-00000002.parquet"]
    assert cells[:2] == ran[1][:2]
    assert not left.exists()


def test_run_latency_with_other_arguments_is_refused(
    latency_request: LatencyRequest, ran: tuple[Folder, list[Measured]], place: Path, tmp_path: Path
) -> None:
    with pytest.raises(OtherArguments, match="different arguments: cadences, turns; choose another --out"):
        run_latency(replace(latency_request, turns=9, cadences=("3",)), place)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UnusableInput, match="holds something else"):
        run_latency(latency_request, tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text('{"kind": "lab.run"}')
    with pytest.raises(UnusableInput, match="not a latency measurement of this version"):
        run_latency(latency_request, tmp_path / "run")
    manifest = json.loads((place / "manifest.json").read_text("utf-8"))
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest | {"resolved": [1]}))
    with pytest.raises(UnusableInput, match="field 'resolved': expected an object, found a list"):
        run_latency(latency_request, tmp_path / "run")


@pytest.mark.usefixtures("ran")  # which embeds: without vectors the fault would be this process's own
def test_run_latency_exception_is_one_line_and_leaves_no_part_file(
    latency_request: LatencyRequest, tmp_path: Path
) -> None:
    # announce=int raises ValueError in the child process, in a module of the lab.
    message = r"size-00000200: ValueError in work\.py, line \d+; finished cells are kept"
    with pytest.raises(CannotMeasure, match=message):
        run_latency(latency_request, tmp_path / "out", announce=int)
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["manifest.json"]


def test_read_cell_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "size.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(CannotMeasure, match=r"size\.parquet: damaged"):
        read_cell(tmp_path / "size.parquet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stores": ("sqlite",)}, "unknown store 'sqlite'"),
        ({"sizes": (0,)}, "memories 0 is not a whole number from 1"),
        ({"sizes": (5, 5)}, "memories is given twice"),
        ({"cadences": ("often",)}, "cadence 'often' is neither a whole number"),
        ({"cadences": ("1", "1")}, "given twice: 1,1"),
        ({"vector_index": "hnsw"}, "unknown vector index 'hnsw'"),
        ({"rate": 0.0}, "rate 0.0 is not a number above 0"),
    ],
)
def test_run_latency_invalid_arguments_write_nothing(
    latency_request: LatencyRequest, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UnusableInput, match=message):
        run_latency(replace(latency_request, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("embedder", "given", "embeds"),
    [
        ("hashing", None, True),
        ("hashing", False, False),
        ("openai:m@http://127.0.0.1:9/v1", None, True),
        ("openai:m@https://models.example/v1", None, False),
        ("openai:m@https://models.example/v1", True, True),
    ],
)
def test_plan_latency_sends_no_prompt_elsewhere_unasked(
    latency_request: LatencyRequest, embedder: str, given: bool | None, embeds: bool
) -> None:
    asked = replace(latency_request, embed=given, replay=replace(latency_request.replay, embedder=embedder))
    assert plan_latency(asked).embeds == embeds


def test_run_latency_without_embedding_says_so(
    latency_request: LatencyRequest, ran: tuple[Folder, list[Measured]], tmp_path: Path
) -> None:
    asked = replace(latency_request, embed=False, stores=("exact",), cold=0, rate=None, appends=0, turns=2)
    found = summarise(asked, *run_latency(asked, tmp_path / "out"))
    assert {"turn", "embed"} & found["warm"][0]["stages"].keys() == set()
    study = study_of(found, Path("out"))
    assert any("--embed embeds them" in note for note in study.notes)
    assert study.parts[0].lead == "Warm, exact: its recall, ms [95 % interval]"


def test_run_latency_without_turns_to_recall_at_says_so(latency_request: LatencyRequest, tmp_path: Path) -> None:
    # Beside a copy there is no golden set whose probes would be recalled at.
    copy = shutil.copy(min(Path(latency_request.replay.path).glob("*.jsonl")), tmp_path)
    silent = replace(latency_request, replay=replace(latency_request.replay, path=str(copy), recall_turns="none"))
    with pytest.raises(UnusableInput, match="has no turn to recall at, so there is nothing to time"):
        run_latency(silent, tmp_path / "out")
    assert not (tmp_path / "out").exists()
