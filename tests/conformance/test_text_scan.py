"""The public plugin's text lane, held against the raw lanes that it really got (753 searches)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lab.engine.memory import Row
from lab.engine.store.contract import Filter, Query
from lab.engine.store.exact import ExactStore
from lab.engine.store.tokens import ScanWords, TextSettings

Shared = Callable[..., Path]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def store(shared: Shared) -> ExactStore:
    """The corpus in its order of insertion, under the short ids that the searches use."""
    rows = []
    for record in lines(shared("parity", "setup", "e2e_corpus.jsonl")):
        params, stored = record["params"], record["output"]["details"]
        label, scope = stored["importance_label"], stored["scope"]
        short = stored["id"][:8]
        rows.append(
            Row(short, short, params["text"], params["text"], stored["createdAt"], importance_label=label, scope=scope)
        )
    built = ExactStore(2, TextSettings(lane="scan"))
    built.add(rows, np.zeros((len(rows), 2), np.float32), ScanWords().of([row.index_text for row in rows]))
    return built


@pytest.fixture(scope="module")
def prompts(vectors: Path) -> dict[str, str]:
    """Prompt by its short name, from the runs that used them."""
    return {
        record["input"]["pid"]: record["input"]["prompt"]
        for path in sorted(vectors.glob("e2e_*.jsonl"))
        for record in lines(path)
        if {"pid", "prompt"} <= set(record.get("input") or {})
    }


def test_the_scan_returns_the_rows_that_the_plugin_got_in_its_order(
    store: ExactStore, prompts: dict[str, str], vectors: Path
) -> None:
    compared = 0
    for search in lines(vectors / "e2e_searches.jsonl"):
        if search["pid"] not in prompts:
            continue
        text = prompts[search["pid"]].strip()
        view = store.view(Query(text, ScanWords().of([text])[0], None))
        found = view.search(Filter(search["scope"], tuple(search["labels"])), search["limit"]).fts
        expected = [] if search["fts"] == "error" else search["fts"]
        assert [store.rows[hit.row].id for hit in found] == [identity for identity, _ in expected], search["id"]
        assert [hit.score for hit in found] == pytest.approx([score for _, score in expected], abs=2e-5), search["id"]
        compared += 1
    assert compared > 500
