"""Facts beside the public sidecar: equal ids, timelines, current facts, lints, packs and proposals (TF-14)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.facts.asserting import Claim, invalidate, measure, propose
from lab.memory.facts.model import ENTITY, JSON, PREDICATES, Fact, fact_json, utc
from lab.memory.facts.pack import pack
from lab.memory.facts.view import current, lint, status_of
from tests.memory.facts.stores import NOW, Place, place

SUBJECTS = ("Gateway", "kitchen", "entity:Choir Mill")
SOURCES = (("obs:1",), ("obs:2", "doc:a.md"), ("doc:a.md#top", "memory:b.md"), ("daily_log:b.md",), ("doc:gone.md",))
FACT = ("graph", "fact")
TIERS = ("low", "source_capped", "corroborated", "operator_asserted")


def drawn(draw: random.Random, asserted: Sequence[Fact]) -> Claim:
    """Return a made-up claim, now and then an unsound one."""
    subject, predicate = draw.choice(SUBJECTS), draw.choice([*PREDICATES, "state", "runs_on", "likes"])
    kind = draw.choice(("literal", "literal", ENTITY, JSON))
    value = '{"port": [80, null], "名": "é"}' if kind == JSON else draw.choice(("live", "LanceDB", "重啟", "a.b-c"))
    since, until = draw.randint(1, 28), draw.choice((None, None, draw.randint(1, 28)))
    old = [fact for fact in asserted if fact.status == "active" and fact.valid_to is None]
    rivals = [
        fact for fact in old if fact.label in (subject, f"entity:{subject.lower()}") and fact.predicate == predicate
    ]
    # A correction from before, or one of a bounded fact, ends otherwise in the two programs.
    rivals = [fact for fact in rivals if fact.valid_from < f"2026-11-{since:02d}"]
    return Claim(
        subject,
        predicate,
        value,
        draw.choice((f"2026-11-{since:02d}", f"2026-11-{since:02d}T12:30:15.5+08:00")),
        draw.choice(SOURCES),
        draw.choice(("obs:1", "note:a:b", "note:c")),
        kind,
        None if until is None else f"2026-11-{until:02d}",
        draw.choice(TIERS),
        (rivals[0].id,) if rivals and draw.random() < 0.9 else (),
    )


def words_of(claim: Claim) -> list[str]:
    """Return a claim as the options of the sidecar."""
    words = ["--subject", claim.subject, "--predicate", claim.predicate, "--object", claim.value]
    words += ["--object-type", claim.type, "--valid-from", claim.valid_from, "--assertion-ref", claim.assertion]
    words += ["--confidence-tier", claim.confidence]
    words += [word for source in claim.sources for word in ("--source-ref", source)]
    words += [word for identity in claim.supersedes for word in ("--supersedes", identity)]
    return words + (["--valid-to", claim.valid_to] if claim.valid_to else [])


def plain(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a fact without the time of its assertion."""
    return {key: value for key, value in raw.items() if key != "created_at"}


def attempted(here: Place, claim: Claim) -> tuple[Fact | None, str]:
    """Assert a claim; return its fact, or why it was refused."""
    try:
        return here.add(claim), ""
    except UnusableInput as error:
        return None, str(error)


@pytest.fixture
def both(sidecar_answer: Any, tmp_path: Path) -> tuple[Place, Any]:
    """Made-up claims asserted in both programs, which take and refuse the same ones."""
    here, draw = place(tmp_path), random.Random(7)
    refused = 0

    def theirs(*words: object) -> tuple[int, Any]:
        return sidecar_answer("--db", here.ledger, *FACT, *words, "--source-root", here.root)

    for _ in range(70):
        claim = drawn(draw, list(here.view) if here.facts.exists() else [])
        code, receipt = theirs("assert", *words_of(claim))
        made, error = attempted(here, claim)
        if made is not None:
            assert (code, receipt["fact"]["id"]) == (0, made.id), (claim, receipt)
        else:
            refused += 1
            codes = {issue["code"] for issue in receipt.get("issues", ())}
            assert code == 2, (claim, error)
            assert not codes or any(name in error.replace(" ", "_") for name in codes), (codes, error)
    for identity in [fact.id for fact in here.view if fact.status == "active"][:3]:
        words = (
            "--fact-id",
            identity,
            "--invalidated-at",
            "2026-12-01",
            "--source-ref",
            "obs:1",
            "--assertion-ref",
            "x:y",
        )
        assert theirs("invalidate", *words)[0] == 0
        given = {"given": ("obs:1",), "assertion": "x:y", "at": "2026-12-01", "now": NOW, "write": True}
        invalidate(here.facts, identity, here.sources, **given)
    assert len(here.view) > 15
    assert refused > 15
    return here, theirs


