"""Exported files scored by trec_eval give the lab's values to the last digits."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
import pytrec_eval

from lab.base.errors import UnusableInput
from lab.measures.score import score_run
from lab.measures.trec import evaluate, export_run, read_qrels, read_run, safe
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold

ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "none", "oracle")
CUTOFFS = (1, 3, 5, 6, 10, 20, 50)
THEIRS = {
    f"{ours}@{k}": f"{theirs}_{k}"
    for k in CUTOFFS
    for ours, theirs in (("Success", "success"), ("R", "recall"), ("P", "P"), ("nDCG", "ndcg_cut"), ("AP", "map_cut"))
} | {"Rprec": "Rprec"}


@pytest.fixture(scope="module")
def run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run of the shipped set under five arms."""
    request = ReplayRequest(str(operators), "lab", ARMS, scope="recorded", embedder="hashing")
    return run_replay(request, tmp_path_factory.mktemp("export") / "run").run


def _own(run: RunDirectory) -> dict[tuple[str, str], dict[str, float]]:
    """Return the lab's values by arm and measure, then by probe."""
    result: dict[tuple[str, str], dict[str, float]] = {}
    for one in score_run(run):
        if one.value is not None:
            result.setdefault((one.arm, one.measure), {})[one.at] = one.value
    return result


def test_export_trec_eval_gives_equal_scores(run: RunDirectory, tmp_path: Path) -> None:
    files = export_run(run, "trec", tmp_path / "out")
    assert [file.name for file in files] == ["qrels.txt", *(f"{arm}.run" for arm in ARMS)]
    with files[0].open() as opened:
        qrels = pytrec_eval.parse_qrel(opened)
    judged = {probe for probe, one in read_gold(run).items() if one.grades}
    assert set(qrels) == judged
    assert any(grade == 0 for grades in qrels.values() for grade in grades.values())
    ours, compared = _own(run), 0
    for arm, file in zip(ARMS, files[1:], strict=True):
        with file.open() as opened:
            rankings = pytrec_eval.parse_run(opened)
        # A probe with an empty ranking has no line.
        rankings |= {probe: {} for probe in judged - set(rankings)}
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {*THEIRS.values(), "recip_rank"})
        theirs = evaluator.evaluate(rankings)
        for name, their in THEIRS.items():
            for probe, value in ours.get((arm, name), {}).items():
                assert value == pytest.approx(theirs[probe].get(their, math.nan), abs=1e-9), (arm, name, probe)
                compared += 1
        for probe, value in ours[arm, "RR@6"].items():
            rank = theirs[probe]["recip_rank"]
            assert value == pytest.approx(rank if rank >= 1 / 6 else 0.0, abs=1e-9)
    assert compared > 10_000


def test_export_r_precision_beyond_the_depth_is_missing(operators: Path, tmp_path: Path) -> None:
    request = ReplayRequest(str(operators), "lab", ("hybrid",), embedder="hashing", depth=2, limit=2)
    run = run_replay(request, tmp_path / "run").run
    values = {one.at: one.value for one in score_run(run) if one.measure == "Rprec"}
    expected = {probe: len(one.grades) for probe, one in read_gold(run).items() if one.grades}
    assert {probe for probe, value in values.items() if value is None} == {
        at for at, many in expected.items() if many > 2
    }
    assert 0 < sum(many > 2 for many in expected.values()) < len(expected)


def test_export_read_back_gives_equal_scores(run: RunDirectory, tmp_path: Path) -> None:
    files = export_run(run, "trec", tmp_path / "out")
    qrels, ours = read_qrels(files[0]), _own(run)
    assert qrels == {
        safe(probe): {safe(key): grade for key, grade in one.judged.items()}
        for probe, one in read_gold(run).items()
        if one.grades
    }
    names = [name for arm, name in ours if arm == "hybrid" and name.split("@")[0] in {"RR", "Judged", "nDCG", "Rprec"}]
    assert len(names) > 10
    for name, values in evaluate(read_run(tmp_path / "out" / "hybrid.run"), qrels, names).items():
        own = ours["hybrid", name]
        assert values.tolist() == pytest.approx([own[probe] for probe in map(unquote, qrels)], abs=1e-12)


