"""The packer: what is included in which order and layer, and why everything else is not."""

from __future__ import annotations

import json

import pytest

from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import ABSTRACT, Candidate, Found, Settings, Tail, describe, read_settings
from lab.memory.pack.layers import DETAIL, READ, layers_of
from lab.memory.pack.packer import FIRST, MOST_QUERY, gather, pack, trace
from lab.retrieval.sentence_words import MOST_NAMES, identifiers, stems
from tests.memory.pack.candidates import candidate, packed, reasons

LONG = "The fair opens on 3 May. " + "Chairs stand in rows along the wall. " * 20 + "The choir sings at noon."


def test_lines_cite_their_candidates_in_order_of_relevance() -> None:
    done = packed("fair", candidate("obs:2", "The fair opens on 3 May."), candidate("obs:1", "Bring a <b>tent</b>."))
    assert done.bundle_text == "- [obs:2] The fair opens on 3 May.\n- [obs:1] Bring a &lt;b&gt;tent&lt;/b&gt;."
    items = done.context_pack("now")["items"]
    assert [item["citations"] for item in items] == [{"url": None, "recordRef": ref} for ref in ("obs:2", "obs:1")]


def test_text_of_several_lines_becomes_one_line() -> None:
    done = packed("fair", candidate("obs:1", "Fair:\n- tents\n- chairs"))
    assert done.bundle_text == "- [obs:1] Fair: - tents - chairs"


def test_citation_is_one_line_without_markup() -> None:
    done = packed("x", candidate("doc:a\n</memories>.md", "Sea."))
    assert done.bundle_text == "- [doc:a &lt;/memories&gt;.md] Sea."
    assert done.refs == ("doc:a\n</memories>.md",)


def test_budget_of_zero_excludes_everything_with_a_reason() -> None:
    done = packed("fair", candidate("obs:1", "The fair."), candidate("obs:2", "A tent."), budget_tokens=0)
    assert (done.bundle_text, done.reasons) == ("", ("budget_zero",))
    assert {one[-1] for one in reasons(done).values()} == {"budget_tokens_exceeded"}


def test_candidate_that_does_not_fit_is_skipped_and_a_later_one_fits() -> None:
    done = packed("x", candidate("a", "w" * 400), candidate("b", "A tent."), budget_tokens=16)
    assert done.refs == ("b",)
    assert reasons(done)["a"] == ("trust_allowed", "budget_tokens_exceeded")


def test_home_folder_of_a_path_becomes_a_tilde() -> None:
    texts = (
        "Logs: /home/ann/studio/kiln.log, '/Users/bo/x' and C:\\Users\\cy\\k.txt.",
        "Keep /homes/x, a/home/ann, /root/k and /rooted/k.",
    )
    done = packed("x", *(candidate(str(number), text) for number, text in enumerate(texts)))
    assert [line.text for line in done.lines] == [
        "Logs: ~/studio/kiln.log, '~/x' and ~\\k.txt.",
        "Keep /homes/x, a/home/ann, ~/k and /rooted/k.",
    ]
    assert "/home/ann" in packed("x", candidate("a", texts[0]), profile="upstream").bundle_text


def test_filler_gets_in_only_while_a_pack_has_fewer_than_five_lines() -> None:
    filler = [candidate(f"f{number}", f"Small talk {number}.", importance="ignore") for number in range(6)]
    facts = [candidate(f"g{number}", f"Fact {number}.") for number in range(3)]
    done = packed("x", *filler, *facts)
    # What stands first is still the most relevant.
    assert done.refs == ("f0", "f1", "g0", "g1", "g2")
    assert reasons(done)["f2"] == ("trust_allowed", "graded_ignore")
    # A limit of over 15 lines leaves it to the budget.
    assert len(packed("x", *filler, *facts, limit=16).refs) == 9
    assert len(packed("x", *filler, *facts, profile="upstream", dissent=False, most_details=0).refs) == 9


def test_secret_in_a_query_is_in_no_output_of_profile_seed() -> None:
    secret = "sk-ant-" + "api03-" + "A" * 30
    query = f"the fair, {secret}"
    for profile, kept in (("seed", False), ("upstream", True)):
        done = packed(query, candidate("a", "The fair."), profile=profile)
        assert (secret in json.dumps([trace(done, "now", version="x"), done.context_pack("now")])) is kept


