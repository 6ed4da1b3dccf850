"""The report of a run: self-contained, escaped, without texts, equal for equal runs."""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict, replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer

import lab.report.build
from lab.base.errors import UnusableInput
from lab.base.files import dump_json, write_atomically
from lab.base.formatting import CONTROL
from lab.cli.main import app
from lab.cli.view import PORT
from lab.compare.paired import compare_arms
from lab.gate.line import FAIL, PASS, Line
from lab.gate.outputs import headline
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.measures.score import score_run, summarise
from lab.replay.command import replay_command
from lab.replay.explain import explain
from lab.report.build import build_report
from lab.report.cards import flipped
from lab.report.comparison import notes, shown
from lab.report.drawings import FIGURES
from lab.report.explanation import explanation_text
from lab.report.opening import result_sentence
from lab.report.sections import contract_table, verdict_model
from lab.report.units import mean_of, unbroken
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import read_gold
from lab.runs.tables import write_points
from lab.studies.draws import SHARES
from lab.studies.points import MODES, SaturationPoint, ScalePoint
from lab.view.pages import environment

TEMPLATES = Path(lab.report.build.__file__).with_name("templates")
POLICIES = ("tier_first_v1", "tier_quota_v1")
MakeRun = Callable[..., RunDirectory]
SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT} & \"double\" 'single'"
VOID = {"meta", "br", "img", "link", "input", "hr"}
LOADING = {"src", "srcset", "href", "xlink:href", "data", "action", "formaction", "poster", "background", "ping"}


class Page(HTMLParser):
    """Parse tags, attributes and visible text of a page."""

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
    """The report of a run whose conversation, topic and category contain markup."""
    run = make_run(HOSTILE, "plain", topic=HOSTILE, category=HOSTILE)
    points = [
        SaturationPoint(mode, share, seed, arm, 10 * share, 0.5 + share / 10, 0.4, 0.3)
        for mode in MODES
        for share in SHARES
        for seed in (0, 1)
        for arm in ("tier_first_v1", "tier_quota_v1")
    ]
    write_points(SaturationPoint, points, run.path / "saturation.parquet")
    scaled = [ScalePoint(size, arm, None, 0.5, 0.4, None, 1.0, None) for size in (0, 25) for arm in run.arms]
    write_points(ScalePoint, scaled, run.path / "scale.parquet")
    build_report(run, slides=True)
    return run


@pytest.fixture(scope="module")
def html(hostile: RunDirectory) -> str:
    """The HTML page of the hostile run."""
    return (hostile.path / "report.html").read_text("utf-8")


def test_build_report_writes_every_figure(hostile: RunDirectory) -> None:
    # Two conversations are too few for the intervals of slices; lab missed and lab study silence were not run.
    names = [*({figure.name for figure in FIGURES} - {"slices", "missed", "silence", "growth"}), "timeline-2"]
    files = {file.name: file.stat().st_size for file in (hostile.path / "figures").iterdir()}
    assert {f"{name}.{kind}" for name in names for kind in ("svg", "png")} == set(files) - {"slices.svg", "slices.png"}
    assert all(files.values())


def test_report_page_loads_nothing(html: str) -> None:
    page = Page(html)
    assert page.tags.isdisjoint(
        {"link", "img", "image", "iframe", "object", "embed", "base", "form", "video", "foreignobject"}
    )
    loads = [
        (tag, name, value) for tag, name, value in page.attributes if name in LOADING and not value.startswith("#")
    ]
    # Links to the slides and to the viewer are allowed, because they load nothing.
    known = ("figures/", f"http://127.0.0.1:{PORT}/turn?")
    assert [one for one in loads if (one[0], one[1]) != ("a", "href") or not one[2].startswith(known)] == []
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}
    assert len(html.encode()) < 2_000_000


def test_report_page_forbids_loading_and_all_scripts_but_its_own(html: str) -> None:
    policies = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert len(policies) == 1
    directives = dict(part.strip().split(" ", 1) for part in policies[0].split(";"))
    assert directives["default-src"] == "'none'"
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert directives["script-src"] == f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    assert (directives["base-uri"], directives["form-action"]) == ("'none'", "'none'")
    # A policy applies only to what follows it.
    assert html.index("Content-Security-Policy") < html.index("<style")


def test_report_page_is_well_formed(html: str) -> None:
    page = Page(html)
    assert (page.open, page.unbalanced) == ([], [])


