"""Runs in notebooks: frames that agree with the files, and HTML display."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lab
from lab.base.errors import CannotMeasure, NotARun, UnusableInput
from lab.compare.paired import Comparison, Difference, compare_arms
from lab.compare.statistics import Estimate
from lab.measures.score import score_run, summarise
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from lab.runs.tables import read_table

if TYPE_CHECKING:
    from lab.notebook import Run

FIRST, QUOTA = "tier_first_v1", "tier_quota_v1"
TRIAL = "trial: embedder hashing, which is for tests; labels sampled, must 0.40, nice 0.50, seed 0"
MARKUP = "<img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """Parse the elements and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def directory(make_run: Callable[..., RunDirectory]) -> RunDirectory:
    return make_run("ada", "bo", "cy", arms=(FIRST, QUOTA, "hybrid"))


@pytest.fixture(scope="module")
def run(directory: RunDirectory) -> Run:
    opened: Run = lab.open_run(str(directory.path))
    return opened


def test_notebook_run_describes_itself(run: Run, directory: RunDirectory) -> None:
    assert run.arms == [FIRST, QUOTA, "hybrid"]
    assert run.conversations == directory.conversations
    assert run.manifest.status == "complete"
    assert repr(run) == (
        f"Run({str(directory.path)!r}: complete, 3 conversations, arms {FIRST}, {QUOTA}, hybrid, {TRIAL})"
    )


def test_turns_frame_has_the_rows_of_the_receipts(run: Run, directory: RunDirectory) -> None:
    rows = [
        {"conversation": name, **row}
        for name in run.conversations
        for row in read_table(directory.receipts(name)).to_pylist()
    ]
    turns = run.turns
    assert len(turns) == len(rows)
    for name in ("conversation", "arm", "turn", "seq", "scope", "injected", "chars", "block", "stale"):
        assert turns[name].tolist() == [row[name] for row in rows], name
    assert turns["pinned"].tolist() == [len(row["pinned"]) for row in rows]
    assert turns["probe"].notna().tolist() == [row["probe"] is not None for row in rows]
    assert turns["arm"].cat.categories.tolist() == run.arms
    kinds = {name: str(kind) for name, kind in turns.dtypes.items()}
    assert {kinds[name] for name in ("conversation", "arm")} == {"category"}
    assert {kinds[name] for name in ("seq", "injected", "pinned", "future", "outdated")} == {"int32"}
    assert (kinds["is_recall_turn"], kinds["duplicates"], kinds["evicted"]) == ("bool", "float64", "float64")


def test_items_frame_has_grades(run: Run, directory: RunDirectory) -> None:
    items = run.items
    gold = read_gold(directory)
    name = run.conversations[1]
    row = next(
        row
        for row in read_table(directory.receipts(name)).to_pylist()
        if row["probe"] in gold and row["arm"] == "hybrid" and len(row["item_key"]) > row["injected"]
    )
    own = items.query("conversation == @name and arm == 'hybrid'")
    own = own[own["turn"] == row["turn"]]
    assert own["memory"].tolist() == row["item_key"]
    assert own["rank"].tolist() == list(range(1, len(own) + 1))
    assert own["injected"].sum() == row["injected"] < len(own)
    assert own["score"].tolist() == row["item_score"]
    assert own["text_rank"].fillna(0).tolist() == [rank or 0 for rank in row["item_fts_rank"]]
    judged = gold[row["probe"]].judged
    assert own["grade"].fillna(-1).tolist() == [judged.get(key, -1) for key in row["item_key"]]
    assert items["grade"].gt(0).any()
    assert items[items["probe"].isna()]["grade"].isna().all()


def test_scores_frame_means_equal_lab_score(run: Run, directory: RunDirectory) -> None:
    summary = summarise(score_run(directory), read_gold(directory), run.arms)
    means = run.scores.groupby(["arm", "measure"], observed=True)["value"].mean()
    for arm, one in summary["arms"].items():
        for measure, value in one["measures"].items():
            assert means[arm, measure] == pytest.approx(value, nan_ok=True) or value is None, (arm, measure)
    slices = [name for name in run.scores if name.startswith("slice_")]
    assert slices == ["slice_category_name", "slice_topic"]
    probes = run.scores["at"].isin(read_gold(directory))
    assert run.scores["slice_topic"].notna().tolist() == probes.tolist()


def test_latency_is_in_milliseconds(run: Run, directory: RunDirectory) -> None:
    row = read_table(directory.latency(run.conversations[0])).to_pylist()[0]
    first = run.latency.iloc[0]
    assert (first["arm"], first["turn"], first["stage"]) == (row["arm"], row["turn"], row["stage"])
    assert first["ms"] == row["ns"] / 1e6
    assert run.latency["cold"].any()
    assert not run.latency["cold"].all()


def test_notebook_frames_are_unaffected_by_edits(run: Run) -> None:
    turns = run.turns
    turns["mine"] = 1
    turns.loc[0, "seq"] = 999
    assert "mine" not in run.turns
    assert run.turns.loc[0, "seq"] == 0
    kept = run._read["turns"]
    assert "mine" not in run.turns
    assert run._read["turns"] is kept