def test_text_that_is_included_already_is_left_out() -> None:
    done = packed("x", candidate("a", "A tent."), candidate("b", "a\n TENT."), candidate("c", "A chair."), limit=2)
    assert done.refs == ("a", "c")
    assert reasons(done)["b"] == ("trust_allowed", "duplicate_text")
    long = packed("x", candidate("a", "w" * 400), candidate("b", "w" * 400), budget_tokens=16)
    assert reasons(long)["b"][-1] == "budget_tokens_exceeded"


def test_upstream_packs_equal_texts() -> None:
    same = candidate("a", "A tent."), candidate("b", "A tent.")
    assert packed("x", *same, profile="upstream", dissent=False, most_details=0).refs == ("a", "b")


def test_share_of_an_overview_is_read_and_described() -> None:
    settings = read_settings({"overviewShare": 0.25, "budgetTokens": 40}, "mine.json")
    assert (settings.overview_tokens, describe(settings)["overviewShare"]) == (32, 0.25)


def test_long_text_is_its_own_raw_record() -> None:
    first = "The gateway timeout of the old gateway is long, "
    first += "as all who have ever waited for it on a cold morning know well. "
    text = first + "Chairs stand in rows. " * 30 + "E1042 came at noon."
    (line,) = packed("gateway timeout old long E1042", candidate("a", text), budget_tokens=100).lines
    assert (line.layer, "E1042" in line.text) == ("L2", True)


def test_equal_texts_with_different_raw_records_are_packed() -> None:
    first = candidate("a", "The gateway restarted.", detail="exit code E1041")
    done = packed("what was E1042", first, first._replace(ref="b", detail="exit code E1042"), first._replace(ref="c"))
    assert [(line.candidate.ref, line.layer) for line in done.lines] == [("a", "L1"), ("b", "L2")]
    assert reasons(done)["c"] == ("trust_allowed", "duplicate_text")
    same = packed("what was E1041", first, first._replace(ref="b"), most_details=1)
    assert (same.refs, reasons(same)["b"][-1]) == (("a",), "duplicate_text")


def test_text_of_the_tail_is_not_packed_again() -> None:
    done = packed("fair", candidate("a", "The Fair."), turns=["The fair."], tail=Tail(4, 50))
    assert (done.refs, reasons(done)["a"][-1]) == (("tail:1",), "duplicate_text")


def test_limit_excludes_the_rest() -> None:
    done = packed("x", *(candidate(f"obs:{n}", f"Tent {n}.") for n in range(5)), limit=2, dissent=False)
    assert done.refs == ("obs:0", "obs:1")
    assert reasons(done)["obs:4"][-1] == "max_items_reached"


def test_abstract_of_a_long_text_has_the_sentences_of_the_query() -> None:
    (line,) = packed("When does the choir sing?", candidate("a", LONG), budget_tokens=150).lines
    assert (line.layer, line.text) == ("L0", "… The choir sings at noon.")


def test_text_of_over_half_the_budget_leaves_room_for_others() -> None:
    texts = candidate("a", LONG), candidate("b", "The choir: " + "row " * 60)
    done = packed("choir", *texts, budget_tokens=250)
    assert [line.layer for line in done.lines] == ["L0", "L1"]
    assert reasons(done)["a"][-1] == "overview_over_budget"
    assert [line.layer for line in packed("choir", *texts, budget_tokens=250, overview_share=1.0).lines] == ["L1", "L0"]


def test_abstracts_beyond_the_first_candidates_come_after_whole_texts() -> None:
    first = [candidate(f"n{number}", f"Note {number} of the choir.") for number in range(FIRST)]
    late, last = candidate("late", LONG), candidate("last", "The choir is in the mill.")
    done = packed("choir", *first, late, last, limit=FIRST + 1, budget_tokens=250)
    assert done.refs[-1] == "last"
    assert reasons(done)["late"][-1] == "max_items_reached"
    roomy = packed("choir", *first, late, last, limit=99, budget_tokens=250)
    assert [(line.candidate.ref, line.layer) for line in roomy.lines[-2:]] == [("late", "L0"), ("last", "L1")]
    assert packed("choir", *first[1:], late, last, limit=FIRST, budget_tokens=250).refs[-1] == "late"


