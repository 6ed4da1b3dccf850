"""The report of a run: complete in itself, escaped, silent about texts, equal for equal runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lab.compare.paired import compare_arms
from lab.errors import UnusableInput
from lab.measures.score import read_gold, score_run, summarise
from lab.replay.run_directory import RunDirectory, open_run
from lab.report.build import build_report
from lab.sweep.draws import MODES, SHARES
from lab.sweep.saturation import Point, write_points

MakeRun = Callable[..., RunDirectory]
SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT} & \"double\" 'single'"
VOID = {"meta", "br", "img", "link", "input", "hr"}
LOADING = {"src", "srcset", "href", "xlink:href", "data", "action", "formaction", "poster", "background", "ping"}


class Page(HTMLParser):
    """Tags, attributes and visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def hostile(make_run: MakeRun) -> RunDirectory:
    """A run whose conversation, topic and category would like to be markup, reported."""
    run = make_run(HOSTILE, "plain", topic=HOSTILE, category=HOSTILE)
    points = [
        Point(mode, share, seed, arm, 10 * share, 0.5 + share / 10, 0.4, 0.3)
        for mode in MODES
        for share in SHARES
        for seed in (0, 1)
        for arm in ("tier_first_v1", "tier_quota_v1")
    ]
    write_points(points, run.path / "saturation.parquet")
    build_report(run)
    return run


@pytest.fixture(scope="module")
def html(hostile: RunDirectory) -> str:
    """Its page."""
    return (hostile.path / "report.html").read_text("utf-8")


def test_every_file_that_is_named_is_written(hostile: RunDirectory) -> None:
    files = build_report(hostile)
    figures = ["saturation", "forest", "tradeoff", "composition", "timeline"]
    assert [str(file.relative_to(hostile.path)) for file in files] == [
        "report.html",
        "report.md",
        "report.json",
        *(f"figures/{name}.{kind}" for name in figures for kind in ("svg", "png")),
    ]
    assert all(file.stat().st_size for file in files)


def test_a_page_loads_nothing(html: str) -> None:
    page = Page(html)
    assert page.tags.isdisjoint(
        {"script", "link", "img", "image", "iframe", "object", "embed", "base", "form", "video", "foreignobject"}
    )
    loads = [
        (tag, name, value) for tag, name, value in page.attributes if name in LOADING and not value.startswith("#")
    ]
    assert loads == []
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}


def test_a_page_forbids_loading_and_scripts(html: str) -> None:
    policies = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert len(policies) == 1
    directives = dict(part.strip().split(" ", 1) for part in policies[0].split(";"))
    assert directives["default-src"] == "'none'"
    assert "script-src" not in directives
    # A policy rules what stands after it.
    assert html.index("Content-Security-Policy") < html.index("<style")


def test_a_page_is_well_formed(html: str) -> None:
    page = Page(html)
    assert (page.open, page.unbalanced) == ([], [])


def test_names_out_of_recordings_are_shown_as_text(html: str) -> None:
    assert SCRIPT not in html
    assert "<script" not in html.lower()
    page = Page(html)
    words = [" ".join(data.split()) for data in page.words]
    # As a value of the slices topic, category and conversation.
    assert words.count(HOSTILE) >= 3
    # In the commands of flipped turns, too, if there are any.
    assert all("lab explain" in word for word in words if SCRIPT in word and word != HOSTILE)
    labels = {value for _, name, value in page.attributes if name == "aria-label"}
    assert {"Scores of the arms", "Slice topic", "Slice category_name"} <= labels


def test_hostile_names_stay_text_in_the_figures(hostile: RunDirectory) -> None:
    for file in (hostile.path / "figures").glob("*.svg"):
        assert "<script" not in file.read_text("utf-8").lower(), file.name


def test_no_word_of_a_turn_or_memory_is_in_a_report(hostile: RunDirectory, secret_words: tuple[str, str]) -> None:
    for file in [*hostile.path.glob("report.*"), *(hostile.path / "figures").glob("*.svg")]:
        text = file.read_text("utf-8")
        assert not [word for word in secret_words if word in text], file.name