def test_report_escapes_names_of_recordings(html: str) -> None:
    assert SCRIPT not in html
    assert html.lower().count("<script") == 1
    page = Page(html)
    words = [" ".join(data.split()) for data in page.words]
    # As values of the slices topic, category and conversation.
    assert words.count(HOSTILE) >= 3
    labels = {value for _, name, value in page.attributes if name == "aria-label"}
    assert {"Scores of the arms", "Success@6 by topic", "Success@6 by category_name"} <= labels


def test_hostile_names_stay_text_in_the_figures(hostile: RunDirectory) -> None:
    for file in (hostile.path / "figures").glob("*.svg"):
        assert "<script" not in file.read_text("utf-8").lower(), file.name


def test_report_contains_no_text_of_turns_or_memories(hostile: RunDirectory, secret_words: tuple[str, str]) -> None:
    for file in [*hostile.path.glob("report.*"), *(hostile.path / "figures").glob("*.svg")]:
        text = file.read_text("utf-8")
        assert not [word for word in secret_words if word in text], file.name


def test_build_report_twice_gives_equal_bytes(
    hostile: RunDirectory, copy_of: Callable[[RunDirectory], Path], tmp_path: Path
) -> None:
    there = copy_of(hostile)
    for file in [*there.glob("report.*"), *(there / "figures").iterdir()]:
        file.unlink()
    build_report(open_run(there), slides=True)
    names = sorted(str(file.relative_to(hostile.path)) for file in hostile.path.rglob("*") if file.is_file())
    assert names == sorted(str(file.relative_to(there)) for file in there.rglob("*") if file.is_file())
    assert [name for name in names if (hostile.path / name).read_bytes() != (there / name).read_bytes()] == []


def test_report_json_holds_scores_and_comparison(hostile: RunDirectory) -> None:
    data = json.loads((hostile.path / "report.json").read_text("utf-8"))
    summary = summarise(score_run(hostile), read_gold(hostile), hostile.arms)
    assert list(data) == ["title", "with_text", "facts", "arms", "columns", "table", "comparison", "slices"]
    assert data["with_text"] is False
    assert data["arms"] == ["tier_first_v1", "tier_quota_v1"]
    assert data["comparison"] == json.loads(
        json.dumps(compare_arms(hostile, "tier_first_v1", "tier_quota_v1").as_json())
    )
    assert data["slices"] == json.loads(json.dumps(summary["slices"]))
    first = summary["arms"]["tier_first_v1"]["measures"]
    assert data["columns"] == [
        *("Success@6", "Judged@6", "R@6", "nDCG@6", "GoldNice@6", "RepeatRate"),
        *("LongestStreak", "NicePresence", "InjectedChars", "InjectedTokens"),
    ]
    assert data["table"][0] == ["tier_first_v1", *(first[name] for name in data["columns"])]
    assert (data["facts"]["probes with gold"], data["facts"]["conversations"]) == (11, 2)
    assert data["facts"]["labels"] == "sampled, must 0.40, nice 0.50, seed 0"


def test_report_markdown_has_the_numbers_of_the_json(hostile: RunDirectory) -> None:
    text = (hostile.path / "report.md").read_text("utf-8")
    data = json.loads((hostile.path / "report.json").read_text("utf-8"))
    rows = [line for line in text.splitlines() if line.startswith("| tier\\_")][: len(data["table"])]
    assert [line.replace("\\", "") for line in rows] == [
        f"| {arm} | " + " | ".join(map(mean_of, data["columns"], values)) + " |" for arm, *values in data["table"]
    ]
    head = text[text.index("| arm |") :].splitlines()
    assert head[0].count("|") == head[1].count("|") == head[2].count("|")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    # Equal runs have different timings, so they are left out.
    assert {"figures/forest.svg", "figures/timeline-2.svg"} <= set(pictures)
    assert "figures/stages.svg" not in pictures
    assert all((hostile.path / picture).is_file() for picture in pictures)


# Names that matplotlib parses as formulas, characters missing in the default font, and names that are paths.
NAMES = ("$\\frac{broken in $", "半山喝茶", "../_up")


def test_report_handles_any_conversation_name(make_run: MakeRun) -> None:
    run = make_run(*NAMES, sessions=2)
    build_report(run)
    words = Page((run.path / "report.html").read_text("utf-8")).words
    assert set(NAMES) <= set(words)


