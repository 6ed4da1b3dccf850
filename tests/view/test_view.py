"""The pages of a run: content, privacy and errors."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest

from lab.base.formatting import visible
from lab.compare.paired import compare_arms
from lab.measures.score import score_run
from lab.replay.explain import explain
from lab.replay.receipts import STALE, SUPERSEDED
from lab.report.explanation import explanation_text
from lab.runs.directory import RunDirectory
from lab.runs.receipts import read_receipts
from lab.runs.scores import read_gold
from lab.runs.tables import read_table, write_table
from lab.view.app import Guard
from lab.view.index import FILTERS, NEEDLESS, PAIR_FILTERS, Index, facts_of
from lab.view.recorded import KEPT, Recorded
from tests.view.conftest import EVIL, EVIL_SLICE

MakeClient = Callable[..., Any]
NAME = 'shop & "<b>co<b>"'
# What each filter of one arm says, as the measure that counts the same.
MEASURED = {"another scope": "WrongScope", "repeated": "RepeatRate", "superseded": "StaleRecall"}


@pytest.fixture(scope="module")
def index(walked: RunDirectory) -> Index:
    return Index(walked)


@pytest.fixture(scope="module")
def client(client_of: MakeClient, walked: RunDirectory) -> Any:
    return client_of(walked)


@pytest.fixture(scope="module")
def telling(client_of: MakeClient, walked: RunDirectory) -> Any:
    return client_of(walked, with_text=True)


def turn_address(index: Index, number: int, **more: str) -> str:
    conversation = index.conversations[index.conversation_of[number]]
    given = {"conversation": conversation, "turn": index.turns[number], **more}
    return "/turn?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())


def test_flips_equal_those_of_compare(index: Index, walked: RunDirectory) -> None:
    for arms in (("tier_first_v1", "tier_quota_v1"), ("quota_repeat", "tier_first_v1")):
        found, pair = compare_arms(walked, *arms), index.pair(*arms)
        named = {name: [index.turns[one] for one in index.where(pair, name).nonzero()[0]] for name in FILTERS}
        assert (sorted(found.gained), sorted(found.lost)) == (sorted(named["gained"]), sorted(named["lost"]))
        assert len(named["flipped"]) == len(found.gained) + len(found.lost)
    assert named["flipped"]


def test_pair_with_one_named_arm_chooses_another(index: Index) -> None:
    assert index.pair(None, None).arms == ("tier_first_v1", "tier_quota_v1")
    assert index.pair(None, "tier_first_v1").arms == ("tier_quota_v1", "tier_first_v1")
    assert index.pair("tier_quota_v1", None).arms == ("tier_quota_v1", "tier_first_v1")
    assert index.pair(None, "quota_repeat").arms == ("tier_first_v1", "quota_repeat")


def test_hit_rates_and_marks_equal_the_measures(index: Index, walked: RunDirectory) -> None:
    scores = score_run(walked)
    pair = index.pair(None, None)
    for arm in walked.arms:
        values = scores.of_arm(arm)
        hits = values[f"Success@{pair.cutoff}"]
        assert index.hits(arm, pair.cutoff).sum() == sum(hits.value)
        assert index.with_gold().sum() == len(hits.value)
        for name, measure in MEASURED.items():
            seen = {at for at, value in zip(values[measure].at, values[measure].value, strict=True) if value > 0}
            assert seen == {index.turns[one] for one in range(len(index.turns)) if name in index.marks(one, arm)}
    # Every filter finds something, one way round or the other.
    ways = (pair, index.pair(pair.candidate, pair.baseline))
    assert [name for name in FILTERS if not any(index.where(way, name).any() for way in ways)] == ["failed"]
    tallies = index.tallies(pair, index.where(pair, "flipped"))
    assert [one.name for one in tallies] == walked.conversations
    assert sum(one.gained + one.lost for one in tallies) == sum(one.matching for one in tallies)


def test_every_page_links_to_the_next(client: Any, index: Index, walked: RunDirectory) -> None:
    """From the list, by its links alone, to an explanation."""
    home = client.get("/")
    assert (home.status_code, home.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = client.get(next(one for one in links(home.text) if one == "/conversations"))
    first = next(one for one in links(page.text) if one.startswith("/turns?conversation="))
    turns = client.get(first)
    (name,) = (one for one in walked.conversations if f"conversation={quote_plus(one)}" in first)
    assert turns.text.count("<tr data-step") == walked.manifest.recall_points[name]
    turn = client.get([one for one in links(turns.text) if one.startswith("/turn?")][-1])
    why = next(one for one in links(turn.text) if "arm=tier_quota_v1" in one)
    told = client.get(why.partition("#")[0])
    assert told.status_code == 200
    key = re.search(r"turn=([^&#]+)", why)
    assert key
    said = explanation_text(explain(walked, unquoted(key[1]), "tier_quota_v1"), with_text=False)
    assert said in unescape(told.text)
    command = ["lab", "explain", str(walked.path), unquoted(key[1]), "--arm", "tier_quota_v1"]
    assert f"<code>{shlex.join(command)}</code>" in unescape(told.text)
    full = next(one for one in links(told.text) if "full=1" in one and "arm=tier_quota_v1" in one)
    assert len(client.get(full.partition("#")[0]).text) > len(told.text)


def test_links_keep_filter_and_search(client: Any, index: Index) -> None:
    pair = index.pair("tier_first_v1", "quota_repeat")
    flipped = index.where(pair, "flipped").nonzero()[0]
    query = "show=flipped&cand=quota_repeat"
    assert f"{len(flipped)} turns match" in client.get(f"/conversations?{query}").text
    page = client.get(f"/turns?{query}").text
    assert page.count("<tr data-step") == len(flipped)
    one = client.get(turn_address(index, flipped[1], show="flipped", cand="quota_repeat")).text
    for other in (flipped[0], flipped[2]):
        assert any(f"turn={quote(index.turns[other], safe='')}" in link for link in links(one))
    assert all(
        "show=flipped" in link and "cand=quota_repeat" in link for link in links(one) if link.startswith("/turn?")
    )
    assert f"2 of {len(flipped)} flipped" in one
    # Of a turn that is none of them: the one before, and the one after.
    beside = client.get(turn_address(index, flipped[1] + 1, show="flipped", cand="quota_repeat")).text
    assert flipped[2] > flipped[1] + 1
    assert f"<span>not among {len(flipped)} flipped</span>" in beside
    around = [re.search(f'rel="{way}" href="[^"]*turn=([^&"]+)', beside) for way in ("prev", "next")]
    assert [unquoted(found[1]) for found in around if found] == [index.turns[one] for one in flipped[1:3]]
    # The two arms that are shown anyway are not carried along.
    usual = client.get("/conversations?base=tier_first_v1&cand=tier_quota_v1&show=flipped").text
    assert not any("base=" in link or "cand=" in link for link in links(usual))


def test_stale_and_superseded_marks_equal_the_measure(telling: Any, index: Index, walked: RunDirectory) -> None:
    """What stands before a memory decides: beside the one that replaces it the mark is another than without it."""
    seen = {STALE: 0, SUPERSEDED: 0}
    for conversation in walked.conversations:
        rows = read_table(walked.receipts(conversation), ("arm", "turn", "superseded", "stale")).to_pylist()
        for row in (row for row in rows if row["superseded"] and row["arm"] == "tier_first_v1"):
            number = index.number_of(conversation, row["turn"])
            assert number is not None
            page = telling.get(turn_address(index, number)).text
            side = page.partition('aria-label="tier_first_v1"')[2].partition("</section>")[0]
            items = side.partition("<ol")[2].partition("</ol>")[0]
            found = {name: len(re.findall(f'class="mark [a-z]+">{name}<', items)) for name in seen}
            assert found == {STALE: row["stale"], SUPERSEDED: row["superseded"] - row["stale"]}
            seen = {name: seen[name] + found[name] for name in seen}
    assert all(seen.values())


def test_injection_without_need_is_marked_needless(walked: RunDirectory) -> None:
    (conversation, *_) = walked.conversations
    receipts = read_receipts(walked, conversation)
    gold = {probe: one for probe, one in read_gold(walked).items() if not one.grades}
    facts = facts_of(receipts, ["tier_first_v1"], gold)
    needless = (facts.marks["tier_first_v1"] & NEEDLESS) > 0
    assert needless.sum() == sum(one.conversation == conversation for one in gold.values())
    receipts.chars[:] = 0
    assert not (facts_of(receipts, ["tier_first_v1"], gold).marks["tier_first_v1"] & NEEDLESS).any()


def test_conversations_are_kept_and_both_caches_are_bounded(walked: RunDirectory) -> None:
    recorded = Recorded(walked)
    assert recorded.conversation(walked.conversations[0]) is recorded.conversation(walked.conversations[0])
    assert [kept.cache_parameters()["maxsize"] for kept in (recorded._read, recorded._explain)] == [KEPT, KEPT]


def test_conversations_sort_in_descending_order(client: Any, index: Index) -> None:
    tallies = index.tallies(index.pair(None, None), index.where(index.pair(None, None), "repeated"))
    counts = {
        "turns": {one.name: one.turns for one in tallies},
        "flipped": {one.name: one.gained + one.lost for one in tallies},
        "matching": {one.name: one.matching for one in tallies},
    }
    for sort, count in counts.items():
        page = client.get(f"/conversations?sort={sort}&show=repeated").text
        names = [unescape(one) for one in re.findall(r"<tr data-step.*?<bdi>(.*?)</bdi>", page)]
        assert names == sorted(counts["turns"], key=lambda name: (-count[name], name))
    assert len(set(counts["turns"].values())) == len(tallies)


def test_search_finds_keys_of_turns_and_injected_memories(index: Index, client: Any) -> None:
    memory = index.memories[0]
    found = index.search(memory).nonzero()[0]
    assert len(found)
    texts = [client.get(turn_address(index, one)).text for one in (found[0], found[-1])]
    assert all(memory in unescape(text) for text in texts)
    turn = index.turns[3]
    assert turn in [index.turns[one] for one in index.search(turn.upper()).nonzero()[0]]
    assert not index.search("no such words").any()


def test_texts_are_shown_and_searched_only_with_text(client: Any, telling: Any, index: Index) -> None:
    addresses = ["/", "/turns?conversation=plain", turn_address(index, 5, arm="quota_repeat", full="1")]
    for address in addresses:
        assert "wombat" not in client.get(address).text
        assert "longlong" not in client.get(address).text
    assert "0 turns match" in client.get("/conversations?q=wombat3").text
    assert "3 turns match" in telling.get("/conversations?q=wombat3").text
    assert "wombat0" in telling.get(addresses[1]).text
    assert "longlong" in telling.get(addresses[2]).text


def test_missed_relevant_memory_is_shown_with_its_text(
    client: Any, telling: Any, walked: RunDirectory, index: Index
) -> None:
    heading = "Relevant, not injected"
    addresses = [turn_address(index, at) for at in range(len(index.turns))]
    address = next(one for one in addresses if heading in client.get(one).text)
    silent, said = (one.get(address).text.split(heading)[1].split("</ul>")[0] for one in (client, telling))
    lost = [unescape(key) for key in re.findall(r'<bdi class="key">([^<]+)</bdi>', silent)]
    texts = Recorded(walked).conversation(lost[0].split("/")[0]).texts
    for key in lost:
        assert visible(texts[key]) in unescape(said)
        assert texts[key] not in unescape(silent)


def test_markup_is_escaped_everywhere(telling: Any, index: Index) -> None:
    sliced = {"measure": "R@6", "sort": f"slice.{EVIL_SLICE}", f"slice.{EVIL_SLICE}": f"1{EVIL}"}
    pages = ["/conversations", "/probes", f"/probes?{urlencode(sliced)}", "/rows/probes", "/rows/turns"]
    pages += [f"/turns?conversation={quote(NAME)}"]
    pages += [turn_address(index, 3, arm="tier_first_v1", full="1")]
    pages += [
        "/conversations?q=<script>alert(1)</script>",
        "/probes?label=<script>",
        "/compare?base=<script>",
        "/turn?conversation=<script>&turn=<script>",
        "/<script>",
    ]
    for address in pages:
        text = telling.get(address).text
        assert text.count("<script") == (not address.startswith("/rows/"))  # our own
        assert "<img" not in text
        assert "<b>co" not in text
        assert "&lt;" in text


def test_security_headers_forbid_scripts_and_framing(client: Any) -> None:
    for address in ("/", "/nowhere", "/view.js", "/view.css"):
        headers = client.get(address).headers
        policy = headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= {*policy}
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert not [name for name in headers if name.startswith("access-control")]


def test_server_is_read_only_and_checks_the_host(client: Any) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        refused = client.request(method, "/")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    head = client.head("/")
    assert (head.status_code, head.text) == (200, "")
    for host in ("evil.example:8642", "127.0.0.1:1", "127.0.0.1", "localhost.evil.example:8642", ""):
        refused = client.get("/", headers={"host": host})
        assert refused.status_code == 421
        assert "conversation" not in refused.text
    assert client.get("/", headers={"host": "localhost:8642"}).status_code == 200


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/nowhere", "There is nothing at /nowhere"),
        ("/turn", "missing: conversation, turn."),
        ("/turn?conversation=plain", "missing: turn."),
        ("/turns?conversation=nobody", "no conversation 'nobody'"),
        ("/turn?conversation=plain&turn=x", "no recall happened at 'x'"),
        ("/turn?conversation=plain&turn=../../etc", "no recall happened"),
        ("/?cand=nothing", "has no arm 'nothing'"),
        ("/?base=tier_quota_v1&cand=tier_quota_v1", "is both baseline and candidate"),
        ("/?show=odd", "no filter 'odd'"),
        ("/conversations?page=99", "no page '99'"),
        ("/conversations?page=²", "no page"),
        ("/conversations?page=0", "no page '0'"),
        ("/turns?page=0000000012", "no page '0000000012'"),
        (f"/probes?page=000000001{'0' * 5000}", "no page"),
        ("/conversations?sort=odd", "cannot sort conversations by 'odd'"),
    ],
)
def test_unknown_page_gives_a_clear_message(client: Any, address: str, said: str) -> None:
    page = client.get(address)
    assert page.status_code == 404
    assert said in unescape(page.text)
    assert "Traceback" not in page.text
    # Each leads back.
    assert '<a data-up href="/conversations">All conversations</a>' in page.text


def test_damaged_receipts_are_reported_and_others_shown(client_of: MakeClient, copied: RunDirectory) -> None:
    copied.receipts("plain").write_bytes(b"PAR1 nothing")
    copied.receipts("other").unlink()
    client = client_of(copied)
    page = client.get("/conversations")
    assert "conversations. 1 cannot be read. 1 is not replayed yet." in " ".join(
        re.sub("<[^>]*>", "", page.text).split()
    )
    for name, said, status in (("plain", "cannot be read", 500), ("other", "is not replayed yet", 404)):
        told = client.get(f"/turns?conversation={name}")
        assert (told.status_code, f"<bdi>{name}</bdi> {said}" in told.text) == (200, True)
        assert client.get(f"/turn?conversation={name}&turn=x").status_code == status
    assert "damaged" in client.get("/turns?conversation=plain").text
    assert client.get(f"/turns?conversation={quote(NAME)}").text.count("<tr data-step") > 5
    # Damaged after it was read.
    copied.receipts(NAME).write_bytes(b"")
    told = client.get(f"/turn?conversation={quote(NAME)}&turn={quote(NAME)}/s04/t3")
    assert (told.status_code, "damaged or altered" in told.text) == (500, True)


def test_run_without_recording_is_shown_without_explanation(
    client_of: MakeClient, copied: RunDirectory, index: Index
) -> None:
    copied.manifest = replace(copied.manifest, asked={**copied.manifest.asked, "path": str(copied.path / "gone")})
    page = client_of(copied).get(turn_address(index, 2, arm="tier_first_v1"))
    assert page.status_code == 200
    assert "cannot be explained" in page.text
    assert index.memories[0] in unescape(page.text)


def test_run_without_gold_or_second_arm_has_pages(
    client_of: MakeClient, copied: RunDirectory, resealed: Callable[..., RunDirectory]
) -> None:
    (copied.path / "golden.jsonl").write_bytes(b"")
    for conversation in copied.conversations:
        table = read_table(copied.receipts(conversation))
        own = [row for row, arm in enumerate(table["arm"].to_pylist()) if arm == copied.arms[0]]
        write_table(table.take(own), copied.receipts(conversation))
    alone = resealed(copied.path, lambda manifest: manifest["resolved"]["arms"].__delitem__(slice(1, None)))
    client = client_of(alone)
    for address in (
        "/",
        "/conversations",
        "/conversations?show=missed",
        "/probes",
        "/turns?conversation=plain",
        "/compare",
    ):
        page = client.get(address)
        assert page.status_code == 200
        assert "Candidate" not in page.text
    # One arm neither gains nor loses.
    shown = re.findall('<option value="([^"]*)"', client.get("/conversations").text)
    assert shown == ["", *(one for one in FILTERS if one not in PAIR_FILTERS)]
    told = client.get("/?show=gained")
    assert (
        told.status_code,
        "filter 'gained' needs two arms; known: probes, missed" in unescape(told.text),
    ) == (
        404,
        True,
    )
    shutil.rmtree(copied.path / "receipts")
    assert "not replayed yet" in client_of(alone).get("/conversations").text


def links(page: str) -> list[str]:
    return [unescape(one) for one in re.findall(r'href="(/[^"]*)"', page)]


def unquoted(text: str) -> str:
    from urllib.parse import unquote_plus

    return unquote_plus(text)


@pytest.mark.parametrize("hosts", [[], [b"127.0.0.1:8642", b"evil.example"], [b"127.0.0.1:8642", b"127.0.0.1:8642"]])
def test_request_without_exactly_one_host_is_refused(hosts: list[bytes]) -> None:
    """Which of two names a browser was led to by, nobody can tell."""
    said: list[Any] = []

    async def asked() -> None:
        async def send(message: Any) -> None:
            said.append(message)

        async def refuse(*_: Any) -> None:
            raise AssertionError("the application was asked")

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        headers = [(b"host", one) for one in hosts]
        await Guard(refuse, 8642)({"type": "http", "method": "GET", "path": "/", "headers": headers}, receive, send)

    asyncio.run(asked())
    assert said[0]["status"] == 421
    assert (b"x-frame-options", b"DENY") in said[0]["headers"]
