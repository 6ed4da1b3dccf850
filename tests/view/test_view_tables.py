"""The summary, the table of probes, causes of misses, the comparison, two runs, and a run that grows."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from lab.base.errors import NotComparable, UnusableInput
from lab.base.formatting import number
from lab.compare.paired import compare_arms
from lab.measures.score import score_run
from lab.replay.explain import FILE, explain, missed, write_missed
from lab.runs.directory import RunDirectory, open_run
from lab.runs.manifest import STARTED
from lab.view.causes import NAMES
from lab.view.index import FAILED, facts_of
from lab.view.live import Live
from lab.view.pages import Viewer
from lab.view.probes import ProbeTable, Query
from lab.view.runs import Runs, open_runs
from lab.view.turns import strip
from tests.view.missed_on_page import missed_on_page

MakeClient = Callable[..., Any]
FIRST, QUOTA, REPEAT = "tier_first_v1", "tier_quota_v1", "quota_repeat"


@pytest.fixture(scope="module")
def live(walked: RunDirectory) -> Live:
    """The run with its measures and causes computed."""
    live = Live(Runs([walked]))
    state = live.now()
    state.values.start(60)
    state.causes.start()
    assert state.causes._thread
    state.causes._thread.join(60)
    assert (state.values.problem, state.causes.problem, state.pending) == ("", "", False)
    return live


@pytest.fixture(scope="module")
def table(live: Live) -> ProbeTable:
    return ProbeTable(live.now())


def chosen(live: Live, table: ProbeTable, query: Query, show: str = "") -> list[int]:
    index = live.now().index
    pair = index.pair(None, None)
    return table.select(query, pair, index.where(pair, show)).tolist()


def test_summary_shows_the_means_of_the_scores(live: Live, walked: RunDirectory) -> None:
    page = unescape(Viewer(live, with_text=False).home({}))
    scores = score_run(walked)
    for arm in walked.arms:
        for measure in ("Success@6", "nDCG@6", "RepeatRate"):
            values = scores.of_arm(arm)[measure].value
            assert f">{number(sum(values) / len(values))}<" in page
    counts = dict(re.findall(r"show=(\w+)\"><strong>(\d+)</strong>", page))
    found = compare_arms(walked, FIRST, QUOTA)
    assert (counts["gained"], counts["lost"]) == (str(len(found.gained)), str(len(found.lost)))


def test_conversations_show_hits_as_the_summary_does(live: Live, walked: RunDirectory, client_of: MakeClient) -> None:
    index = live.now().index
    pair = index.pair(None, None)
    shares = [one.hits[arm] for one in index.tallies(pair, index.where(pair, "flipped")) for arm in pair.arms]
    page = client_of(walked).get("/conversations").text
    assert [f"<td>{share:.3f}</td>" in page for share in shares if share is not None] == [True] * len(shares)


def test_probe_values_equal_the_scores(live: Live, table: ProbeTable, walked: RunDirectory) -> None:
    state = live.now()
    pair = state.index.pair(None, None)
    numbers = chosen(live, table, Query())
    assert [state.index.probes[one] for one in numbers] == [
        one for one in state.index.probes if one in state.index.gold
    ]
    scores = score_run(walked)
    for measure in state.values.measures:
        for arm, column in ((FIRST, 0), (QUOTA, 1)):
            values = scores.of_arm(arm)[measure]
            known = dict(zip(values.at, values.value, strict=True))
            rows = table.rows(numbers, Query(measure=measure), pair)
            assert {row.turn: row.values[column] for row in rows if row.values[column] is not None} == {
                row.turn: known[row.turn] for row in rows if row.turn in known
            }


def test_probes_sort_by_any_column_with_missing_values_last(live: Live, table: ProbeTable) -> None:
    pair = live.now().index.pair(None, None)
    sorts = ["relevant", "rank baseline", "rank candidate", "baseline", "candidate", "difference", "slice.type"]
    for sort in sorts:
        for order in ("ascending", "descending"):
            query = Query(measure="nDCG@6", sort=sort, order=order)
            numbers = chosen(live, table, query)
            assert sorted(numbers) == chosen(live, table, Query())
            keys = table._key(query, pair)[numbers]
            known = [key for key in keys.tolist() if not math.isnan(key)]
            assert known == sorted(known, reverse=order == "descending")
            assert all(math.isnan(key) for key in keys[len(known) :])


def test_probes_filter_by_label_slice_cause_and_bounds(live: Live, table: ProbeTable) -> None:
    state = live.now()
    index, pair = state.index, state.index.pair(None, None)
    golds = {one: index.gold[index.probes[one] or ""] for one in chosen(live, table, Query())}
    for label in table.choices.labels:
        wanted = [one for one, gold in golds.items() if label in gold.visible.values()]
        assert chosen(live, table, Query(label=label)) == wanted
        assert wanted
    assert chosen(live, table, Query(slices=(("slice.type", "paraphrase"),))) == list(golds)
    assert chosen(live, table, Query(slices=(("slice.type", "other"),))) == []
    rows = {row.number: row for row in table.rows(list(golds), Query(measure="R@6"), pair)}
    found = {cause: chosen(live, table, Query(cause=cause, by="candidate")) for cause in NAMES}
    assert {cause for cause in found if found[cause]} == {cause for row in rows.values() for cause in row.causes[1]}
    for cause, numbers in found.items():
        assert numbers == [one for one in golds if cause in rows[one].causes[1]]
        either = [one for one in golds if any(cause in causes for causes in rows[one].causes)]
        assert chosen(live, table, Query(cause=cause)) == either
    high = chosen(live, table, Query(measure="R@6", low="0.5", of="baseline"))
    assert high == [one for one in golds if (rows[one].values[0] or 0) >= 0.5]
    assert 0 < len(high) < len(golds)
    assert chosen(live, table, Query(), "flipped") == index.where(pair, "flipped").nonzero()[0].tolist()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"measure": "Odd"}, "no measure 'Odd'"),
        ({"label": "odd"}, "no label 'odd'"),
        ({"cause": "odd"}, "no cause 'odd'"),
        ({"sort": "difference"}, "no sort key 'difference'"),
        ({"low": "1"}, "bounds need a measure"),
        ({"measure": "R@6", "low": "nan"}, "'nan' is not a number"),
        ({"slice.odd": "x"}, "no slice 'odd'"),
        ({"order": "odd"}, "no order 'odd'"),
        ({"from": "999"}, "no row '999'"),
    ],
)
def test_unknown_name_in_a_query_gives_a_message(
    client_of: MakeClient, live: Live, query: dict[str, str], said: str
) -> None:
    page = client_of(live=live).get(f"/probes?{urlencode(query)}")
    assert (page.status_code, said in unescape(page.text)) == (404, True)


def test_every_missed_memory_has_the_cause_that_explain_says(live: Live, walked: RunDirectory) -> None:
    """Over all misses of the run: the turn page, the table of probes, lab missed and lab explain agree."""
    viewer, state = Viewer(live, with_text=False), live.now()
    rows, _ = missed(walked)
    assert len({row.cause for row in rows}) > 1
    by_place: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        by_place.setdefault((row.arm, row.conversation, row.probe), {})[row.memory] = row.cause
    for (arm, conversation, probe), causes in by_place.items():
        explained = explain(walked, probe, arm).explained
        assert {key: explained.causes[key] for key in causes} == causes
        other = next(name for name in walked.arms if name != arm)
        page = viewer.turn({"conversation": conversation, "turn": probe, "base": arm, "cand": other})
        shown = missed_on_page(page, arm)
        assert {key: cause for key, (cause, _) in shown.items()} == causes
        assert all(reason == explained.reasons[key] for key, (_, reason) in shown.items())
        turn = state.index.number_of(conversation, probe)
        assert {NAMES[bit] for bit in range(len(NAMES)) if int(state.causes.bits(arm)[turn]) >> bit & 1} == {
            *causes.values()
        }


def test_stored_causes_are_read_unless_they_are_of_other_misses(copied: RunDirectory) -> None:
    rows, counts = missed(copied)
    write_missed(rows, counts, copied.path / FILE)
    stored = Live(Runs([copied])).now().causes
    assert stored.progress == (3, 3)
    assert sum(map(len, stored.found.values())) == len(rows)
    write_missed(rows[1:], counts, copied.path / FILE)
    assert Live(Runs([copied])).now().causes.progress == (0, 3)
    (copied.path / FILE).write_bytes(b"PAR1")
    assert Live(Runs([copied])).now().causes.progress == (0, 3)


def test_strip_shows_hits_flips_and_sessions(live: Live) -> None:
    index = live.now().index
    pair = index.pair(FIRST, REPEAT)
    gained, lost = (set(index.where(pair, name).nonzero()[0].tolist()) for name in ("gained", "lost"))
    assert gained
    for conversation in index.conversations:
        cells = strip(index, pair, conversation)
        assert [cell.turn for cell in cells] == [key for name, key in index.numbers if name == conversation]
        for cell in cells:
            assert ("gained" in cell.kinds, "lost" in cell.kinds) == (cell.number in gained, cell.number in lost)
            assert ("flip" in cell.kinds) == (cell.number in gained | lost)
            hits = [bool(index.hits(arm, pair.cutoff)[cell.number]) for arm in pair.arms]
            assert [state == "hit" for state in cell.arms] == hits
            assert ("probe" in cell.kinds) == bool(index.judged[cell.number])
        sessions = [cell.turn.rpartition("/")[0] for cell in cells]
        assert [cell.begins for cell in cells if cell.begins] == [one for one in dict.fromkeys(sessions) if one]


def test_comparison_page_shows_the_figures_of_compare(live: Live, walked: RunDirectory) -> None:
    page = unescape(Viewer(live, with_text=False).compare({}))
    found = compare_arms(walked, FIRST, QUOTA)
    for difference in found.differences:
        if difference.measure in found.primary:
            row = page.partition(f">{difference.measure}</a>")[2].partition("</tr>")[0]
            assert f"<td>{number(difference.baseline)}</td><td>{number(difference.candidate)}</td>" in row
            assert f"<td>{difference.wins} / {difference.ties} / {difference.losses}</td>" in row


def test_two_runs_are_shown_side_by_side(client_of: MakeClient, walked: RunDirectory, copied: RunDirectory) -> None:
    runs = Runs([walked, copied])
    second = f"{runs.labels[1]}:{FIRST}"
    assert runs.pair(None, None) == (FIRST, second)
    client = client_of(walked, copied)
    page = unescape(client.get("/compare").text)
    assert "identical everywhere" in page
    turn = {"conversation": "plain", "turn": "plain/s04/t3", "arm": second}
    told = client.get(f"/turn?{urlencode(turn)}").text
    sides = [told.partition(f'aria-label="{arm}"')[2].partition("</section>")[0] for arm in (FIRST, second)]
    items = [re.findall(r'class="key">(.*?)<', side) for side in sides]
    assert items[0] == items[1] != []
    assert f"lab explain {copied.path}" in unescape(told)
    assert f"--arm {FIRST}</code>" in unescape(told)
    crossed = client.get(f"/compare?{urlencode({'base': FIRST, 'cand': f'{runs.labels[1]}:{QUOTA}'})}").text
    found = compare_arms(walked, FIRST, QUOTA)
    assert f"{len(found.gained)} of" in unescape(crossed)


def test_runs_that_differ_are_refused(walked: RunDirectory, copied: RunDirectory) -> None:
    with pytest.raises(UnusableInput, match="given twice"):
        open_runs([walked.path, walked.path])
    copied.manifest = replace(copied.manifest, comparable_key="other", contents={})
    with pytest.raises(NotComparable):
        Runs([walked, copied])


def _unfinished(run: RunDirectory, tmp_path: Path, resealed: Callable[..., RunDirectory]) -> tuple[RunDirectory, Path]:
    """The run as a replay has it before the last conversation: digests beside, the last receipts not there yet."""
    last = run.conversations[-1]
    digests = dict(run.digests)
    (run.path / "digests").mkdir()
    for name in run.conversations:
        own = {run.name_of(file): digests[run.name_of(file)] for file in run.files(name) if file.exists()}
        run.recorded(name).write_text(json.dumps(own), "utf-8")
    waiting = tmp_path / "waiting.parquet"
    shutil.move(run.receipts(last), waiting)

    def begin(manifest: dict[str, Any]) -> None:
        manifest["status"] = STARTED
        manifest["files"] = {"golden.jsonl": digests["golden.jsonl"]}

    return resealed(run.path, begin), waiting


def test_growing_run_is_followed(
    copied: RunDirectory, tmp_path: Path, resealed: Callable[..., RunDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.view.live.LOOK_EVERY", 0)
    run, waiting = _unfinished(copied, tmp_path, resealed)
    last = run.conversations[-1]
    live = Live(open_runs([run.path]))
    viewer = Viewer(live, with_text=False)
    before = live.now()
    assert (before.index.waiting, before.pending) == ([last], True)
    live.now().values.start(60)
    page = viewer.home({})
    assert "Growing: 2 of 3 conversations are done." in page
    assert "Means over 2 conversations" in page
    version = viewer.version()
    assert version["pending"]
    shutil.move(waiting, run.receipts(last))
    after = live.now()
    assert after is not before
    assert (after.index.waiting, viewer.version() == version) == ([], False)
    # Means of fewer conversations are shown until those of all are computed.
    assert after.values.summary == before.values.summary
    after.values.start(60)
    finished = Live(Runs([open_run(run.path)])).now().values
    finished.start(60)
    assert after.values.summary == finished.summary != before.values.summary
    values = after.values.at(FIRST, "R@6")
    assert sum(value == value for value in values.tolist()) == int(after.index.with_gold().sum())
    assert "Growing: 3 of 3" in viewer.home({})


def test_failed_recall_counts_nowhere_and_is_shown(walked: RunDirectory) -> None:
    from lab.runs.receipts import read_receipts
    from lab.runs.scores import read_gold

    gold = read_gold(walked)
    turn = "plain/s04/t3"
    receipts = read_receipts(walked, "plain", {turn})
    facts = facts_of(receipts, [FIRST, QUOTA], gold, [(FIRST, turn)])
    position = facts.turns.index(turn)
    assert [int(facts.marks[arm][position]) for arm in (FIRST, QUOTA)] == [FAILED, 0]
    assert [int(facts.first[arm][position]) for arm in (FIRST, QUOTA)] == [0, 0]
    assert not [key for at, key in facts.missed[FIRST] if at == position]


def test_report_with_texts_is_served_only_with_text(client_of: MakeClient, copied: RunDirectory) -> None:
    page, data = copied.path / "report.html", copied.path / "report.json"
    assert client_of(copied).get("/report").status_code == 404
    page.write_text("<!doctype html><script>let x = 1</script><p style='color:red'>words", "utf-8")
    for told, alone in ((b"{}", 404), (b'{"with_text": true}', 404), (b'{"with_text": false}', 200)):
        data.write_bytes(told)
        assert client_of(copied).get("/report").status_code == alone
        answer = client_of(copied, with_text=True).get("/report")
        assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "script-src 'unsafe" not in policy
    assert answer.headers.get_list("content-security-policy") == [policy]