def test_text_longer_than_what_is_read_is_never_packed_whole() -> None:
    text = "The choir sings at noon. " + "la " * READ
    (line,) = packed("choir", candidate("a", text), budget_tokens=1_000_000, overview_share=1.0).lines
    assert (line.layer, tokens(line.text) <= ABSTRACT) == ("L0", True)


def test_long_text_gives_its_own_raw_record_for_a_name_that_its_abstract_lacks() -> None:
    text = f"The choir sings. {'The choir walks along the river. ' * 12}It was paid by invoice INV-77."
    (line,) = packed("choir choir INV-77 river", candidate("a", text, abstract="Choir."), budget_tokens=120).lines
    assert (line.layer, "INV-77" in line.text) == ("L2", True)


def test_rest_of_the_budget_goes_to_whole_texts_in_order() -> None:
    first, second = candidate("a", LONG), candidate("b", LONG.replace("fair", "mill"))
    done = packed("choir", first, second, budget_tokens=300)
    assert [(line.layer, line.text == LONG) for line in done.lines] == [("L1", True), ("L0", False)]
    assert reasons(done)["a"][-1] == "within_budget"
    assert [one.layer for one in done.decisions] == ["L1", "L0"]
    assert tokens(done.bundle_text) <= 300


def test_abstract_is_packed_where_the_overview_does_not_fit() -> None:
    text = "The choir sings at noon. " + "The choir then walks along the river to the mill. " * 6
    done = packed("choir", candidate("a", text, abstract="Choir at noon."), budget_tokens=24)
    assert done.bundle_text == "- [a] Choir at noon."
    assert reasons(done)["a"][-1] == "overview_over_budget"


def test_raw_record_is_packed_if_it_alone_has_the_number_of_the_query() -> None:
    raw = "unit: gateway\nexit code E1042 after 3 s\ntoken sk-abcdefghijklmnop1234"
    restart = candidate("obs:1", "The gateway restarted.", detail=raw)
    done = packed("what was E1042", restart)
    assert (done.lines[0].layer, done.lines[0].text) == ("L2", "The gateway restarted. … exit code E1042 after 3 s …")
    assert packed("why did the gateway restart", restart).lines[0].layer == "L1"
    assert packed("what was E1042", restart._replace(text="It restarted with E1042.")).lines[0].layer == "L1"
    assert packed("what was E1042", restart._replace(abstract="E1042")).lines[0].layer == "L1"


def test_raw_record_too_long_for_its_abstract_stands_alone() -> None:
    restart = candidate("obs:1", "The gateway restarted.", detail="E1042: " + "word " * 98 + "end")
    assert packed("what was E1042", restart).lines[0].text.startswith("E1042: word")


@pytest.mark.parametrize("start", ["", "ß İ "])
def test_layers_of_text_without_blanks_have_the_part_of_the_query(start: str) -> None:
    filler = "我們今天討論了很多其他的事情，包括假期安排與午餐選擇，還有辦公室的裝修，" * 12
    text = f"{start * 40}{filler}資料庫的連接埠是P-7731，{filler}"
    terms, names = stems("資料庫的連接埠是多少 P-7731"), identifiers("資料庫的連接埠是多少 P-7731")
    long = layers_of(candidate("a", text), terms, names, 100)
    assert (long.is_long, "資料庫" in long.abstract) == (True, True)
    found = layers_of(candidate("a", "短", detail=text), terms, names, 100).detail
    assert found is not None
    assert "P-7731" in found
    assert tokens(found) <= DETAIL
    # Half of its tokens precede the name.
    before = found[: found.index("P-7731")]
    assert 0.45 * DETAIL <= tokens(before) <= 0.55 * DETAIL


def test_raw_record_is_redacted() -> None:
    done = packed("E1042", candidate("a", "Restart.", detail="E1042 with key sk-abcdefghijklmnop1234"))
    assert "abcdefgh" not in done.bundle_text
    assert "REDACTED" in done.bundle_text


