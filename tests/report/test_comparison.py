"""Comparisons as sentences and tables, and escaping of table cells."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lab.compare.paired import Comparison, Difference
from lab.compare.statistics import Estimate
from lab.report.comparison import COLUMNS, MORE, WIDE, gains, more, notes, reading, row, shown, wide
from lab.report.opening import result_sentence
from lab.report.tables import latex, latex_table, markdown_table


def difference(
    mean: float, reach: float, measure: str = "Success@6", holm: float | None = None, n: int = 8
) -> Difference:
    estimate = Estimate(mean, mean - reach, mean + reach, reach / 2, 1.25, 1.2 * reach)
    return Difference(measure, 100, n, 0.5, 0.5 + mean, estimate, 0.01, holm, 9, 88, 3, mean / 0.5)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (difference(0.1, 0.02, holm=0.01), "better"),
        (difference(0.1, 0.02, "RepeatRate", holm=0.01), "worse"),
        (difference(-0.1, 0.02, "RepeatRate"), "better, exploratory"),
        (difference(-0.1, 0.02, "InjectedChars", holm=0.01), "less"),
        (difference(0.1, 0.2, holm=0.6), "no difference shown; MDE ±0.240"),
        (difference(0.1, 0.2), "no difference shown; MDE ±0.240"),
        # An interval that ends at 0 contains it.
        (difference(0.1, 0.1), "no difference shown; MDE ±0.120"),
        (difference(0.1, 0.08, holm=0.07), "not significant among 3; MDE ±0.096"),
        # The interval and the p decide together, however few conversations there are.
        (difference(0.1, 0.08, holm=0.094, n=6), "not significant among 3; MDE ±0.096"),
        (replace(difference(0.1, 0.08), p=0.06), "not significant; MDE ±0.096"),
        (difference(0.1, 0.9, holm=0.6), "no difference shown; MDE none"),
        (replace(difference(0.0, 0.0), wins=0, losses=0), "identical everywhere"),
        (
            replace(difference(0.1, 0.0, n=1), estimate=Estimate(0.1, None, None, None, None, None)),
            "one conversation: no interval",
        ),
        (
            replace(difference(0.1, 0.0, n=5), estimate=Estimate(0.1, None, None, 0.02, 1.0, None)),
            "5 conversations: no interval",
        ),
    ],
)
def test_reading_states_the_conclusion(one: Difference, said: str) -> None:
    assert reading(one, 3) == said


@pytest.fixture
def found() -> Comparison:
    """Two of three primary measures, one of them with filled values."""
    filled = replace(difference(-0.2, 0.3, "RepeatRate", holm=0.5), filled_candidate=7)
    dropped = replace(difference(0.1, 0.01, "Rprec"), left_out=4)
    differences = (difference(0.1, 0.02, holm=0.01), dropped, filled)
    return Comparison(
        *("old", "new", 6, ("RepeatRate", "Success@6", "GoldNice@6"), differences, ("q1",), ("q2", "q3", "q4")),
        *(400, (("Success@20", "old"), ("BackboneDuplication", "old"))),
    )


def test_shown_keeps_the_declared_order(found: Comparison) -> None:
    assert [one.measure for one in shown(found)] == ["RepeatRate", "Success@6"]
    assert [one.measure for one in shown(found, every=True)] == ["Success@6", "Rprec", "RepeatRate"]
    for one in found.differences:
        assert (len(row(one)), len(more(one, 2)), len(wide(one, 2))) == (len(COLUMNS), len(MORE), len(WIDE))
    hit = dict(zip(WIDE, wide(found.differences[0], 2), strict=True))
    assert hit == {
        "measure": "Success@6",
        "reading": "better",
        "base": "0.500",
        "cand": "0.600",
        "diff": "+0.100",
        "relative": "+20.0%",
        "95 % interval": "+0.080 … +0.120",
        "p": "0.010",
        "up/same/down": "9/88/3",
        "deff": "1.25",
        "MDE": "±0.024",
    }


def test_notes_report_filled_and_left_out_values(found: Comparison) -> None:
    said = notes(found, shown(found, every=True))
    assert "RepeatRate: new has no value for 7 of 100 probes or turns, which count as 0." in said
    assert "Rprec: 4 probes or turns are left out: only one arm has a value." in said
    # Measures at cutoffs are not listed as missing.
    assert said[-1] == "Not compared, because old has no value: BackboneDuplication."
    assert not any("adjusted p below" in one for one in said)
    few = replace(found, differences=tuple(replace(one, conversations=5) for one in found.differences))
    assert any(one.startswith("No intervals: over 5 conversations no sign-flip") for one in notes(few, []))
    some = replace(found, differences=tuple(replace(one, conversations=6) for one in found.differences))
    assert "With so few conversations, no adjusted p can be below 0.062: nothing can be shown." in notes(some, [])


def test_notes_explain_the_shown_columns(found: Comparison) -> None:
    assert "MDE: minimum detectable effect" in notes(found, [])[0]
    said = notes(found, [], has_mde=False)[0]
    assert "MDE" not in said
    assert "Holm-adjusted over the 2 primary measures;" in said
    alone = replace(found, differences=found.differences[:1])
    assert "Holm-adjusted over the one primary measure;" in notes(alone, [])[0]


def test_row_never_shows_a_p_of_zero() -> None:
    one = difference(0.1, 0.02, holm=0.0004)
    assert row(one)[COLUMNS.index("p")] == "<0.001"
    assert row(replace(one, p_holm=None, p=0.0))[COLUMNS.index("p")] == "(<0.001)"
    assert row(replace(one, p_holm=0.001))[COLUMNS.index("p")] == "0.001"


def test_gains_are_per_thousand_probes(found: Comparison) -> None:
    assert gains(found) == "1 of 400 probes gained and 3 lost a hit at 6: 2 and 8 of 1,000."
    assert gains(replace(found, probes=0)) == "No probe has a hit at 6 to gain or lose."


NASTY = "a|b\\c_d & 50% $x^2~{y}# <i>`z` [l](u) *e*\n…±–"


def test_markdown_table_escapes_cells() -> None:
    table = markdown_table(["one", "two"], [[NASTY, "-0.1"], ["tier_first_v1", "x"]])
    lines = table.splitlines()
    assert lines[:2] == ["| one | two |", "| :-- | --: |"]
    assert len(lines) == 4
    # An unescaped bar would add a column.
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [3, 3, 3, 3]
    assert lines[2].startswith(r"| a\|b\\c\_d &amp; 50% $x^2~{y}# &lt;i&gt;\`z\` \[l\](u) \*e\* …±– |")


def test_latex_escapes_special_characters() -> None:
    assert latex(NASTY) == (
        r"a\textbar{}b\textbackslash{}c\_d \& 50\% \$x\textasciicircum{}2\textasciitilde{}\{y\}\# "
        r"\textless{}i\textgreater{}`z` [l](u) *e* \ldots{}\(\pm\)--"
    )
    table = latex_table(["one", "two", "three"], [[NASTY, "1", "2"], ["a", "b", "c"]], left=2).splitlines()
    assert table[0] == r"\begin{tabular}{llr}"
    assert table[-1] == r"\end{tabular}"
    rows = [line for line in table if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in rows] == [2, 2, 2]
    assert not any(re.search(r"(?<!\\)[%#$_]", line) for line in rows)


def test_worse_measures_outside_primary_are_reported(found: Comparison) -> None:
    worse = (
        difference(0.2, 0.1, "Forbidden@6"),
        difference(0.2, 0.1, "Forbidden@3"),
        difference(0.1, 0.2, "StaleRecall"),
        difference(-0.1, 0.05, "Present@6"),
        difference(0.3, 0.1, "RepeatRate"),
    )
    all_told = replace(found, differences=(*found.differences, *worse))
    note = next(one for one in notes(all_told, ()) if one.startswith("Worse, but not primary"))
    # Other cutoffs, differences that are not significant, and primary measures are left out.
    assert re.findall(r"([\w@]+) 0\.500", note) == ["Forbidden@6", "Present@6"]
    assert not any(one.startswith("Worse") for one in notes(found, ()))
    # The lead sentence names them, too.
    harms = (
        "; but worse outside the primary measures: a misleading memory is injected at 70% of the probes that have one, "
        "against 50% (Forbidden@6), Present@6 50.0\u00a0% → 40.0\u00a0%."
    )
    assert result_sentence(all_told, "recorded").endswith(harms)
    assert "primary" not in result_sentence(found, "recorded")
    assert result_sentence(found, "recorded") == (
        "new against old, 8 conversations, labels recorded: a relevant memory is injected at 60% of the probes, "
        "against 50% (better: +10.0\u00a0points, 95 % interval +8.0 to +12.0); 30% of the injected items are "
        "repeats, against 50% (not significant: \u221220.0\u00a0points, 95 % interval \u221250.0 to +10.0)."
    )
    more = replace(found, differences=(found.differences[0], difference(0.1, 0.02, "RepeatRate", holm=0.01)))
    assert "repeats, against 50% (worse: +10.0\u00a0points, " in result_sentence(more, "recorded")
    many = (difference(-0.1, 0.05, name) for name in ("Rprec", "AP", "RR", "Judged", "NicePresence", "AllGold"))
    long = result_sentence(replace(all_told, differences=(*all_told.differences, *many)), "recorded")
    assert re.search(r"\(Forbidden@6\), Present@6 .* and \d more\.$", long)


def test_notes_name_sampled_labels(found: Comparison) -> None:
    assert [one for one in notes(found, ()) if "Labels were" in one] == []
    (said,) = [one for one in notes(replace(found, sampled_labels="sampled, seed 3"), ()) if "Labels were" in one]
    assert said == "Labels were sampled (sampled, seed 3): another seed gives other labels and other numbers."


def test_gains_of_few_probes_are_counts(found: Comparison) -> None:
    assert gains(replace(found, probes=9)) == "1 of 9 probes gained and 3 lost a hit at 6."
    assert gains(found) == "1 of 400 probes gained and 3 lost a hit at 6: 2 and 8 of 1,000."
