"""``lab score --list``, ``lab runs export`` and ``lab runs import`` as commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "none")


def test_measures_fit_80_columns(lab: Lab, tmp_path: Path) -> None:
    done = lab("score", "--list", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert ["RepeatRate", "lower", "turn", "0", "…", "1", "seed", "000"] in map(str.split, done.stdout.splitlines())
    listed = json.loads(lab("score", "--list", "--json", cwd=tmp_path).stdout)["measures"]
    assert [one["measure"] for one in listed][:4] == ["Success@k", "R@k", "AllGold@k", "P@k"]
    keys = {"measure", "better", "unit", "range", "source", "definition", "cut", "graded", "missing"}
    assert set(listed[0]) == keys


def test_exported_run_imports_with_equal_means(lab: Lab, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "trec"
    done = lab("runs", "export", "run", "--format", "trec", "--out", out, "--json", cwd=place)
    files = json.loads(done.stdout)["files"]
    assert (done.returncode, done.stderr) == (0, "")
    assert files == [str(out / name) for name in ("qrels.txt", *(f"{arm}.run" for arm in ARMS))]
    scored = json.loads(lab("score", "run", "--json", cwd=place).stdout)["arms"]
    names = ("nDCG@6", "R@6", "AP@6", "Rprec", "Judged@6")
    words = [word for file in files[1:] for word in ("--run", file)] + [word for name in names for word in ("-m", name)]
    done = lab("runs", "import", "--qrels", files[0], *words, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)["runs"]
    for arm, file in zip(ARMS, files[1:], strict=True):
        assert (found[file]["n"], found[file]["unjudged"]) == (scored[arm]["n"], 0)
        for name in names:
            ours = scored[arm]["measures"][name]
            # An arm that returns nothing has no rank 6 of its own; without a line, it has found nothing there.
            assert found[file]["measures"][name] == pytest.approx(ours if ours is not None else 0.0, abs=1e-9)
    assert found[files[-1]]["missing"] == scored["none"]["n"]
    shown = lab(
        "runs", "import", "--qrels", files[0], "--run", files[1], "--run", files[4], "-m", "hit@5", cwd=tmp_path
    )
    assert shown.stdout.splitlines()[0].split() == ["run", "n", "Success@5"]
    assert "none: 6 queries without results" in shown.stdout


def test_beir_export_imports_again(lab: Lab, place: Path, tmp_path: Path) -> None:
    beir, trec = tmp_path / "beir", tmp_path / "trec"
    for folder, *more in ((beir, "--format", "beir", "--with-text"), (trec, "--format", "trec")):
        done = lab("runs", "export", "run", "--out", folder, *more, cwd=place)
        assert (done.returncode, done.stderr) == (0, "")
    assert (beir / "corpus.jsonl").read_text().count("wombatmemory") == 2 * 4 * 2 * 4
    assert "quokkaturn" in (beir / "queries.jsonl").read_text()
    imported = [
        lab("runs", "import", "--qrels", qrels, "--run", trec / "hybrid.run", cwd=place).stdout
        for qrels in (beir, trec / "qrels.txt")
    ]
    assert imported[0] == imported[1]
    assert "hybrid" in imported[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("runs", "export", "run", "--format", "csv", "--out", "x"), "unknown format 'csv'"),
        (("runs", "export", "datasets", "--out", "x"), "is not a run directory"),
        (("runs", "import", "--qrels", "absent.txt", "--run", "bad.run"), "absent.txt: no such file"),
        (("runs", "import", "--qrels", "good.txt", "--run", "bad.run"), "bad.run:2: expected 6 fields"),
        (
            ("runs", "import", "--qrels", "good.txt", "--run", "good.run", "-m", "nDCG(rel=2)@5"),
            "unknown measure 'nDCG(rel=2)@5'",
        ),
        (("runs", "import", "--qrels", "good.txt", "--run", "good.run", "--run", "good.run"), "given twice"),
    ],
)
def test_unusable_files_are_refused_in_one_line(
    lab: Lab, place: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "good.txt").write_text("q 0 d 1\n")
    (tmp_path / "good.run").write_text("q Q0 d 1 3.5 me\n")
    (tmp_path / "bad.run").write_text("q Q0 d 1 3.5 me\nq Q0 e\n")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "run").symlink_to(place / "run")
    done = lab(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()
