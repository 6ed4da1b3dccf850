"""auto_recall: skipped prompts, drafts, minimum score, budget, failures, and the feedback of its own blocks."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.explain import CAUSES
from lab.replay.loop import RecallCall, TurnWrites
from lab.systems.contract import Ask, Detail, Recall
from lab.systems.files.auto_recall import AutoRecallArm, block, fitting, penalised, skip_reason
from lab.systems.files.folder import Chunk, Entry, Piece
from lab.systems.files.index import Indexed
from lab.systems.files.search import Hit
from lab.systems.registry import make_arm, parse_arms
from lab.systems.spec import ArmSpec
from tests.playing import keys_of, kit_for, played


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def arm(**config: Any) -> AutoRecallArm:
    made = make_arm(ArmSpec("auto_recall", "auto_recall", config))
    assert isinstance(made, AutoRecallArm)
    return made


@pytest.mark.parametrize(
    ("prompt", "skipped"),
    [
        ("", True),
        ("nine chars"[:9], True),
        ("  nine cha  ", True),
        ("ten chars!", False),
        ("我的偏好是什麼?", True),
        ("我的偏好到底是什麼呢?", False),
        ("😀😀😀😀😀", False),
        ("HEARTBEAT_OK, and nothing else", True),
        ("Why does it say HEARTBEAT_OK so often?", False),
        ("NO_REPLY\nNO_REPLY", True),
        ("/model claude-next", True),
        ("/approve\tthe request", True),
        ("/resetting the boiler", False),
        ("/compact the session", False),
    ],
)
def test_prompts_without_need_of_memory_are_skipped(prompt: str, skipped: bool) -> None:
    assert bool(skip_reason(arm(), prompt)) == skipped


def test_skip_patterns_replace_the_defaults() -> None:
    chosen = arm(skipPatterns=[r"^!deploy\b"], minChars=0)
    assert [bool(skip_reason(chosen, text)) for text in ("!deploy", "/status", "hi")] == [True, False, False]


def hit(row: int, score: float, path: str = "MEMORY.md", text: str = "") -> Hit:
    return Hit(row, Indexed(Chunk(path, "memory", (Piece(1, text, Entry(f"m{row}", text)),))), score, vec_rank=row)


def decided(chosen: AutoRecallArm, *hits: Hit) -> dict[int, str]:
    return fitting(chosen, penalised(chosen, hits))[1]


def test_drafts_lose_a_penalty_before_the_minimum_or_after() -> None:
    hits = [
        hit(1, 0.62, "memory/drafts/2026-01-01.md"),
        hit(2, 0.66, "memory/draft-call.md"),
        hit(3, 0.55, "memory/draft-call.md.txt"),
        hit(4, 0.51),
        hit(5, 0.49),
    ]
    assert [one.row for one in penalised(arm(), hits)] == [3, 2, 4, 5, 1]
    assert decided(arm(), *hits) == {
        3: "injected", 2: "injected", 4: "injected", 5: "below_min_score", 1: "below_min_score"
    }  # fmt: skip
    # The host has applied the minimum to the raw scores.
    assert set(decided(arm(min_score_stage="raw"), *hits).values()) == {"injected"}
    assert decided(arm(draftPenalty=0.0), *hits)[1] == "injected"
    assert decided(arm(draftPatterns=[]), *hits)[1] == "injected"


def test_twice_the_results_are_fetched_so_that_a_note_can_pass_a_draft() -> None:
    query = "harbour pilot log Marguerite"
    draft = said(0, query, "tool")
    note = Memory("c/s/0#0", "harbour pilot log of Marguerite Oduya", "", 0, 10)
    for penalty, source in ((0.5, "memory/1970-01-01.md"), (0.0, "memory/drafts/2026-01-05.md")):
        chosen = arm(maxResults=1, minScore=0.05, draftPenalty=penalty)
        answers, _ = replayed(chosen, draft, said(1, query), memories=(note,))
        assert f"Source: {source}" in answers[-1].recall.context
        assert answers[-1].recall.context.count("Source: ") == 1


def test_raw_minimum_is_applied_by_the_search() -> None:
    # No chunk has all words of the prompt, so that the host's exception for them does not apply.
    prompt = said(0, "harbour pilot, or another question?")
    for minimum, injected in ((0.0, 2), (0.9, 0)):
        answers, _ = replayed(arm(minScore=minimum, min_score_stage="raw"), prompt)
        assert answers[0].recall.injected == injected
        assert len(answers[0].recall.receipt["results"]) == bool(injected)


def test_five_results_fit_and_a_long_one_stops_or_is_skipped() -> None:
    short = [hit(number, 0.9 - number / 100, text="x" * 40) for number in range(7)]
    assert list(decided(arm(), *short).values()) == ["injected"] * 5 + ["max_results"] * 2
    mixed = [short[0], hit(8, 0.88, text="y" * 4000), short[2]]
    assert list(decided(arm(maxTokens=60), *mixed).values()) == ["injected", "max_tokens", "max_tokens"]
    assert list(decided(arm(maxTokens=60, overflow="skip"), *mixed).values()) == ["injected", "max_tokens", "injected"]
    chosen, _ = fitting(arm(maxTokens=60), short)
    assert tokens(block(chosen)) <= 60 < tokens(block(short[: len(chosen) + 1]))
    assert block(chosen).startswith("[auto-recall]\n\nxxxx")
    assert block(chosen[:1]).endswith("Source: MEMORY.md#L1\n\n[/auto-recall]")
    assert block([]) == ""


def said(number: int, text: str, role: str = "user", session: str = "s") -> Turn:
    return Turn(f"c/{session}/{number}", number, session, role, text, 1_767_603_600_000 + 60_000 * number)


FACTS = ("the harbour pilot is Marguerite Oduya", "invoices of the bakery are filed in green folders")
MEMORIES = tuple(Memory(f"c/s/0#{number}", text, text, 0, 10 + number) for number, text in enumerate(FACTS))
ASKS = (said(0, "who is the harbour pilot? is it Marguerite?"), said(1, "ok"), said(2, "where are invoices filed?"))


def replayed(chosen: AutoRecallArm, *turns: Turn, memories: tuple[Memory, ...] = MEMORIES, **more: Any) -> Any:
    calls: list[RecallCall] = []
    answers = played(Recording("c", turns, memories), [chosen], on_recall=calls.append, **more)
    assert [answer.failure for answer in answers] == [None] * len(answers)
    return answers, calls


def test_relevant_notes_are_injected_between_the_tags() -> None:
    answers, calls = replayed(arm(minScore=0.1), *ASKS)
    assert [answer.recall.status for answer in answers] == ["ok", "skipped", "ok"]
    first = answers[0].recall
    assert first.context.startswith("[auto-recall]\n\n- the harbour pilot is Marguerite Oduya\n")
    assert first.context.endswith("\nSource: memory/1970-01-01.md#L1-L2\n\n[/auto-recall]")
    # One chunk of the day holds both.
    assert (keys_of(answers[0]), first.injected) == (["c/s/0#0", "c/s/0#1"], 2)
    assert first.receipt["results"][0]["decision"] == "injected"
    assert first.receipt["tokens"] == tokens(first.context) <= 768
    assert not any(fact[:12] in json.dumps(first.receipt) for fact in FACTS)
    quiet, _ = replayed(arm(minScore=1.0), *ASKS)
    assert [(answer.recall.status, answer.recall.context) for answer in quiet] == [
        ("ok", ""),
        ("skipped", ""),
        ("ok", ""),
    ]
    system: Any = calls[0].system
    explained = system.explain(calls[1].ask, None, Recall(), ["c/s/0#0"], Detail())
    assert set(explained.causes.values()) <= set(CAUSES)


def asked(chosen: AutoRecallArm, *faults: str, probe: bool = False) -> Recall:
    with closing(kit_for(chosen, *FACTS)) as kit, closing(chosen.open(kit)) as system:
        system.remember(MEMORIES)
        text = "who is the harbour pilot Marguerite"
        return system.recall(Ask("c/s/9", text, 20, probe=probe, faults=frozenset(faults)))


@pytest.mark.parametrize(
    ("faults", "injected", "status"),
    [
        (("embedder_down",), True, "degraded"),
        (("input_too_long",), True, "degraded"),
        (("fts_error",), True, "degraded"),
        (("vector_error", "fts_error"), False, "degraded"),
        (("slow_store",), True, "ok"),
        (("docs_missing",), True, "ok"),
    ],
)
def test_failing_searches_never_fail_the_turn(faults: tuple[str, ...], injected: bool, status: str) -> None:
    recall = asked(arm(minScore=0.05), *faults)
    assert (bool(recall.context), bool(recall.injected), recall.status) == (injected, injected, status)


def test_a_search_that_is_too_slow_leaves_the_prompt_alone() -> None:
    slow = asked(arm(minScore=0.05), "slow_store")
    assert slow.timings["search"] > 1_000_000_000
    late = asked(arm(minScore=0.05, timeoutMs=1000), "slow_store")
    assert (late.context, late.items, late.status, late.receipt) == ("", (), "degraded", {"failed": "timeout"})


def test_explanations_name_minimum_slots_budget_and_snippet() -> None:
    texts = ["harbour pilot " * 3 + f"number {number} " + "x" * 400 for number in range(8)]
    memories = tuple(Memory(f"c/s/0#{number}", text, text, 0, number * 86_400_000) for number, text in enumerate(texts))
    long = Memory("c/s/0#8", "tail of a note", "", 0, 0)

    def causes(**config: Any) -> set[str]:
        chosen = arm(**{"minScore": 0.01} | config)
        answers, calls = replayed(chosen, said(0, "harbour pilot, please"), memories=(*memories, long))
        every = [memory.key for memory in (*memories, long)]
        system: Any = calls[0].system
        explained = system.explain(calls[0].ask, None, answers[0].recall, every, Detail())
        answer = answers[0].recall
        assert set(explained.causes) == set(every) - {item.id for item in answer.items[: answer.injected]}
        return set(explained.causes.values())

    assert causes(maxTokens=300) == {"budget", "slot"}
    assert causes(minScore=0.9) == {"silent"}
    assert causes(maxTokens=100_000) == {"slot"}
    assert causes(maxTokens=100_000, maxResults=20) == set()
    with pytest.raises(UnusableInput, match="minScore: expected a number from 0 to 1"):
        causes(minScore=7)


@pytest.mark.parametrize(("minimum", "cause"), [(0.01, "snippet"), (0.99, "silent")])
def test_memory_beyond_the_part_shown_is_a_snippet_only_if_its_chunk_is_injected(minimum: float, cause: str) -> None:
    texts = ["harbour pilot " + "x" * 900, "the pilot's tail of the same day"]
    memories = tuple(Memory(f"c/s/0#{number}", text, text, 0, 0) for number, text in enumerate(texts))
    answers, calls = replayed(arm(minScore=minimum), said(0, "harbour pilot, please"), memories=memories)
    assert bool(answers[0].recall.context) == (cause == "snippet")
    system: Any = calls[0].system
    explained = system.explain(calls[0].ask, None, answers[0].recall, ["c/s/0#1"], Detail())
    assert explained.causes == {"c/s/0#1": cause}
    assert explained.reasons["c/s/0#1"].endswith("beyond the 700 characters that a result shows")


def transcripts(answers: int = 3, **config: Any) -> tuple[list[TurnWrites], list[str], list[int]]:
    """Ask the same three times with captures; return what was stored and injected, and the counted echoes."""
    wrote: list[TurnWrites] = []
    turns = [said(0, "The harbour pilot is Marguerite Oduya, remember.")]
    turns += [said(number + 1, "who is the harbour pilot Marguerite?") for number in range(answers)]
    got, _ = replayed(arm(minScore=0.05, **config), *turns, memories=(), source="captured", on_writes=wrote.append)
    recalls = [answer.recall for answer in got]
    return wrote, [recall.context for recall in recalls], [recall.receipt["quoting"] for recall in recalls]


def test_transcripts_keep_injected_blocks_unless_tags_are_removed() -> None:
    wrote, contexts, quoting = transcripts()
    stored = [one.text for each in wrote for one in each.writes.created]
    assert contexts[0] == ""
    assert stored[0] == "User: The harbour pilot is Marguerite Oduya, remember."
    assert all(text.startswith("User: [auto-recall] ") and stored[0] in text for text in stored[1:])
    # The block of the third turn quotes the second with its block: an echo of an echo.
    assert stored[3].count("[auto-recall]") > stored[2].count("[auto-recall]") > 0
    assert quoting[:2] == [0, 0]
    assert min(quoting[2:]) > 0
    clean, _, none = transcripts(strip_tags=True)
    assert none == [0, 0, 0, 0]
    assert [one.text for each in clean for one in each.writes.created][1:] == [
        "User: who is the harbour pilot Marguerite?"
    ] * 3


def test_probes_leave_no_block_in_the_transcript() -> None:
    chosen = arm(minScore=0.05)
    query = "who is the harbour pilot Marguerite"
    with closing(kit_for(chosen, *FACTS, captures=True)) as kit, closing(chosen.open(kit)) as system:
        system.observe(said(0, FACTS[0]))
        assert system.recall(Ask("c/s/1", query, 20, probe=True)).context
        (stored,) = system.observe(said(1, query)).created
    assert stored.text == f"User: {query}"


def test_answers_of_the_assistant_are_stored_without_the_block() -> None:
    chosen = arm(minScore=0.05)
    query = "who is the harbour pilot Marguerite"
    with closing(kit_for(chosen, *FACTS, captures=True)) as kit, closing(chosen.open(kit)) as system:
        system.observe(said(0, FACTS[0]))
        assert system.recall(Ask("c/s/1", query, 20)).context
        texts = [
            one.text
            for turn in (said(1, query), said(2, "She is.", "assistant"))
            for one in system.observe(turn).created
        ]
    assert texts[0].startswith("User: [auto-recall] ")
    assert texts[-1] == "Assistant: She is."


def test_tool_output_becomes_a_draft_and_an_item_where_it_is_captured() -> None:
    turns = (said(0, "harbour pilot log: Marguerite on duty", "tool"), said(1, "harbour pilot Marguerite duty log"))
    for source, items in (("captured", ["c/s/0#0"]), ("given", [])):
        answers, _ = replayed(arm(minScore=0.05), *turns, memories=(), source=source)
        assert keys_of(answers[-1]) == items
        assert "Source: memory/drafts/2026-01-05.md#L1" in answers[-1].recall.context
    quiet, _ = replayed(arm(minScore=0.05, memorySearch={"sources": ["sessions"]}), *turns, memories=MEMORIES)
    assert quiet[-1].recall.context == ""


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"minscore": 0.4}, "unknown key 'minscore'; known: maxResults"),
        ({"maxResults": 0}, "maxResults: expected a whole number from 1 to 50, found 0"),
        ({"maxTokens": 1.5}, "maxTokens: expected a whole number"),
        ({"minScore": True}, "minScore: expected a number from 0 to 1, found True"),
        ({"overflow": "cut"}, "overflow: expected one of stop, skip, found 'cut'"),
        ({"strip_tags": "yes"}, "strip_tags: expected true or false"),
        ({"skipPatterns": ["("]}, "skipPatterns: expected regular expressions"),
        ({"skipPatterns": "x"}, "skipPatterns: expected a list of texts, found 'x'"),
        ({"draftRoles": ["system"]}, "draftRoles: expected a list of tool, assistant, user"),
        ({"memorySearch": {"release": "2025.1"}}, "memorySearch: release: expected one of 2026.6.6, 2026.9.6"),
        ({"memorySearch": {"query": {"top": 1}}}, "memorySearch: query: unknown key 'top'"),
        ({"memorySearch": {"chunking": {"tokens": 100, "overlap": 100}}}, "chunking: overlap: expected a whole number"),
        ({"memorySearch": []}, "memorySearch: expected an object, found a list"),
    ],
)
def test_unusable_configurations_name_key_and_value(config: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInput) as error:
        make_arm(ArmSpec("a", "auto_recall", config, where="arm.json"))
    assert str(error.value).startswith("arm.json")
    assert message in str(error.value)


def test_the_plugin_is_found_in_the_file_of_a_host(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    host = {
        "agents": {"defaults": {}},
        "memory": {"search": {"provider": "openai", "query": {"minScore": 0.2}, "sources": ["memory"]}},
        "plugins": {"entries": {"openclaw-auto-recall": {"enabled": True, "config": {"maxTokens": 99}}}},
    }
    file.write_text(json.dumps(host))
    first, second = (make_arm(spec) for spec in parse_arms([f"auto_recall={file}", f"memory_core={file}"]))
    assert (first.describe().config["maxTokens"], first.describe().config["minScore"]) == (99, 0.5)
    assert first.describe().missing == ("provider",)
    assert first.describe().config["memorySearch"]["query"]["minScore"] == 0.2
    assert second.describe().config["query"]["minScore"] == 0.2
    # What an arm describes makes the same arm.
    for one, system in ((first, "auto_recall"), (second, "memory_core")):
        again = make_arm(ArmSpec(system, system, one.describe().config))
        assert again.describe().config == one.describe().config
    file.write_text(json.dumps({"plugins": {"entries": {"other": {}}}}))
    with pytest.raises(UnusableInput, match="has no 'openclaw-auto-recall'"):
        parse_arms([f"auto_recall={file}"])


def test_a_token_budget_takes_as_many_results_as_fit() -> None:
    wide = arm(maxResults=2).with_tokens(300)
    assert (wide.max_tokens, wide.max_results) == (300, 50)
    many = tuple(Memory(f"c/s/0#{n}", f"harbour pilot note {n}", "", 0, n * 86_400_000) for n in range(30))
    answers, _ = replayed(arm(minScore=0.0).with_tokens(300), said(0, "harbour pilot"), memories=many)
    assert 5 < answers[0].recall.injected < 30
    assert 250 < tokens(answers[0].recall.context) <= 300