def test_notebook_comparison_prints_the_table_of_lab_compare(run: Run, directory: RunDirectory) -> None:
    compared = run.compare(FIRST, QUOTA, primary=["hit@6", "R@6"], slices=True)
    found = compare_arms(directory, FIRST, QUOTA, primary=["hit@6", "R@6"], slices=True)
    assert compared.comparison == found
    shown = repr(compared)
    first, _, rest = shown.partition(f"\n{QUOTA} minus {FIRST} (Judged@6 ")
    assert (" ".join(first.split()).startswith(TRIAL), "\nmeasure" in rest) == (True, True)
    assert "R@6 by slice, worst first" in shown
    assert max(map(len, shown.splitlines())) <= 80
    page = Tags(compared._repr_html_())
    assert page.tags.count("table") == 3
    for text in ("Success@6", "MDE", f"{QUOTA} minus {FIRST}", "lost a hit at 6"):
        assert text in page.text
    frame = compared.frame
    assert frame["measure"].tolist() == [one.measure for one in found.differences]
    assert frame.query("primary")["measure"].tolist() == ["Success@6", "R@6"]
    assert frame["difference"].tolist() == [one.estimate.mean for one in found.differences]
    assert len(repr(run.compare(FIRST, QUOTA, every=True))) > 2 * len(repr(run.compare(FIRST, QUOTA)))


def test_notebook_figures_display_and_save(run: Run, tmp_path: Path) -> None:
    assert {"forest", "tradeoff", "pareto", "composition", "tiers", "timeline", "stages"} <= {*run.figures}
    one = run.figure("composition")
    assert one is run.figures["composition"]
    assert one._repr_png_().startswith(b"\x89PNG")
    page = Tags(one._repr_html_())
    assert page.tags == ["figure", "img", "figcaption"]
    assert "mportance labels" in page.text
    assert Tags(run.figures._repr_html_()).tags.count("img") == len(run.figures)
    assert [file.name for file in one.save(tmp_path / "slide.png")] == ["slide.svg", "slide.png"]
    assert (tmp_path / "slide.png").read_bytes() == one._repr_png_()
    assert run.compare(FIRST, QUOTA).figure.figure.axes[0].get_xlim() == run.figure("forest").figure.axes[0].get_xlim()
    with pytest.raises(UnusableInput, match=r"has no figure 'pie'; it has: forest, "):
        run.figure("pie")


def test_notebook_explanation_hides_texts_by_default(run: Run, secret_words: tuple[str, str]) -> None:
    probe = run.items.query("injected and grade > 0")["probe"].iloc[0]
    plain, with_texts = run.explain(probe, QUOTA), run.explain(probe, QUOTA, with_text=True)
    assert repr(plain).startswith(f"{QUOTA} at {probe}")
    assert Tags(plain._repr_html_()).text == repr(plain)
    for word in secret_words:
        assert word not in plain._repr_html_() + json.dumps(plain.as_json())
        assert word in with_texts._repr_html_()
    assert repr(run.explain(probe)).startswith(f"{FIRST} at {probe}")


def test_notebook_display_is_escaped() -> None:
    from lab.notebook import Compared, Drawing
    from lab.report.figures_arms import composition_chart

    estimate = Estimate(0.1, 0.0, 0.2, 0.05, 1.0, 0.1)
    one = Difference(MARKUP, 2, 2, 0.1, 0.2, estimate, 1.0, None, 1, 0, 1)
    found = Comparison(MARKUP, f"</table>{MARKUP}", 6, (MARKUP,), (one,), (), (), unmeasured=((MARKUP, MARKUP),))
    page = Compared(found)._repr_html_()
    assert MARKUP in Tags(page).text
    assert set(Tags(page).tags) == {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    drawing = Drawing(f'"{MARKUP}', composition_chart({}), MARKUP)
    assert Tags(drawing._repr_html_()).tags == ["figure", "img", "figcaption"]


def test_notebook_escapes_markup(run: Run) -> None:
    from dataclasses import replace

    from lab.notebook import Explained

    probe = run.items.query("injected and grade > 0")["probe"].iloc[0]
    found = run.explain(probe, QUOTA).explanation
    texts = dict.fromkeys(found.texts, f"</pre>{MARKUP}")
    page = Tags(Explained(replace(found, texts=texts), with_text=True, full=False)._repr_html_())
    assert MARKUP in page.text
    assert page.tags == ["pre"]


def test_notebook_errors_are_one_sentence(
    directory: RunDirectory, copy_of: Callable[[RunDirectory], Path], tmp_path: Path
) -> None:
    with pytest.raises(NotARun, match="no such run directory"):
        lab.open_run(tmp_path / "nothing")
    broken = lab.open_run(copy_of(directory))
    broken.directory.receipts(broken.conversations[0]).write_bytes(b"PAR1")
    with pytest.raises(CannotMeasure, match="damaged"):
        _ = broken.turns
    broken.directory.receipts(broken.conversations[0]).unlink()
    with pytest.raises(CannotMeasure, match="1 of 3 conversations are missing"):
        _ = broken.items
