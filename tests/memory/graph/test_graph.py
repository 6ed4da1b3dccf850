"""The graph: entities and relations by rules, persons as digests, traversal with evidence, and the lane."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.memory.facts.model import Fact, Object, Reference
from lab.memory.graph.build import (
    Edge,
    Graph,
    Text,
    build,
    graph_bytes,
    graph_of,
    ledger_texts,
    marked,
    read_graph,
    relations,
)
from lab.memory.graph.search import BREADTH, GraphLane, described, neighbourhood, shortest_path
from tests.memory.facts.stores import claim, place
from tests.memory.ledger.ledgers import filled


def edges(graph: Graph) -> set[tuple[str, str, str]]:
    return {edge[:3] for edge in graph.edges}


def link(source: str, target: str, kind: str = "RELATES_TO", ref: str = "obs:1") -> Edge:
    return Edge(source, kind, target, (ref,), 1, 0)


def fact(predicate: str, kind: str, value: str) -> Fact:
    since = "2026-11-01T00:00:00Z"
    return Fact(
        f"fact_{predicate}", "entity:gateway", "", predicate, Object(kind, value), since, None, "active", "low", (),
        Reference("note", "x"), (), (), since, "me", {},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://github.com/acme/gate.git now", ["repo:acme/gate"]),
        ("project Alpha and repo beta, the tool x-y", ["project:alpha", "repo:beta", "tool:x-y"]),
        ("#basil [[Clay Pots|pots]] `redis-cli` a # b", ["concept:basil", "concept:clay pots", "tool:redis-cli"]),
        ("tool:LanceDB entity:gateway", ["tool:lancedb", "entity:gateway"]),
        ("this project is fine; we use the tool", []),
    ],
)
def test_marked_names_are_entities_of_their_type(text: str, expected: list[str]) -> None:
    assert list(marked(text)) == expected


@pytest.mark.parametrize(
    "address",
    ["annika＠example.org", "annika﹫example.org", "annika@exämple.org", "annika@localhost", "annika@[10.0.0.1]"],
)
@pytest.mark.parametrize("form", ["project {}", "the gateway uses {}", "tool:{}", "#{} x", "[[{}]]", "repo {}: x"])
def test_address_in_any_form_names_no_person(tmp_path: Path, form: str, address: str) -> None:
    row = {"summary": form.format(address), "kind": "decision", "tool_name": address, "detail": {"scope": address}}
    texts = ledger_texts(filled(tmp_path / "l.sqlite", [row]))
    assert "annika" not in graph_bytes(build(texts, [fact("uses", "literal", address)])).decode()


def test_person_of_an_address_is_one_whatever_the_sign() -> None:
    plain, chinese = marked("annika@example.org annika＠example.org")
    assert plain == chinese


def test_persons_are_digests_whatever_names_them() -> None:
    (by_mail,) = marked("ask ann@example.org today")
    (by_handle,) = marked("ask @Ann")
    assert by_mail.startswith("person:")
    assert len(by_handle) == len("person:") + 12
    assert next(marked("@ann")) == by_handle
    assert next(marked(f"again {by_handle}")) == by_handle
    graph = build([Text("obs:1", "ask @ann about `redis`", scope="alpha")])
    assert "ann" not in graph_bytes(graph).decode().replace("channel", "")
    assert graph.named("ann") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the gateway uses LanceDB", [("gateway", "USES", "LanceDB")]),
        ("gateway is blocked by billing", [("gateway", "BLOCKED_BY", "billing")]),
        ("we evaluated redis", [(None, "EVALUATES", "redis")]),
        ("we decided to use clay-pots.", [(None, "DECIDES", "clay-pots")]),
        ("it uses the", []),
        # What was named before is the subject of a verb that has none beside it.
        ("Project kilnlab, our oldest, is blocked by [[glaze]]", [("kilnlab", "BLOCKED_BY", "glaze")]),
        ("Project kilnlab moved, and we chose redis", [("kilnlab", "DECIDES", "redis")]),
        ("It runs on https://example.org/x", []),
    ],
)
def test_verbs_between_names_are_relations(text: str, expected: list[tuple[str | None, str, str]]) -> None:
    assert [tuple(one) for one in relations(text)] == expected


def test_graph_of_texts_has_typed_edges_with_evidence() -> None:
    graph = build(
        [
            Text("obs:1", "The gateway uses `lancedb`.", scope="alpha", tool="exec", ts_ms=1),
            Text("obs:2", "We decided to use Redis", "decision", "alpha", ts_ms=2),
            Text("obs:3", "gateway is blocked by redis", ts_ms=3),
            Text("obs:4", "lancedb and redis were slow", scope="beta", ts_ms=4),
        ]
    )
    assert edges(graph) >= {
        ("project:alpha", "MENTIONS", "tool:exec"),
        ("project:alpha", "DECIDES", "decision:obs:2"),
        ("decision:obs:2", "DECIDES", "tool:redis"),
        ("concept:gateway", "BLOCKED_BY", "tool:redis"),
        ("tool:lancedb", "RELATES_TO", "tool:redis"),
        ("project:beta", "MENTIONS", "tool:redis"),
    }
    (blocked,) = [edge for edge in graph.edges if edge.type == "BLOCKED_BY"]
    assert (blocked.evidence, blocked.times, blocked.first_ms) == (("obs:3",), 1, 3)


def test_block_of_a_named_project_is_no_edge_of_the_decision_and_an_address_is_no_repository() -> None:
    said = "Project kilnlab, our oldest, is blocked by [[glaze]]; the repo https://github.com/ann/kilnlab is public"
    found = edges(build([Text("obs:1", said, "decision", ts_ms=1)]))
    assert ("project:kilnlab", "BLOCKED_BY", "concept:glaze") in found
    assert not [edge for edge in found if edge[1] == "BLOCKED_BY" and edge[0] != "project:kilnlab"]
    assert not [edge for edge in found if "repo:https" in edge]


def test_capitalized_unknown_subject_is_no_entity() -> None:
    graph = build([Text("obs:1", "Ana uses `redis`"), Text("obs:2", "gateway is blocked by Ana")])
    assert "ana" not in graph_bytes(graph).decode()


def test_facts_give_edges_by_their_predicate() -> None:
    facts = [
        fact("uses", "literal", "redis"),
        fact("decision", "literal", "use project Alpha"),
        fact("status", "literal", "up"),
    ]
    facts += [fact("owns", "entity_ref", "repo:acme/gate"), fact("depends_on", "entity_ref", "entity:billing")]
    graph = build([Text("obs:1", "project Alpha"), Text("obs:2", "gateway and `x`", scope="beta")], facts)
    assert edges(graph) >= {
        ("concept:gateway", "USES", "tool:redis"),
        ("concept:gateway", "DECIDES", "decision:fact_decision"),
        ("decision:fact_decision", "MENTIONS", "project:alpha"),
        ("concept:gateway", "RELATES_TO", "repo:acme/gate"),
        ("concept:gateway", "USES", "tool:billing"),
        ("project:beta", "MENTIONS", "concept:gateway"),
    }
    assert not any("up" in edge.target for edge in graph.edges)


def test_quarantined_and_archived_rows_are_left_out(tmp_path: Path) -> None:
    rows = [{"summary": "`a`"}, {"summary": "`b`", "detail": {"trust": "quarantined"}}]
    rows += [{"summary": "`c`", "detail": {"lifecycle": {"state": "soft-archived"}}}]
    assert [text.ref for text in ledger_texts(filled(tmp_path / "l.sqlite", rows))] == ["obs:1"]


def test_order_of_texts_decides_nothing() -> None:
    texts = [Text(f"obs:{n}", f"gateway uses `tool{n % 3}` and #tag{n % 4}", scope=f"p{n % 2}") for n in range(12)]
    shuffled = random.Random(1).sample(texts, len(texts))
    assert graph_bytes(build(texts)) == graph_bytes(build(shuffled))


def test_traversal_of_cycles_ends_with_each_entity_once() -> None:
    names = [f"concept:c{n}" for n in range(6)]
    graph = Graph([link(a, b) for a, b in itertools.permutations(names, 2)] + [link("tool:x", "tool:y")])
    near = neighbourhood(graph, [names[0]], depth=6, limit=100)
    assert sorted(one.entity for one in near) == names[1:]
    assert shortest_path(graph, names[0], "tool:x") is None
    assert shortest_path(graph, names[0], names[0]) == ()
    assert len(shortest_path(graph, names[0], names[3]) or ()) == 1


def test_edge_has_its_first_eight_references_in_order_of_time() -> None:
    texts = [Text(f"obs:{number}", "the gateway uses `redis`", ts_ms=100 - number) for number in range(1, 11)]
    (edge,) = build(texts).edges
    assert edge.evidence == tuple(f"obs:{number}" for number in range(10, 2, -1))
    assert (edge.times, edge.first_ms) == (10, 90)


def test_longer_of_two_names_at_a_place_is_meant() -> None:
    texts = [Text("obs:1", "[[Clay]] and [[Clay Pots]]"), Text("obs:2", "buy clay pots", scope="choir")]
    assert {edge[:3] for edge in build(texts).edges if edge.source == "project:choir"} == {
        ("project:choir", "MENTIONS", "concept:clay pots")
    }


@pytest.mark.parametrize(("first", "second"), [("project", "repo"), ("repo", "tool"), ("tool", "concept")])
def test_name_of_two_types_is_of_the_first(first: str, second: str) -> None:
    texts = [Text("obs:1", f"{second}:gate {first}:gate {second}:gate"), Text("obs:2", "open the gate", "decision")]
    assert ("decision:obs:2", "MENTIONS", f"{first}:gate") in edges(build(texts))


def test_path_shows_directions_and_evidence() -> None:
    graph = Graph([link("project:a", "tool:r", "USES", "obs:1"), link("project:b", "tool:r", "EVALUATES", "obs:2")])
    path = shortest_path(graph, "project:a", "project:b")
    assert path is not None
    assert described("project:a", path) == "project:a -USES-> tool:r <-EVALUATES- project:b (obs:1, obs:2)"


def test_neighbourhood_follows_the_strongest_edges_first() -> None:
    hub = [link("project:p", f"concept:c{n:03}", "MENTIONS") for n in range(3 * BREADTH)]
    graph = Graph([*hub, link("project:p", "tool:t", "USES")])
    near = neighbourhood(graph, ["project:p"], depth=1, limit=100)
    assert (len(near), near[0].entity) == (BREADTH, "tool:t")
    assert [one.entity for one in neighbourhood(graph, ["project:p"], limit=1)] == ["tool:t"]
    assert neighbourhood(graph, ["tool:none"]) == []


def test_query_must_have_all_words_of_a_name_and_the_longest_comes_first() -> None:
    graph = Graph([link("concept:clay pots", "tool:clay")])
    assert graph.named("red clay pots") == ["concept:clay pots", "tool:clay"]
    assert graph.named("pots and clay?") == ["concept:clay pots", "tool:clay"]
    assert graph.named("clay") == ["tool:clay"]
    assert graph.named("pots") == []


@pytest.mark.parametrize(("length", "count"), [(60, 1), (61, 0)])
def test_literal_that_is_longer_than_a_name_is_no_tool(length: int, count: int) -> None:
    assert len(build([], [fact("uses", "literal", "x" * length)]).edges) == count


def test_graph_file_gives_the_same_graph(tmp_path: Path) -> None:
    here = place(tmp_path, ({"summary": "gateway uses `lancedb`", "detail": {"scope": "ops"}},))
    here.add(claim("redis", predicate="uses"))
    graph = graph_of(here.ledger, here.facts, datetime(2026, 12, 1, tzinfo=UTC)).graph
    out = tmp_path / "g.json"
    out.write_bytes(graph_bytes(graph))
    assert graph_bytes(read_graph(out)) == graph_bytes(graph)
    before = graph_of(here.ledger, here.facts, datetime(2026, 10, 1, tzinfo=UTC)).graph
    assert len(before.edges) < len(graph.edges)
    for text, message in (
        ("{}", "is no graph of schema"),
        (
            json.dumps({"schema": "recall-lab.graph.v0", "entities": [], "edges": [{"evidence": []}]}),
            "edges.0.: has no field",
        ),
        (graph_bytes(graph).decode().replace('"USES"', '"LIKES"'), "an edge has a type of USES, BLOCKED_BY"),
    ):
        out.write_text(text)
        with pytest.raises(UnusableInput, match=message):
            read_graph(out)


def test_graph_has_the_facts_that_hold_at_its_time(tmp_path: Path) -> None:
    here = place(tmp_path)
    old = here.add(claim("entity:Redis", predicate="source_of_truth", type="entity_ref"))
    here.add(claim("entity:Valkey", "2026-11-20", predicate="source_of_truth", type="entity_ref", supersedes=[old.id]))
    here.add(claim("entity:Basil", predicate="owns", type="entity_ref", sources=("obs:2",)))

    def values(day: int) -> set[str]:
        return {edge.target for edge in graph_of(None, here.facts, datetime(2026, 11, day, tzinfo=UTC)).graph.edges}

    assert values(19) == {"concept:redis", "concept:basil"}
    assert values(20) == {"concept:valkey", "concept:basil"}
    # A fact of another time is not left out because of its sources.
    assert graph_of(here.ledger, here.facts, datetime(2026, 11, 20, tzinfo=UTC), here.root).left_out == {}
    with closing(sqlite3.connect(here.ledger)) as connection, connection:
        connection.execute('UPDATE observations SET detail_json = \'{"trust": "quarantined"}\' WHERE id = 2')
    held = graph_of(here.ledger, here.facts, datetime(2026, 11, 20, tzinfo=UTC)).graph
    assert {edge.target for edge in held.edges if edge.source == "concept:gateway"} == {"concept:valkey"}


def test_lane_offers_paths_and_without_a_graph_nothing(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    lane = GraphLane(path)
    assert lane.search("redis", 5, scope=None, now_ms=9) == (
        *("graph", (), False),
        f"{path} cannot be read as a graph; lab memory graph show --graph says why",
    )
    mentions = Edge("project:a", "MENTIONS", "concept:x", ("obs:2",), 1, 9)
    path.write_bytes(graph_bytes(Graph([link("project:a", "tool:redis", "USES"), mentions])))
    found = lane.search("why redis?", 5, scope=None, now_ms=5)
    assert [one.text for one in found.candidates] == ["project:a USES tool:redis (obs:1)"]
    assert found.candidates[0].ref.startswith("edge_")
    later = lane.search("why redis?", 5, scope=None, now_ms=9).candidates
    assert later[1].text == "project:a USES tool:redis (obs:1); project:a MENTIONS concept:x (obs:2)"
    assert [one.sources for one in later] == [("obs:1",), ("obs:1", "obs:2")]
    assert lane.search("tea", 5, scope=None, now_ms=9).reason == "the query names no entity"


@pytest.mark.slow
def test_query_of_20000_rows_reads_few_of_them() -> None:
    draw = random.Random(0)
    said = (
        f"service{draw.randint(0, 3000)} uses `tool{draw.randint(0, 500)}` #t{draw.randint(0, 5000)}"
        for _ in range(20_000)
    )
    texts = [Text(f"obs:{n}", text, scope=f"p{n % 9}", ts_ms=n) for n, text in enumerate(said)]
    graph = build(texts)
    calls = Counter[str]()
    for number in range(20):
        sys.setprofile(lambda _, event, __: calls.update([event]))
        near = neighbourhood(graph, graph.named(f"service{number} with tool{number} in p1"), depth=2)
        sys.setprofile(None)
        assert len(near) == 20
    assert calls["call"] < 20_000, calls


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD",
        "AKIAIOSFODNN7EXAMPLE",
        "password:hunter2secret",
    ],
)
def test_graph_holds_no_secret(tmp_path: Path, secret: str) -> None:
    said = f"the gateway uses {secret}. The gateway uses redis. `{secret}` [[{secret}]] tool:{secret} with kafka"
    here = place(tmp_path, ({"summary": said, "detail": {"scope": "ops"}},))
    here.add(claim(secret, predicate="uses"))
    here.add(claim(f"use {secret}", predicate="decision"))
    graph = graph_of(here.ledger, here.facts, datetime(2026, 12, 1, tzinfo=UTC)).graph
    data = graph_bytes(graph).decode().lower()
    assert ("tool:redis" in graph, "redacted" in data) == (True, False)
    assert not any(part in data for part in (secret.lower(), "hunter2"))


@pytest.mark.parametrize("text", ["Ab+/" * 10_000 + "use", "a@" * 20_000, "a uses" + " " * 40_000 + "b", "a." * 20_000])
def test_long_text_is_searched_in_linear_time(text: str) -> None:
    build([Text("obs:1", text, scope="ops")])


def test_lane_cites_no_reference_from_after_its_time(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    texts = [Text("obs:1", "gateway uses `redis`", ts_ms=1), Text("obs:2", "gateway uses `redis`", ts_ms=9)]
    early = fact("uses", "literal", "redis")
    graph = build(texts, [replace(early, valid_from="1970-01-01T00:00:00Z")])
    assert [(edge.evidence[0], edge.first_ms) for edge in graph.edges] == [("fact_uses", 0)]
    path.write_bytes(graph_bytes(build(texts)))
    found = GraphLane(path).search("redis", 5, scope=None, now_ms=5)
    assert [one.sources for one in found.candidates] == [("obs:1",)]


def test_lane_says_that_a_graph_has_no_scopes(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(graph_bytes(Graph([link("project:a", "tool:redis", "USES")])))
    assert GraphLane(path).search("redis", 5, scope="ops", now_ms=5).reason == "no_scopes_all_searched"
    assert GraphLane(path).search("redis", 5, scope=None, now_ms=5).reason is None


@pytest.mark.parametrize(
    "said",
    [
        "[[alice.smith@example.com]] [[@alice]] [[mail of alice.smith@example.com]] `alice.smith@example.com`",
        "tool:alice.smith@example.com and entity:alice.smith@example.com, project @alice",
        "gateway is blocked by alice.smith@example.com",
        "gateway is waiting for tool:alice.smith@example.com",
        "alice.smith@example.com uses redis and @alice uses redis",
        "[[alice.smith\uff20example.com]]",
    ],
)
def test_graph_names_no_person_of_a_text(said: str) -> None:
    data = graph_bytes(build([Text("obs:1", said, scope="ops")])).decode()
    assert ("person:" in data, "alice" in data, "smith" in data) == (True, False, False)


def test_graph_names_no_person_of_a_scope_tool_or_fact(tmp_path: Path) -> None:
    rows = [{"summary": "`redis`", "tool_name": "Alice@Example.com", "detail": {"scope": "alice@example.com"}}]
    here = place(tmp_path, (*rows, {"summary": "`redis`", "detail": {"scope": "@Alice"}}))
    here.add(claim("entity:alice@example.com", predicate="owns", type="entity_ref", subject="entity:alice@example.org"))
    here.add(claim("@alice", predicate="uses"))
    graph = graph_of(here.ledger, here.facts, datetime(2026, 12, 1, tzinfo=UTC)).graph
    assert "alice" not in graph_bytes(graph).decode()
    assert {*marked("alice@example.com @alice alice@example.org")} <= {*graph}


def test_versions_and_addresses_of_git_are_no_persons() -> None:
    texts = [Text("obs:1", "gateway uses redis@7.2.1"), Text("obs:2", "see git@github.com:acme/gate.git")]
    graph = build(texts, [fact("uses", "literal", "lancedb@0.4.1")])
    assert {*graph} == {"concept:gateway", "tool:redis", "tool:lancedb@0.4.1", "repo:acme/gate"}
    (bob,) = marked("bob@163.com")
    assert bob.startswith("person:")


@pytest.mark.parametrize("field", ["tool_name", "scope"])
def test_secret_in_a_tool_or_scope_is_no_name(tmp_path: Path, field: str) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    row = {"tool_name": secret} if field == "tool_name" else {"detail": {"scope": secret}}
    (text,) = ledger_texts(filled(tmp_path / "l.sqlite", [{"summary": "`redis`", **row}]))
    assert list(build([text])) == ["tool:redis"]
