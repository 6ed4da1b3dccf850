"""The tool that imports memories: what it takes, what it leaves out and says so, and files that are damaged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import UnusableInput
from lab.memory.tools import importing
from lab.memory.tools.importing import memory_import
from lab.memory.tools.listing import memory_export
from lab.systems.openclaw.config.settings import EngineConfig, ScopePolicy
from lab.systems.openclaw.memory import CATEGORIES
from tests.conformance.memory_table import InMemoryTable

SECRET = "sk-" + "FAKE" * 8
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes records as JSON Lines, or a text as it is."""

    def write_file(*lines: Any, name: str = "in.jsonl") -> Path:
        path = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
        return path

    return write_file


def counts(result: Any) -> tuple[int, int, int]:
    """Return how many records were imported, skipped and refused."""
    return result.details["imported"], result.details["skipped"], result.details["failed"]


def test_memory_import_in_upstream_tells_the_scope_that_the_policy_makes_of_another(bench: Any, write: Write) -> None:
    config = EngineConfig(scope_policy=ScopePolicy(validation_mode="normalize", max_length=8))
    for upstream, told in ((True, "bad-scop"), (False, "bad-scope")):
        table = bench(config=config, upstream=upstream)
        result = memory_import(table.context, write({"text": "alpha"}), scope="Bad Scope!")
        assert result.details["receipt"]["filtersApplied"]["scopeOverride"] == told
        assert [row.scope for row in table.rows] == ["bad-scop"]


def test_memory_import_normalises_every_field(bench: Any, tools: Any, write: Write) -> None:
    record = {
        "id": tools.uuid(1),
        "text": "  alpha  ",
        "category": "Decision",
        "importance": "0.6",
        "scope": "Acme/API",
        "createdAt": 5.9,
        "trust_tier": "user",
        "media_refs": ["a.png", 5],
        "lang": "zh",
    }
    table = bench()
    result = memory_import(table.context, write(record))
    (stored,) = table.table.entries
    row = stored.row
    assert (row.id, row.text, row.category, row.importance) == (tools.uuid(1), "alpha", "decision", 0.6)
    assert (row.importance_label, row.scope, row.created_at, row.trust_tier) == ("nice_to_have", "acme/api", 5, "user")
    assert (stored.source_kind, stored.source_ref, stored.lang) == ("import", "in.jsonl", "zh")
    assert (stored.media_refs, row.embedded, counts(result)) == (("a.png",), True, (1, 0, 0))


@pytest.mark.parametrize(("dedupe", "imported"), [("none", 5), ("id", 4), ("id_text", 2), (None, 2), ("other", 2)])
def test_memory_import_finds_duplicates(bench: Any, tools: Any, write: Write, dedupe: Any, imported: int) -> None:
    path = write(
        {"id": tools.uuid(1), "text": "a new text"},
        {"text": "I prefer dark mode", "scope": "work"},
        {"text": "i PREFER  dark mode!"},
        {"text": "!!!"},
        {"text": "I <b>prefer</b> dark mode"},
    )
    table = bench(tools.entry(1, "I prefer dark mode"))
    result = memory_import(table.context, path, dedupe=dedupe)
    assert counts(result) == (imported - (imported == 2), 5 - imported + (imported == 2), 0)
    assert len({row.id for row in table.rows}) == len(table.rows)


def test_memory_import_without_deduplication_gives_a_used_id_away_in_seed(bench: Any, tools: Any, write: Write) -> None:
    plugin, seed = (bench(tools.entry(1, "alpha"), upstream=upstream) for upstream in (True, False))
    path = write({"id": tools.uuid(1), "text": "beta"})
    assert memory_import(seed.context, path, dedupe="none").details["warnings"] == [
        {"index": 0, "reason": "id_in_use", "line": 1}
    ]
    memory_import(plugin.context, path, dedupe="none")
    assert [len({row.id for row in table.rows}) for table in (plugin, seed)] == [1, 2]


