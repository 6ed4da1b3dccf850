"""``lab compare``: output formats, primary measures, slices and flips."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
COMPARE = ("compare", "run", "--baseline", "none", "--candidate", "hybrid")


def test_compare_text_fits_80_columns_with_slices_and_flips(lab: Lab, place: Path) -> None:
    done = lab(*COMPARE, "--slices", "--flips", "1", "--primary", "hit@6", "--primary", "AnyWrongScope", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    # A command is not folded: it is to be copied.
    assert max(len(line) for line in done.stdout.splitlines() if "lab explain" not in line) <= 80
    assert done.stdout.count("lab explain") == 1
    assert "Success@6 by slice, worst first; exploratory" in done.stdout
    over = "slices by conversation cover all its turns, other slices only the turns with a probe."
    assert f"AnyWrongScope: {over}" in " ".join(done.stdout.split())
    scored = lab("score", "run", "--slices", cwd=place)
    assert f" RepeatRate: {over}" in " ".join(scored.stdout.split())
    of_probes = lab("score", "run", "--slices", "-m", "hit@6", "-m", "RepeatRate(probes)", cwd=place)
    assert (of_probes.returncode, "cover all its turns" in of_probes.stdout) == (0, False)
    assert "conversation = den" in done.stdout
    assert "over the 2 primary" in done.stdout.replace("\n", " ")
    result = json.loads(lab(*COMPARE, "--slices", "--format", "json", cwd=place).stdout)
    assert {one["slice"] for one in result["slices"]} >= {"conversation"}
    assert len(result["gained"]) > 1


def test_compare_with_absent_measure_suggests_similar_ones(lab: Lab, place: Path) -> None:
    for name, said in (
        ("nDGC@6", "--measure: unknown measure 'nDGC@6'; did you mean 'nDCG@6'?"),
        ("GoldNice@7", "--measure GoldNice@7: has no values in this run; --json lists the measures that have"),
    ):
        done = lab("score", "run", "-m", name, cwd=place)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {said}\n")


@pytest.mark.parametrize(("form", "first"), [("markdown", "## hybrid minus none"), ("latex", "% hybrid minus none")])
def test_compare_prints_markdown_and_latex_tables(lab: Lab, place: Path, form: str, first: str) -> None:
    done = lab(*COMPARE, "--format", form, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(first)
    assert "2 conversations: no interval" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "word"), "unknown format 'word'; known: text, markdown, latex, json"),
        ([word for k in range(6) for word in ("--primary", f"P@{k}")], "6 primary measures: 5 at most"),
    ],
)
def test_compare_with_unknown_format_is_refused(lab: Lab, place: Path, words: tuple[str, ...], said: str) -> None:
    done = lab(*COMPARE, *words, cwd=place)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