def test_run_lines_scores_decrease_with_rank(run: RunDirectory, tmp_path: Path) -> None:
    export_run(run, "trec", tmp_path)
    lines = [line.split(" ") for line in (tmp_path / "hybrid.run").read_text().splitlines()]
    assert {len(line) for line in lines} == {6}
    for before, after in pairwise(lines):
        if before[0] == after[0]:
            assert (int(after[3]), float(after[4])) == (int(before[3]) + 1, float(before[4]) - 1)
        else:
            assert (before[4], after[3]) == ("1", "1")
    assert {line[5] for line in lines} == {"hybrid"}


@pytest.mark.parametrize("name", ["a b", "50%20", "記憶 一", "\u3000", "a\tb\n", "\u00a0", "\ud800", "plain/s01#2"])
def test_safe_names_can_be_restored(name: str) -> None:
    assert len(safe(name).split()) == 1
    assert unquote(safe(name), errors="surrogatepass") == name
    assert safe("記憶/s01#2") == "記憶/s01#2"


def test_export_beir_with_texts_writes_corpus_and_queries(run: RunDirectory, operators: Path, tmp_path: Path) -> None:
    files = export_run(run, "beir", tmp_path / "beir", with_text=True)
    assert {str(file.relative_to(tmp_path / "beir")) for file in files} == {
        *("qrels/test.tsv", "corpus.jsonl", "queries.jsonl")
    }
    corpus, queries = (
        {line["_id"]: line["text"] for line in map(json.loads, (tmp_path / "beir" / name).read_text().splitlines())}
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    with files[0].open(newline="") as opened:
        rows = list(csv.reader(opened, delimiter="\t"))
    assert rows[0] == ["query-id", "corpus-id", "score"]
    assert {row[0] for row in rows[1:]} == set(queries)
    assert {row[1] for row in rows[1:]} <= set(corpus)
    assert all(corpus.values())
    assert all(queries.values())
    export_run(run, "trec", tmp_path / "trec")
    assert read_qrels(tmp_path / "beir") == read_qrels(tmp_path / "trec" / "qrels.txt")


def test_export_beir_without_texts_writes_none(run: RunDirectory, tmp_path: Path) -> None:
    files = export_run(run, "beir", tmp_path)
    assert files == [tmp_path / "qrels" / "test.tsv"]
    with pytest.raises(UnusableInput, match="hold no text"):
        export_run(run, "trec", tmp_path / "other", with_text=True)


def test_export_repeated_is_equal_and_other_folders_are_refused(run: RunDirectory, tmp_path: Path) -> None:
    files = export_run(run, "trec", tmp_path)
    before = {file: file.read_bytes() for file in files}
    (tmp_path / "none.run").unlink()
    (tmp_path / ".hybrid.run.999999999.x.part").write_text("half")
    export_run(run, "trec", tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UnusableInput, match=r"other files \(thesis\.txt\)"):
        export_run(run, "trec", tmp_path)
    with pytest.raises(UnusableInput, match="unknown format"):
        export_run(run, "msmarco", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 0 d1", r"expected 4 fields \(query iteration document grade\), found 3"),
        ("q1 0 d1 high", "grade 'high' is not a whole number"),
        ("q1 0 d0 2", "'d0' occurs twice for query 'q1'"),
    ],
)
def test_read_qrels_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "qrels.txt"
    file.write_text(f"q1 0 d0 1\n\n{line}\n")
    with pytest.raises(UnusableInput, match=rf"qrels\.txt:3: .*{message}"):
        read_qrels(file)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d1 1 0.5", "expected 6 fields .*, found 5"),
        ("q1 Q0 d1 1 nan me", "score 'nan' is not a number"),
        ("q1 Q0 d0 1 0.5 me", "occurs twice"),
    ],
)
def test_read_run_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "a.run"
    file.write_text(f"q1\tQ0 d0 1 2.5e1 me\r\n{line}\n")
    with pytest.raises(UnusableInput, match=rf"a\.run:2: .*{message}"):
        read_run(file)


def test_read_run_no_break_space_is_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "qrels.txt"
    file.write_text("q\u00a01 0 d\u20281 1\n", "utf-8")
    assert read_qrels(file) == {"q\u00a01": {"d\u20281": 1}}
    file.write_text("\n")
    with pytest.raises(UnusableInput, match="holds no judgement"):
        read_qrels(file)