@pytest.mark.parametrize("how", [{"dry_run": True}, {"validate_only": True}])
def test_memory_import_dry_run_counts_and_writes_nothing(bench: Any, write: Write, how: dict[str, bool]) -> None:
    def refuse(texts: Sequence[str]) -> Any:
        raise AssertionError("a dry run embeds nothing")

    path = write({"text": "alpha"}, {"text": "alpha"}, {"text": ""})
    table = bench(config=EngineConfig(read_only=True), embed=refuse)
    result = memory_import(table.context, path, **how)
    assert (counts(result), table.rows) == ((1, 1, 1), [])
    assert result.details["receipt"]["dryRun"] is True
    assert memory_import(table.context, path).error == "readonly_mode"


def test_memory_import_limit_takes_the_first_records(bench: Any, write: Write) -> None:
    table = bench()
    result = memory_import(table.context, write({"text": ""}, {"text": "alpha"}, {"text": "beta"}), limit=2)
    assert (table.texts, result.details["receipt"]["parsedCount"]) == (["alpha"], 2)
    assert result.details["failures"] == [{"index": 0, "reason": "missing_text", "line": 1}]


def test_memory_import_scopes_are_validated_or_overridden(bench: Any, write: Write) -> None:
    path = write({"text": "one", "scope": "x" * 80}, {"text": "two", "scope": "--"}, {"text": "three", "scope": 5})
    for config, invalid in ((EngineConfig(), 2), (EngineConfig(profile="upstream"), 1)):
        table = bench(config=config)
        result = memory_import(table.context, path)
        assert [row.scope for row in table.rows] == ["global"] * 3
        counted = f"openclaw-mem-engine:scopeValidation write=import invalidFallbackCount={invalid} fallback=global"
        assert result.log == (counted,)
    other = bench()
    assert memory_import(other.context, path, scope="Team X").log == ()
    assert {row.scope for row in other.rows} == {"team-x"}


@pytest.mark.parametrize(("profile", "scope", "kept"), [("seed", "global", False), ("upstream", "bad-scope", True)])
def test_memory_import_of_odd_scopes_and_times(bench: Any, write: Write, profile: str, scope: str, kept: bool) -> None:
    table = bench(config=EngineConfig(profile=profile))
    path = write({"text": "one", "scope": "Bad Scope!", "createdAt": 10**18})
    dry = memory_import(table.context, path, dry_run=True)
    assert dry.text.startswith("Validated memories: imported=1")
    assert dry.details["receipt"]["validateOnly"] is (profile == "upstream")
    memory_import(table.context, path)
    (row,) = table.rows
    assert (row.scope, row.created_at == 10**18) == (scope, kept)


@pytest.mark.parametrize("upstream", [True, False])
def test_memory_import_vectors_are_kept_if_they_fit(bench: Any, tools: Any, write: Write, upstream: bool) -> None:
    table = bench(upstream=upstream, embed=tools.failing("provider_unavailable"))
    fitting = [0.5] * table.context.dimension
    memory_import(
        table.context,
        write(
            {"text": "fits", "vector": [*fitting, "x"]}, {"text": "short", "vector": [1.0], "trust_tier": "untrusted"}
        ),
    )
    fits, short = table.table.entries
    assert (list(fits.vector), fits.row.embedded, fits.row.trust_tier) == (fitting, True, "import")
    assert (set(short.vector), short.row.embedded) == ({0.0}, False)
    # A suffix would hide from the trust rules that the row is untrusted.
    assert short.row.trust_tier == ("untrusted_noembed" if upstream else "untrusted")


def test_memory_import_one_text_that_is_too_long_costs_no_other_its_vector(
    bench: Any, tools: Any, write: Write
) -> None:
    def embed(texts: Sequence[str]) -> Any:
        return tools.failing("embedding_input_too_long")(texts) if "long" in texts else tools.embed(texts)

    table = bench(embed=embed)
    memory_import(table.context, write({"text": "alpha"}, {"text": "long"}, {"text": "beta"}))
    assert [row.embedded for row in table.rows] == [True, False, True]