def test_raw_records_are_limited_in_number() -> None:
    several = [candidate(f"obs:{n}", f"Restart {n}.", detail=f"E1042 at {n}") for n in range(3)]
    done = packed("E1042", *several)
    assert [line.layer for line in done.lines] == ["L2", "L2", "L1"]
    assert [one.l2_cap for one in done.decisions] == [False, False, True]


def test_quarantined_candidate_is_excluded_and_unknown_is_not() -> None:
    done = packed("x", candidate("a", "Tent.", trust="quarantined"), candidate("b", "Chair.", trust="unknown"))
    assert done.refs == ("b",)
    assert reasons(done) == {
        "b": ("trust_unknown_fail_open", "within_item_limit", "within_budget"),
        "a": ("trust_quarantined_excluded",),
    }
    assert packed("x", candidate("a", "Tent.", trust="quarantined"), trust_policy="off").refs == ("a",)


def test_superseded_candidate_is_dropped_with_a_reason() -> None:
    old, new = candidate("a", "Port 80."), candidate("b", "Port 443.", supersedes=("a",))
    done = packed("port", old, new)
    assert done.refs == ("b",)
    assert reasons(done)["a"][-1] == "superseded"


def test_quarantined_candidate_supersedes_nothing() -> None:
    old, new = candidate("a", "Port 80."), candidate("b", "Port 1.", supersedes=("a",), trust="quarantined")
    assert packed("port", old, new).refs == ("a",)


def test_cyclic_supersession_keeps_the_cycle_and_drops_what_it_supersedes() -> None:
    first = candidate("a", "Port 80.", supersedes=("b", "c"))
    second = candidate("b", "Port 443.", supersedes=("a",))
    done = packed("port", first, second, candidate("c", "Port 1."), candidate("d", "Self.", supersedes=("d",)))
    assert done.refs == ("a", "b", "d")
    assert all("supersession_cycle_fail_open" in reasons(done)[ref] for ref in ("a", "b", "d"))


def test_past_plan_is_excluded_and_a_coming_one_is_not() -> None:
    done = packed(
        "x",
        candidate("past", "Move.", kind="plan", due_ms=10),
        candidate("next", "Sail.", kind="plan", due_ms=11),
        candidate("fact", "Sea.", due_ms=1),
        candidate("Past", "Row.", kind=" Plan", due_ms=10),
        now_ms=11,
    )
    assert done.refs == ("next", "fact")
    assert reasons(done)["Past"][-1] == "plan_past"
    assert reasons(done)["past"][-1] == "plan_past"


def test_past_plan_still_supersedes_the_plan_before_it() -> None:
    moved = candidate("moved", "Sail on Monday.", kind="plan", due_ms=10, supersedes=("first",))
    done = packed("x", moved, candidate("first", "Sail on Friday.", kind="plan", due_ms=90), now_ms=11)
    assert {ref: said[-1] for ref, said in reasons(done).items()} == {"moved": "plan_past", "first": "superseded"}


def test_quota_reserves_a_preference_and_a_decision_and_caps_events() -> None:
    events = [candidate(f"e{n}", f"Event {n}.", kind="event") for n in range(4)]
    last = [candidate("d", "Decided.", kind="decision"), candidate("p", "Prefers.", kind="preference")]
    last += [candidate(f"n{n}", f"Note {n}.") for n in range(2)]
    done = packed("x", *events, *last, limit=5)
    assert done.refs == ("e0", "e1", "d", "p", "n0")
    assert reasons(done)["e2"][-1] == "quota_event_capped"
    assert packed("x", *events, *last, limit=4).refs == ("e0", "d", "p", "n0")
    upstream = packed("x", *events, *last, profile="upstream", limit=5, dissent=False, most_details=0)
    assert upstream.refs == ("p", "d", "e0", "e1", "n0")
    assert [(hit["kind"], hit["action"]) for hit in done.quota_hits] == [
        ("preference", "reserved"),
        ("decision", "reserved"),
        ("event", "capped"),
    ]