def test_names_that_turn_a_line_or_end_a_cell_are_shown_as_text(make_run: MakeRun) -> None:
    names = ("ev\u202eil", "bell\x07\u061c", "a|`b`<i>\u2066")
    run = make_run(*names, sessions=2)
    build_report(run)
    pages = {name: (run.path / name).read_text("utf-8") for name in ("report.html", "report.md")}
    for name, text in pages.items():
        assert CONTROL.search(text) is None, name
    assert {"ev\\u202eil", "bell\\u0007\\u061c", "a|`b`<i>\\u2066"} <= set(Page(pages["report.html"]).words)
    assert "<i>" not in pages["report.md"]
    found = environment().from_string("{{ id }}").render(id=f"{names[0]}<i>")
    assert found == "ev\\u202eil&lt;i&gt;"


def test_markdown_of_a_report_escapes_every_name() -> None:
    """A value without a filter would put a raw name into the text."""
    raw = re.findall(r"{{(?![^}]*\| (?:markdown|rows|code))([^}]*)}}", (TEMPLATES / "page.md.j2").read_text("utf-8"))
    # Numbers, the lab's own words, and names of facts and figures.
    own = {"opening.word", "tile.word", "rules.more", "name"}
    assert {text.strip() for text in raw if "has_slides" not in text} <= own


def test_pages_with_a_script_are_those_that_the_security_page_names() -> None:
    scripted = {path.name for path in TEMPLATES.glob("*.html.j2") if "<script" in path.read_text("utf-8")}
    assert scripted == {
        f"{name}.html.j2" for name in ("page", "league", "study", "nightly", "canary", "watch", "drift")
    }
    assert all(
        path.read_text("utf-8").count("<script") == 1 for path in TEMPLATES.glob("*.html.j2") if path.name in scripted
    )
    said = " ".join((TEMPLATES.parents[2] / "SECURITY.md").read_text("utf-8").split())
    assert "The page of `lab acceptance` has none." in said
    assert "studies, nightly runs, canaries, a watched engine and a ledger's drift hold one script" in said


def test_flipped_explains_turns_and_hides_texts_by_default(
    hostile: RunDirectory, copy_of: Callable[[RunDirectory], Path], secret_words: tuple[str, str]
) -> None:
    run = open_run(copy_of(hostile))
    found = compare_arms(run, *POLICIES)
    assert found.gained
    silent = flipped(run, found, with_text=False, most=1)
    flips = flipped(run, found, with_text=True, most=1)
    gained = silent.sides[0]
    assert (silent.problem, gained.total, len(gained.turns)) == (None, len(found.gained), 1)
    assert gained.more == gained.total - 1
    # The arm that missed comes first; both explanations equal `lab explain`.
    (one,) = gained.turns
    assert [side.arm for side in one.sides] == list(POLICIES)
    # With the arms reversed the turn is lost, with the same arm first.
    around = flipped(run, compare_arms(run, *reversed(POLICIES)), with_text=False, most=1).sides[1]
    assert (around.name, around.turns, around.total) == ("Lost", gained.turns, gained.total)
    assert [side.text for side in one.sides] == [
        explanation_text(explain(run, one.turn, arm), with_text=False) for arm in POLICIES
    ]
    assert not [word for side in one.sides for word in secret_words if word in str(side.text)]
    assert secret_words[1] in str(flips.sides[0].turns[0].sides[0].text)


def test_flipped_without_recordings_has_no_explanations(
    hostile: RunDirectory, copy_of: Callable[[RunDirectory], Path]
) -> None:
    run = open_run(copy_of(hostile))
    run.manifest = replace(run.manifest, asked={**run.manifest.asked, "path": "no-such-folder"})
    gone = flipped(run, compare_arms(run, *POLICIES), with_text=False, most=1)
    assert "no-such-folder" in str(gone.problem)
    assert [(side.text, side.command.split()[:2]) for side in gone.sides[0].turns[0].sides] == [
        (None, ["lab", "explain"])
    ] * 2