@pytest.mark.parametrize("dry", [True, False])
def test_memory_import_without_a_provider_differs_between_profiles(bench: Any, write: Write, dry: bool) -> None:
    path = write({"text": "alpha"})
    plugin, seed = bench(embed=None, upstream=True), bench(embed=None)
    result = memory_import(plugin.context, path, dry_run=dry)
    assert result.details["failures"] == [{"index": 0, "reason": "missing_vector_and_embeddings"}]
    assert counts(memory_import(seed.context, path, dry_run=dry)) == (1, 0, 0)


@pytest.mark.parametrize(
    ("given", "created", "warned"),
    [
        ("2025-10-09T08:53:20Z", 1_760_000_000_000, False),
        ("2025-10-09T10:53:20+02:00", 1_760_000_000_000, False),
        ("yesterday", None, True),
        (-5, None, True),
        (True, None, True),
        (1e300, None, True),
        (None, None, False),
    ],
)
def test_memory_import_bad_times_become_now_and_are_reported(
    bench: Any, tools: Any, write: Write, given: Any, created: int | None, warned: bool
) -> None:
    table = bench()
    result = memory_import(table.context, write({"text": "alpha", "createdAt": given}))
    (row,) = table.rows
    assert row.created_at == created if created else abs(row.created_at - tools.now) < 10
    assert bool(result.details["warnings"]) == warned


def test_memory_import_times_in_words_are_not_read_by_the_plugin(bench: Any, tools: Any, write: Write) -> None:
    table = bench(upstream=True)
    memory_import(table.context, write({"text": "alpha", "createdAt": "2025-01-01"}))
    assert abs(table.rows[0].created_at - tools.now) < 10


def test_memory_import_refuses_secrets_and_working_sets_in_seed_alone(bench: Any, tools: Any, write: Write) -> None:
    path = write({"text": f"key {SECRET}"}, {"id": "working_set:global", "text": "digest"}, {"text": "alpha"})
    plugin, seed = bench(upstream=True), bench()
    result = memory_import(seed.context, path)
    assert (counts(result), seed.texts) == ((1, 1, 1), ["alpha"])
    assert result.details["failures"] == [{"index": 0, "reason": "secret_like", "line": 1}]
    assert SECRET not in result.text + str(result.details)
    assert counts(memory_import(plugin.context, path)) == (3, 0, 0)