def test_building_twice_gives_equal_bytes(
    hostile: RunDirectory, copy_of: Callable[[RunDirectory], Path], tmp_path: Path
) -> None:
    there = copy_of(hostile)
    for file in [*there.glob("report.*"), *(there / "figures").iterdir()]:
        file.unlink()
    build_report(open_run(there))
    names = sorted(str(file.relative_to(hostile.path)) for file in hostile.path.rglob("*") if file.is_file())
    assert names == sorted(str(file.relative_to(there)) for file in there.rglob("*") if file.is_file())
    assert [name for name in names if (hostile.path / name).read_bytes() != (there / name).read_bytes()] == []


def test_the_data_of_a_report_are_the_scores_and_the_comparison(hostile: RunDirectory) -> None:
    data = json.loads((hostile.path / "report.json").read_text("utf-8"))
    summary = summarise(score_run(hostile), read_gold(hostile), hostile.arms)
    assert list(data) == ["title", "facts", "arms", "table", "comparison", "slices"]
    assert data["arms"] == ["tier_first_v1", "tier_quota_v1"]
    assert data["comparison"] == json.loads(
        json.dumps(compare_arms(hostile, "tier_first_v1", "tier_quota_v1").as_json())
    )
    assert data["slices"] == json.loads(json.dumps(summary["slices"]))
    first = summary["arms"]["tier_first_v1"]["measures"]
    assert data["table"][0] == [
        "tier_first_v1",
        *(
            first[name]
            for name in ("Success@6", "R@6", "nDCG@6", "GoldNice@6", "RepeatRate", "LongestStreak", "NicePresence")
        ),
        first["InjectedChars"],
    ]
    assert (data["facts"]["probes with gold"], data["facts"]["conversations"]) == (11, 2)
    assert data["facts"]["labels"] == "sampled, must 0.40, nice 0.50, seed 0"


def test_the_markdown_twin_tells_the_same_numbers(hostile: RunDirectory) -> None:
    text = (hostile.path / "report.md").read_text("utf-8")
    data = json.loads((hostile.path / "report.json").read_text("utf-8"))
    rows = [line for line in text.splitlines() if line.startswith("| tier_")]
    assert rows == [
        f"| {arm} | " + " | ".join(f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}" for value in values) + " |"
        for arm, *values in data["table"]
    ]
    head = text[text.index("| arm |") :].splitlines()
    assert head[0].count("|") == head[1].count("|") == head[2].count("|")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert len(pictures) == 5
    assert all((hostile.path / picture).is_file() for picture in pictures)


@pytest.mark.parametrize(
    "name",
    [
        # Names that a drawing library takes for formulas, letters that a default font lacks, names that are paths.
        "price in $, tax in $",
        "$\\frac{broken$",
        "半山喝茶",
        "../up",
        "_quiet",
    ],
)
def test_a_conversation_of_any_name_can_be_reported(make_run: MakeRun, name: str) -> None:
    run = make_run(name, sessions=3)
    build_report(run)
    page = Page((run.path / "report.html").read_text("utf-8"))
    assert name in page.words


def test_one_arm_alone_is_reported_without_a_comparison(make_run: MakeRun) -> None:
    run = make_run("one", arms=("hybrid",), sessions=3)
    build_report(run)
    data = json.loads((run.path / "report.json").read_text("utf-8"))
    assert data["comparison"] is None
    assert "no two arms to compare" in (run.path / "report.html").read_text("utf-8")
    assert not (run.path / "figures" / "forest.svg").exists()


def test_one_conversation_is_not_said_to_decide_anything(make_run: MakeRun) -> None:
    run = make_run("one", sessions=3)
    build_report(run)
    lead = re.search(r'<p class="lead">(.*?)</p>', (run.path / "report.html").read_text("utf-8"))
    assert lead is not None
    assert "one conversation says nothing about others" in lead[1]


def test_a_run_without_probes_is_reported(make_run: MakeRun) -> None:
    run = make_run("one", sessions=1)
    build_report(run)
    data = json.loads((run.path / "report.json").read_text("utf-8"))
    assert data["facts"]["probes with gold"] == 0


def test_an_unknown_arm_is_refused(hostile: RunDirectory) -> None:
    with pytest.raises(UnusableInput, match="has no arm 'bm25'; it has: tier_first_v1, tier_quota_v1"):
        build_report(hostile, "tier_first_v1", "bm25")