def test_events_above_their_quota_fill_what_others_leave() -> None:
    events = [candidate(f"e{n}", f"Event {n}.", kind="event") for n in range(3)]
    done = packed("x", *events, limit=2)
    assert done.refs == ("e0", "e1")
    assert [reasons(done)[ref][1:] for ref in ("e0", "e2")] == [
        ("quota_event_capped", "within_item_limit", "within_budget"),
        ("quota_event_capped",),
    ]
    note = candidate("n", "Note.")
    assert packed("x", *events, note, limit=3).refs == ("e0", "e1", "n")
    assert packed("x", *events, note, limit=2).refs == ("e0", "n")
    upstream = packed("x", *events, profile="upstream", limit=2, dissent=False, most_details=0)
    assert upstream.refs == ()


def test_candidates_of_two_lanes_are_fused_and_each_ref_counts_once() -> None:
    both = candidate("b", "Both.", retrievers=("fts",))
    founds = [
        Found("one", [candidate("a", "First."), both]),
        Found("two", [both._replace(retrievers=("vector",)), candidate("c", "Last.")]),
    ]
    done = pack("x", founds, Settings())
    assert done.refs == ("b", "a", "c")
    assert done.decisions[0].candidate.retrievers == ("fts", "vector")


def test_tail_keeps_the_newest_turns_at_the_end() -> None:
    turns = ["one " * 40, "two", "three"]
    done = packed("fair", candidate("a", "The fair."), turns=turns, budget_tokens=60, tail=Tail(4, 14))
    assert done.bundle_text == "- [a] The fair.\n- [tail:2] two\n- [tail:3] three"
    assert reasons(done)["tail:1"] == ("protected_tail", "tail_budget_tokens_exceeded")


def test_blank_query_searches_no_lane() -> None:
    class Broken:
        name = "broken"

        def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
            raise AssertionError("searched")

    founds = gather([Broken()], " \n ", Settings())
    done = pack(" \n ", founds, Settings())
    assert (founds[0].searched, founds[0].reason, done.reasons) == (False, "query_blank", ("query_blank",))


def test_long_query_is_cut_with_a_reason() -> None:
    done = packed("fair " * 300_000, candidate("a", "The fair."))
    assert len(done.query) == MOST_QUERY
    assert done.reasons == ("query_cut_to_4000_characters",)


@pytest.mark.parametrize("text", ["", "   \n"])
def test_candidate_without_text_is_excluded(text: str) -> None:
    assert reasons(packed("x", candidate("a", text)))["a"][-1] == "missing_summary"


def test_trace_has_every_candidate_with_reasons_and_no_text() -> None:
    done = packed("fair", candidate("a", "SECRET-ONE"), candidate("b", "SECRET-TWO " * 90), budget_tokens=12)
    traced = trace(done, "now", version="v", refreshed=["a"])
    assert {one["id"] for one in traced["candidates"]} == {"a", "b"}
    assert all(one["decision"]["reason"] and one["citations"]["recordRef"] for one in traced["candidates"])
    assert traced["output"]["coverage"]["allIncludedHaveCitations"]
    assert traced["output"]["refreshedRecordRefs"] == ["a"]
    assert "SECRET" not in str(traced)


def test_estimate_of_chinese_text_stays_within_the_budget() -> None:
    done = packed(
        "陶盆", *(candidate(f"obs:{n}", f"決定採用陶盆種羅勒，第{n}次。") for n in range(9)), budget_tokens=70
    )
    assert 0 < len(done.lines) < 9
    assert tokens(done.bundle_text) <= 70


def test_record_of_a_candidate_is_not_changed() -> None:
    one = Candidate("a", "Tent.", "test")
    assert packed("x", one).lines[0].candidate.text == "Tent."


def test_long_prompt_of_identifiers_asks_for_the_first_ones() -> None:
    names = [f"req-{number}" for number in range(400)]
    assert identifiers(" ".join(names)) == tuple(names[:MOST_NAMES])
    text = " ".join(f"Line {number} of REQ-{number} ends." for number in range(400))
    assert (layers_of(candidate("a", "短", detail=text), frozenset(), names[30:32], 100).detail or "").count(
        "REQ-3"
    ) == 2
