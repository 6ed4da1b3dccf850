"""Tests of lint: errors and warnings between a golden set and its recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.formatting import counted
from lab.golden.files import read_golden
from lab.golden.lint import Lint, lint, probe_problems
from lab.golden.model import Aside, GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn
from lab.recordings.readers import read_library

RULE = "The gateway listens on port 8080."


def _recording(name: str = "c0") -> Recording:
    """Return two sessions, gateway and mobile, with a memory after each turn; the third memory has scope global."""
    scopes = ("gateway", "gateway", "mobile", "mobile")
    texts = ("Where does it listen?", "Noted.", "And the app?", f"You said: {RULE} Still so?")
    said = (RULE, "Terse answers", "Dates are ISO 8601 everywhere", "The app pins its certificate")
    turns = tuple(
        Turn(f"{name}/s{1 + seq // 2}/t{seq}", seq, f"s{1 + seq // 2}", "user", texts[seq], seq, scopes[seq])
        for seq in range(4)
    )
    memories = tuple(
        Memory(f"{turn.key}#0", text, text, turn.seq + 1, turn.seq, scope="global" if turn.seq == 2 else turn.scope)
        for turn, text in zip(turns, said, strict=True)
    )
    return Recording(name, turns, memories)


RECORDINGS = tuple(_recording(f"c{number}") for number in range(6))
KEYS = [memory.key for memory in RECORDINGS[0].memories]


def _judged(*places: int) -> tuple[Judgement, ...]:
    return tuple(Judgement(KEYS[place], reason=f"because {place}") for place in places)


def _probe(at: int = 1, relevant: tuple[Judgement, ...] = (), **more: Any) -> Probe:
    key = RECORDINGS[0].turns[at].key
    return Probe(**({"id": key, "conversation": "c0", "turn": key, "query": None, "relevant": relevant} | more))


def _asked(query: str, relevant: tuple[Judgement, ...]) -> Probe:
    return _probe(1, relevant, id="asked", turn=None, query=query)


# A probe without relevant memories in every other conversation: without them, lint warns of too few conversations.
OTHERS = tuple(Probe(f"{one.turns[3].key}", one.conversation, one.turns[3].key, None, ()) for one in RECORDINGS[1:])


def _lint(*probes: Probe) -> Lint:
    return lint(GoldenSet((*probes, *OTHERS)), RECORDINGS)


def test_lint_valid_set_has_only_counts() -> None:
    found = _lint(
        _probe(1, _judged(0)), _probe(2, _judged(), forbidden=_judged(0, 1)), _asked("Which port?", _judged(0, 2))
    )
    assert found == Lint(8, silent=6, relevant=3, forbidden=2, refused=0, unjudged=0, errors=(), warnings=())
    counts = {"probes": 8, "silent": 6, "relevant": 3, "forbidden": 2, "refused": 0, "unjudged": 0}
    assert found.as_json() == counts | {"errors": (), "warnings": (), "conditions": {}, "captures": {}}


def test_lint_irrelevant_memories_are_checked_and_counted() -> None:
    added = "haystack:c1/s1/t0#0"
    probe = _probe(3, forbidden=_judged(0), irrelevant=(KEYS[1], added))
    found = _lint(probe)
    assert (found.errors, found.warnings, found.refused, found.forbidden) == ((), (), 2, 1)
    side = Aside({probe.id: {KEYS[0], KEYS[1], KEYS[2]}}, {})
    # A side file may add memories, but the golden set decides on those that it lists.
    assert lint(GoldenSet((probe, *OTHERS)), RECORDINGS, side).refused == 3
    for key, error in (
        (KEYS[3], f"judges {KEYS[3]}, which does not exist yet at that turn"),
        (KEYS[0], f"judges {KEYS[0]} twice"),
        ("c0/s9/t9#0", "names memory 'c0/s9/t9#0', which the recording does not have"),
        ("haystack:c0/s1/t0#0", "names memory 'haystack:c0/s1/t0#0', which the recording does not have"),
        ("haystack:c1/s9/t9#0", "names memory 'haystack:c1/s9/t9#0', which the recording does not have"),
    ):
        assert _lint(replace(probe, irrelevant=(key,))).errors == (f"golden set: probe {probe.id} {error}",)
    found = _lint(replace(probe, irrelevant=("haystack:c9/s1/t0#0", "haystack:c9/s1/t0#1", added)))
    assert found.errors == ()
    assert found.warnings == (
        "golden set: 2 irrelevant memories cannot be checked, because the recordings lack their conversations: c9",
    )


def test_probe_problems_partly_read_set_allows_unread_conversations() -> None:
    keys = ("haystack:c1/s1/t0#0", "haystack:other:x/s1#0")
    relevant = _probe(3, tuple(Judgement(key, reason="r") for key in keys))
    for probe in (_probe(3, irrelevant=keys), relevant):
        assert probe_problems(RECORDINGS[:1], [probe]) == []
    (problem,) = probe_problems(RECORDINGS[:1], [relevant], complete=True)
    assert problem.endswith("names memory 'haystack:c1/s1/t0#0', which the recording does not have")
    (problem,) = probe_problems(RECORDINGS[:1], [_probe(3, irrelevant=("haystack:c0/s1/t0#0",))])
    assert "haystack:c0/s1/t0#0" in problem


def test_lint_same_question_irrelevant_is_no_contradiction() -> None:
    first, second = _asked("Which port?", _judged(0)), replace(_asked("which  PORT?", _judged(0)), id="again")
    assert _lint(first, replace(second, irrelevant=(KEYS[1],))).errors == ()
    (error,) = _lint(first, replace(second, relevant=(), irrelevant=(KEYS[0],))).errors
    assert error == f"golden set: probes asked and again have the same question, but judge {KEYS[0]} differently"


def test_lint_duplicate_judged_irrelevant_is_a_doubt() -> None:
    copy = replace(RECORDINGS[0].memories[0], key="c0/s1/t0#1")
    recording = replace(RECORDINGS[0], memories=(copy, *RECORDINGS[0].memories))
    probe = _probe(1, _judged(0), irrelevant=(copy.key,))
    warnings = lint(GoldenSet((probe, *OTHERS)), (recording, *RECORDINGS[1:])).warnings
    doubt = f"judges {KEYS[0]} 1 but {copy.key} 0, which has the same text"
    assert warnings == (f"golden set: probe {probe.id} {doubt}",)


def test_lint_empty_set_is_an_error() -> None:
    few = "0 conversations: a two-sided sign-flip test needs 6 for p < .05"
    assert lint(GoldenSet(), RECORDINGS) == Lint(0, 0, 0, 0, 0, 0, ("golden set: has no probe",), (few,))


@pytest.mark.parametrize(
    ("probe", "error"),
    [
        (
            _probe(conversation="c9"),
            "probe c0/s1/t1 names conversation 'c9', which no recording has",
        ),
        (
            _probe(id="p", turn="c0/s1/t9"),
            "probe p names turn 'c0/s1/t9', which the recording does not have",
        ),
        (
            _probe(1, (Judgement("c0/s1/t9#0", reason="x"),)),
            "probe c0/s1/t1 names memory 'c0/s1/t9#0', which the recording does not have",
        ),
        (
            _probe(1, forbidden=(Judgement("c1/s1/t0#0", reason="x"),)),
            "probe c0/s1/t1 names memory 'c1/s1/t0#0', which the recording does not have",
        ),
        (_probe(1, _judged(0, 0)), f"probe c0/s1/t1 judges {KEYS[0]} twice"),
        (_probe(1, _judged(0), forbidden=_judged(0)), f"probe c0/s1/t1 judges {KEYS[0]} twice"),
        (_probe(1, forbidden=_judged(0, 0)), f"probe c0/s1/t1 judges {KEYS[0]} twice"),
        (_probe(1, _judged(1)), f"probe c0/s1/t1 judges {KEYS[1]}, which does not exist yet at that turn"),
        (_probe(1, forbidden=_judged(3)), f"probe c0/s1/t1 judges {KEYS[3]}, which does not exist yet at that turn"),
    ],
    ids=[
        "unknown conversation",
        "unknown turn",
        "unknown memory",
        "memory of another conversation",
        "relevant twice",
        "relevant and forbidden",
        "forbidden twice",
        "born in the turn itself",
        "born later",
    ],
)
def test_lint_each_error_is_reported_once(probe: Probe, error: str) -> None:
    found = _lint(probe)
    assert found.errors == (f"golden set: {error}",)


# The third memory of the first conversation, stored again with another value.
SUCCESSOR = Memory(
    "c0/s2/t2#1", "Dates are RFC 3339", "Dates are RFC 3339", 3, 2, supersedes=(KEYS[2],), scope="global"
)


def _with_condition(condition: str, relevant: tuple[str, ...], forbidden: tuple[str, ...]) -> Lint:
    recording = replace(RECORDINGS[0], memories=(*RECORDINGS[0].memories, SUCCESSOR))
    probe = _probe(
        3,
        tuple(Judgement(key, reason="r") for key in relevant),
        forbidden=tuple(Judgement(key, reason="f") for key in forbidden),
        slices={"type": "update", "condition": condition},
    )
    return lint(GoldenSet((probe, *OTHERS)), (recording, *RECORDINGS[1:]))


@pytest.mark.parametrize(
    ("condition", "relevant", "forbidden"),
    [
        ("absent", (), (KEYS[0],)),
        ("superseded", (SUCCESSOR.key,), (KEYS[2],)),
        ("contradicted", (KEYS[2],), (KEYS[1],)),
        ("adjacent", (KEYS[2],), (KEYS[0],)),
    ],
)
def test_lint_planted_condition_is_counted(
    condition: str, relevant: tuple[str, ...], forbidden: tuple[str, ...]
) -> None:
    found = _with_condition(condition, relevant, forbidden)
    assert (found.errors, found.conditions) == ((), {condition: 1})
    assert not any("no relevant memory" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("condition", "relevant", "forbidden", "error"),
    [
        ("absent", (KEYS[2],), (KEYS[0],), "absent, but a relevant memory"),
        ("superseded", (), (KEYS[2],), "superseded, but no relevant memory"),
        (
            "superseded",
            (KEYS[2],),
            (SUCCESSOR.key,),
            "superseded, but no forbidden memory that a relevant one supersedes",
        ),
        ("contradicted", (KEYS[2],), (), "contradicted, but no forbidden memory"),
        ("adjacent", (), (KEYS[0],), "adjacent, but no relevant memory"),
        ("harm", (), (), "'harm'; known: absent, superseded, contradicted, adjacent"),
    ],
)
def test_lint_condition_that_is_not_planted_is_an_error(
    condition: str, relevant: tuple[str, ...], forbidden: tuple[str, ...], error: str
) -> None:
    found = _with_condition(condition, relevant, forbidden)
    assert f"golden set: probe c0/s2/t3 has the condition {error}" in found.errors


def test_lint_unknown_key_is_an_error() -> None:
    assert _lint(_probe(1, (Judgement("gone"),))).warnings == ()


def test_lint_duplicate_probe_is_an_error() -> None:
    assert _lint(_probe(), _probe(2), _probe()).errors == ("golden set: probe c0/s1/t1 occurs twice",)


def test_lint_lists_all_errors() -> None:
    bad = _probe(1, (*_judged(0, 0, 1), Judgement("gone", reason="x")))
    assert sorted(_lint(bad).errors) == [
        f"golden set: probe c0/s1/t1 judges {KEYS[0]} twice",
        f"golden set: probe c0/s1/t1 judges {KEYS[1]}, which does not exist yet at that turn",
        "golden set: probe c0/s1/t1 names memory 'gone', which the recording does not have",
    ]


@pytest.mark.parametrize(
    ("probe", "warning"),
    [
        (_probe(1, (Judgement(KEYS[0]),)), f"probe c0/s1/t1 gives no reason for {KEYS[0]}"),
        (_probe(1, forbidden=(Judgement(KEYS[0]),)), f"probe c0/s1/t1 gives no reason for {KEYS[0]}"),
        (
            _probe(2, _judged(1)),
            f"probe c0/s2/t2 has the scope mobile, but its relevant memory {KEYS[1]} has the scope gateway",
        ),
        (_asked(f"Is it true? {RULE}", _judged(0)), f"probe asked quotes its relevant memory {KEYS[0]}"),
    ],
    ids=["relevant without reason", "forbidden without reason", "another scope", "quoted"],
)
def test_lint_each_doubt_is_one_warning(probe: Probe, warning: str) -> None:
    found = _lint(probe)
    assert (found.errors, found.warnings) == ((), (f"golden set: {warning}",))


def test_lint_turn_with_two_doubts_has_two_warnings() -> None:
    assert _lint(_probe(3, _judged(0))).warnings == (
        f"golden set: probe c0/s2/t3 has the scope mobile, but its relevant memory {KEYS[0]} has the scope gateway",
        f"golden set: probe c0/s2/t3 quotes its relevant memory {KEYS[0]}",
    )


@pytest.mark.parametrize(
    "probe",
    [
        _probe(3, _judged(2)),
        _probe(2, forbidden=_judged(0)),
        _probe(3, forbidden=_judged(0)),
        _asked("Terse answers", _judged(1)),
        _asked("The port of the app", _judged(3, 0)),
    ],
    ids=[
        "gold of scope global",
        "forbidden of another scope",
        "forbidden is quoted",
        "a short quote",
        "no turn, no scope",
    ],
)
def test_lint_intended_judgements_give_no_warning(probe: Probe) -> None:
    assert (_lint(probe).errors, _lint(probe).warnings) == ((), ())


@pytest.mark.parametrize("conversations", [1, 5])
def test_lint_too_few_conversations_warns(conversations: int) -> None:
    probes = tuple(
        Probe(f"{one.conversation}-{number}", one.conversation, None, "Which?", ())
        for one in RECORDINGS[:conversations]
        for number in range(3)
    )
    found = lint(GoldenSet(probes), RECORDINGS)
    assert found.warnings == (
        f"{counted(conversations, 'conversation')}: a two-sided sign-flip test needs 6 for p < .05",
    )


def test_probe_problems_keep_the_order_of_the_set() -> None:
    bad = (_probe(conversation="c9"), _probe(2, (Judgement("gone"),)), _probe(2))
    assert probe_problems(RECORDINGS, bad) == [
        "golden set: probe c0/s1/t1 names conversation 'c9', which no recording has",
        "golden set: probe c0/s2/t2 names memory 'gone', which the recording does not have",
        "golden set: probe c0/s2/t2 occurs twice",
    ]


def test_lint_shipped_set_has_no_errors(operators: Path) -> None:
    golden = read_golden(operators.parents[1] / "golden" / operators.name)
    found = lint(golden, read_library(operators, "lab").recordings, complete=False)
    assert found.errors == ()
    # Judged memories of haystacks are from conversations that this copy does not have.
    assert all("cannot be checked, because the recordings lack" in warning for warning in found.warnings)
    assert found.probes == len(golden.probes) >= 84
    assert 0 < found.silent < found.probes / 3


def test_lint_shipped_set_with_planted_error_finds_it(tmp_path: Path, operators: Path) -> None:
    source = sorted((operators.parents[1] / "golden" / operators.name).glob("*.jsonl"))[0]
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").split("\n") if line]
    place = next(number for number, line in enumerate(lines) if line["relevant"])
    turn = lines[place]["turn"]
    lines[place]["relevant"][0]["memory"] += "9"
    path = tmp_path / source.name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = lint(read_golden(path), read_library(operators, "lab").recordings, complete=False)
    dead = lines[place]["relevant"][0]["memory"]
    assert found.errors == (f"golden set: probe {turn} names memory {dead!r}, which the recording does not have",)