@pytest.mark.process
def test_ids_timelines_current_facts_lints_and_packs_agree(both: tuple[Place, Any]) -> None:
    here, theirs = both
    compared = 0
    for changed in (False, True):
        if changed:
            (here.root / "b.md").write_text("changed\n")
        for subject in ("entity:gateway", "entity:kitchen", "entity:Choir Mill"):
            course = here.view.of(subject)
            events = theirs("timeline", "--subject", subject)[1]["events"]
            ours = [plain(fact_json(fact, status_of(fact, here.sources))) for fact in course]
            # The sidecar replaces the assertion of an invalidated fact by that of its end.
            ended = {one["id"] for one in ours if one["stored_status"] == "invalidated"}
            for one in (*ours, *events):
                if one["id"] in ended:
                    one.pop("assertion_ref")
            by_id = {one["id"]: plain(one) for one in events}
            assert {one["id"]: one for one in ours} == by_id
            assert [one["id"] for one in ours if one["predicate"] != "x"] == [one["id"] for one in events]
            for day in range(1, 30, 4):
                time = f"2026-11-{day:02d}"
                said = theirs("current", "--subject", subject, "--as-of", time)[1]
                held = current(course, utc(time, ""), here.sources, upstream=True)
                assert [fact.id for fact, _ in held.facts] == [one["id"] for one in said["facts"]]
                reasons = [(one["fact_id"], one["reason"]) for one in said["excluded"]]
                assert [(one.fact_id, one.reason) for one in held.excluded] == reasons
                compared += len(course)
            packed = theirs("pack", "--subject", subject, "--budget-tokens", "150", "--max-items", "4")[1]
            held = current(course, utc(packed["ts"], ""), here.sources, upstream=True)
            mine = pack(subject, held, as_of=packed["ts"], budget=150, most=4)
            assert [one["id"] for one in mine["items"]] == packed["trace"]["includedFactIds"]
            # JSON is JSON here; the sidecar prints Python's form of it.
            is_json = any(one["object"]["type"] == "json" for one in mine["items"])
            assert is_json or mine["bundle_text"] == packed["bundle_text"]
            if not is_json:
                items = packed["context_pack"]["items"]
                assert [_texts(one) for one in mine["context_pack"]["items"]] == [_texts(one) for one in items]
        linted = theirs("lint")[1]
        issues = lint(here.view, here.sources, upstream=True)
        assert [(one.code, one.fact, one.severity) for one in issues] == [
            (one["code"], one["fact_id"], one["severity"]) for one in linted["issues"]
        ]
    assert compared > 200
    assert {issue.code for issue in issues} >= {"stale_source"}


def _texts(item: dict[str, Any]) -> tuple[Any, ...]:
    return item["recordRef"], item["text"], item["trust"], item["evidenceSourceRefs"], item["assertionRef"]


@pytest.mark.process
def test_proposals_and_their_precision_agree(sidecar: Any, tmp_path: Path) -> None:
    text = (
        "entity:gate uses entity:redis.\nso entity:x/y status all good.\nentity:gate likes tea\n\nentity:z decision go"
    )
    said = sidecar(*FACT, "propose", "--text", text, "--source-ref", "doc:a.md")
    assert propose(text, ["doc:a.md"])["proposals"] == said["proposals"]
    corpus, golden = tmp_path / "c.jsonl", tmp_path / "g.jsonl"
    corpus.write_text(json.dumps({"text": text, "source_refs": ["doc:a.md"]}) + "\n")
    golden.write_text('{"subject": "entity:gate", "predicate": "uses", "object": "entity:redis"}\n')
    said = sidecar(*FACT, "measure-extraction", "--corpus", corpus, "--golden", golden)
    ours = measure(corpus, golden)
    assert {key: ours[key] for key in ("counts", "precision", "recall")} == {
        key: said[key] for key in ("counts", "precision", "recall")
    }


@pytest.mark.process
def test_predicates_are_those_of_the_sidecar(sidecar: Any, tmp_path: Path) -> None:
    registry = sidecar(*FACT, "registry")["predicates"]
    assert {
        name: (one["cardinality"] == "single", tuple(one["object_types"]), tuple(one["aliases"]))
        for name, one in registry.items()
    } == {name: tuple(one) for name, one in PREDICATES.items()}
    assert all(re.fullmatch("[a-z_]+", name) for name in registry)