def test_report_shows_the_verdict_and_refuses_an_invalid_one(
    hostile: RunDirectory, copy_of: Callable[[RunDirectory], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(copy_of(hostile))
    verdict = judge(read_policy("nightly"), run)
    evidence = verdict.evidence
    assert evidence is not None
    write_atomically(run.path / "verdict.json", dump_json(verdict.as_json()))
    model, stale = verdict_model(run)
    assert model is not None
    assert stale is None
    assert model["headline"] == headline(verdict)
    assert len(model["rules"].rows) + len(model["others"].rows) == len(verdict.lines)
    # Failing advisory rules are shown with the verdict.
    harm = Line("limit", "Forbidden@6", FAIL, False, "why")
    sliced = Line("slice", "Success@6", PASS, False, "why", slice="type=todo")
    changed = replace(verdict, status=FAIL, lines=(*verdict.lines, harm, sliced), about="It does no harm.")
    write_atomically(run.path / "verdict.json", dump_json(changed.as_json()))
    with monkeypatch.context() as patched:
        patched.setattr("lab.report.sections.rejudge", lambda verdict, *_: verdict)
        build_report(run)
    html = (run.path / "report.html").read_text("utf-8")
    assert "It does no harm." not in html
    assert "The policy has slice rules of its own, which are tested" in html
    for page in ("report.html", "report.md"):
        text = (run.path / page).read_text("utf-8")
        assert re.search(r"Advisory rules that fail: .*limit Forbidden@6 \(advisory\)\.", text)
    for edited in (
        {"status": None},
        {"rollback": "x"},
        {"audit": {"silent": 5}},
        {"evidence": {**asdict(evidence), "run": 5}},
    ):
        write_atomically(run.path / "verdict.json", dump_json(verdict.as_json() | edited))
        model, stale = verdict_model(run)
        assert model is None
        assert str(stale).startswith("verdict.json is stale and is not shown: ")
    for value in ({"verdict": "go"}, [], verdict.as_json() | {"lines": [5]}):
        write_atomically(run.path / "verdict.json", dump_json(value))
        with pytest.raises(UnusableInput, match="not a verdict of `lab gate`"):
            build_report(run)


def test_contract_table_has_misleading_memories_and_clean_hits() -> None:
    means = {"measures": {"Forbidden@6": 0.441, "CleanHit@6": 0.447, "Future": 0.0}, "unseen": {}}
    table = contract_table({"tier_quota_v1": means}, 6)
    assert table.headers == ("arm", "Forbidden@6", "CleanHit@6", "Future")
    assert table.rows == [["tier_quota_v1", "44.1\u00a0%", "44.7\u00a0%", "0.0\u00a0%"]]
    assert contract_table({"tier_quota_v1": means}, 4).headers == ("arm", "Future")


def test_replay_command_reproduces_the_arguments(hostile: RunDirectory) -> None:
    values = dict(hostile.manifest.asked)
    words = shlex.split(replay_command(values | {"path": "a b", "faults": ["slow_store=0.1"], "limit": 3}, "out"))
    context = typer.main.get_command(app).commands["replay"].make_context("replay", words[2:])
    given = {name: value for name, value in context.params.items() if value not in (None, (), [])}
    assert (str(given["path"]), str(given["out"])) == ("a b", "out")
    assert (given["format"], given["labels"], given["must_share"]) == ("realmem", "sampled", 0.4)
    assert list(POLICIES) in given.values()
    assert ["slow_store=0.1"] in given.values()
    assert given["limit"] == 3


def test_report_of_one_arm_has_no_comparison(make_run: MakeRun) -> None:
    run = make_run("one", arms=("hybrid",), sessions=3)
    build_report(run)
    data = json.loads((run.path / "report.json").read_text("utf-8"))
    assert data["comparison"] is None
    (row,) = data["table"]
    means = dict(zip(data["columns"], row[1:], strict=True))
    said = (
        f"hybrid alone, 1 conversation, labels {run.labels}, {run.haystack}: a relevant memory is injected at "
        f"{means['Success@6']:.0%} of the probes; "
    )
    page = (run.path / "report.html").read_text("utf-8")
    assert unbroken(said) in page
    assert unbroken(f"{means['RepeatRate']:.0%} of the injected items are repeats.") in page
    assert "against" not in page[page.index("<h1>") : page.index("</header>")]
    assert not (run.path / "figures" / "forest.svg").exists()


def test_sentence_of_one_conversation_makes_no_claim(make_run: MakeRun) -> None:
    found = compare_arms(make_run("one", sessions=3), *POLICIES)
    said = result_sentence(found, "sampled")
    assert said.count("1 conversation, so the result does not generalise") == said.count("generalise") == 1
    assert not [one for one in notes(found, shown(found)) if "read the intervals" in one]


def test_report_of_a_run_without_probes_is_written(make_run: MakeRun) -> None:
    run = make_run("one", sessions=1)
    build_report(run)
    data = json.loads((run.path / "report.json").read_text("utf-8"))
    assert data["facts"]["probes with gold"] == 0
    page = (run.path / "report.html").read_text("utf-8")
    # Missing measures are not explained, and no section is empty.
    assert "Success is the hit rate" not in page
    assert 'id="slices"' not in page


def test_report_unknown_arm_is_refused(hostile: RunDirectory) -> None:
    with pytest.raises(UnusableInput, match="has no arm 'bm25'; it has: tier_first_v1, tier_quota_v1"):
        build_report(hostile, "tier_first_v1", "bm25")