def test_memory_import_damaged_lines_lose_no_other_line_in_seed(
    bench: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MAX_LINE_BYTES", 100)
    path = write({"text": "alpha"}, {"text": "x" * 300}, "NaN", "5", {"text": "beta"}, "[" * 90, '{"text": "cut o')
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().rstrip() + b"\n\xff\n\n")
    table = bench()
    result = memory_import(table.context, path)
    assert table.texts == ["alpha", "beta"]
    assert result.details["failures"] == [
        {"index": 1, "reason": "line_too_long", "line": 2},
        {"index": 2, "reason": "invalid_json", "line": 3},
        {"index": 3, "reason": "missing_text", "line": 4},
        {"index": 5, "reason": "invalid_json", "line": 6},
        {"index": 6, "reason": "invalid_json", "line": 7},
        {"index": 7, "reason": "not_utf8", "line": 8},
    ]
    plugin = bench(upstream=True)
    with pytest.raises(UnusableInput, match=r"in.jsonl:2: line_too_long; nothing was imported"):
        memory_import(plugin.context, path)
    assert plugin.rows == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[{"text": "a"}, {"tex', "not JSON: .* line 1 column 22 .*; nothing was imported"),
        ('{"memories": []}', 'expected an array of memories, or an object with an array "items"'),
        ("[NaN]", "not JSON: NaN is not JSON"),
        ("[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_memory_import_damaged_array_is_an_error(bench: Any, write: Write, text: str, error: str) -> None:
    table = bench()
    with pytest.raises(UnusableInput, match=error):
        memory_import(table.context, write(text, name="in.json"))
    assert table.rows == []


def test_memory_import_missing_file_is_an_error(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="no such file"):
        memory_import(bench().context, tmp_path / "none.jsonl")
    with pytest.raises(UnusableInput, match=r"folder|cannot be read"):
        memory_import(bench().context, tmp_path)


TEXTS = st.lists(
    st.sampled_from(["alpha", "偏好 簡短", "😀", 'a "b" <c>', "x\ny", "\u2028", "ß"]), min_size=1, max_size=4
)


@given(
    st.lists(
        st.tuples(TEXTS.map(" ".join).map(str.strip), st.integers(1, 1 << 40), st.sampled_from(["a", "global"])),
        max_size=6,
    ),
    st.sampled_from(["out.json", "out.jsonl"]),
)
@settings(max_examples=60)
def test_memory_import_of_an_export_gives_the_same_export(
    bench: Any, tools: Any, tmp_path_factory: Any, drawn: list[tuple[str, int, str]], name: str
) -> None:
    folder = tmp_path_factory.mktemp("out")
    source, target = bench(), bench()
    source.table.add(
        [
            tools.entry(number, text, created_at=time, scope=scope, importance=0.5)
            for number, (text, time, scope) in enumerate(drawn)
            if text.strip("\u2028 ")
        ]
    )
    count = len(source.rows)
    memory_export(source.context, folder / name)
    assert counts(memory_import(target.context, folder / name, dedupe="id")) == (count, 0, 0)
    memory_export(target.context, folder / f"again-{name}")
    assert (folder / f"again-{name}").read_bytes() == (folder / name).read_bytes()
    assert counts(memory_import(target.context, folder / name)) == (0, count, 0)


def test_memory_import_writes_all_rows_at_once(bench: Any, write: Write) -> None:
    table = bench()

    class Once(InMemoryTable):
        calls = 0

        def add(self, entries: Any) -> None:
            Once.calls += 1
            super().add(entries)

    context = replace(table.context, table=Once())
    memory_import(context, write(*({"text": f"memory {number}"} for number in range(600))))
    assert (Once.calls, len(context.table.rows())) == (1, 600)


@pytest.mark.parametrize(("upstream", "count"), [(True, 5000), (False, 5001)])
def test_transfers_of_more_than_5000_rows_are_complete_in_seed(
    bench: Any, tmp_path: Path, upstream: bool, count: int
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"text": "memory {number}"}}\n' for number in range(5001)), "utf-8")
    table = bench(upstream=upstream, embed=lambda texts: [[1.0] * table.context.dimension] * len(texts))
    assert counts(memory_import(table.context, path)) == (count, 0, 0)
    assert memory_export(table.context, tmp_path / "out").details["count"] == count
    assert memory_export(table.context, tmp_path / "out", limit="7").details["count"] == 7


@pytest.mark.parametrize("field", ["scope", "trust_tier", "source_ref", "media_refs", "lang"])
def test_memory_import_secret_in_another_field_is_refused_in_seed(bench: Any, write: Write, field: str) -> None:
    table = bench()
    value = [5, [SECRET]] if field == "media_refs" else SECRET
    result = memory_import(table.context, write({"text": "alpha", field: value}))
    assert (result.details["failures"], table.rows) == ([{"index": 0, "reason": "secret_like", "line": 1}], [])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(["5", "high"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
NAMES = ("id", "text", "category", "importance", "importance_label", "scope", "createdAt", "trust_tier", "vector")
RECORDS = (
    st.fixed_dictionaries({}, optional=dict.fromkeys((*NAMES, "media_refs", "lang", "hard_rule"), VALUES)) | VALUES
)


@given(st.lists(RECORDS, max_size=6), st.booleans())
@settings(max_examples=60)
def test_memory_import_takes_any_json(bench: Any, tmp_path_factory: Any, drawn: list[Any], upstream: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    # Python writes NaN, which is not JSON; a file with it is refused as a whole.
    path.write_text(json.dumps(drawn).replace("NaN", "1").replace("-Infinity", "1").replace("Infinity", "1"), "utf-8")
    table = bench(upstream=upstream)
    result = memory_import(table.context, path)
    assert sum(counts(result)) == len(drawn)
    assert len(table.rows) == counts(result)[0] == len({row.id for row in table.rows})
    for row in table.rows:
        assert (row.text.strip(), row.created_at > 0, row.category in CATEGORIES) == (row.text, True, True)
    memory_export(table.context, path.with_suffix(".out"))
    json.dumps(result.details, allow_nan=False)
