"""Packs beside the public sidecar's: equal citations, order, reasons and text over one ledger (PK-11)."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.memory.ledger.ingest import ingest
from lab.memory.pack.candidate import EXCLUDE_QUARANTINED, Settings, Tail, upstream
from lab.memory.pack.packer import Pack, gather, pack, trace
from lab.memory.pack.sources import LedgerLane
from tests.peers.test_sidecar import QUERIES, observations

TURNS = ["Where are the pots?", "In the mill, beside the choir's chairs.", "x" * 90, "Thanks!", "And the backup?"]
# Options of the sidecar and the settings that say the same.
VARIANTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "default": ((), {}),
    "small": (("--limit", "3", "--budget-tokens", "14"), {"limit": 3, "budget_tokens": 14}),
    "trust": (("--pack-trust-policy", EXCLUDE_QUARANTINED), {"trust_policy": EXCLUDE_QUARANTINED}),
    "tail": (
        ("--limit", "5", "--budget-tokens", "60", "--tail-budget-tokens", "30"),
        {"limit": 5, "budget_tokens": 60, "tail": Tail(4, 30)},
    ),
    "archived": (("--include-archived", "--limit", "6"), {"limit": 6}),
}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with every trust, kind and grade, from a log that both programs can read."""
    folder = tmp_path_factory.mktemp("pack")
    rows = observations(7)
    for number, row in enumerate(rows):
        detail = row["detail"]
        if number % 4 == 0 and isinstance(detail, dict):
            detail["trust"] = ("trusted", "untrusted", "quarantined", "Quarantine", "odd")[number // 4 % 5]
    log = folder / "log.jsonl"
    text = "".join(json.dumps(row) + "\n" for row in rows)
    # The sidecar's packer reads a grade such as 55 or "86%" otherwise than its own search; the lab has one reading.
    log.write_text(re.sub(r'(importance\\*": )(?:55|\\*"86%\\*")', r"\g<1>0.55", text), "utf-8")
    path = folder / "ledger.sqlite"
    ingest(path, log, upstream=True)
    return path


@pytest.mark.parametrize("variant", VARIANTS)
def test_packs_equal_those_of_the_sidecar(sidecar: Any, ledger: Path, tmp_path: Path, variant: str) -> None:
    options, values = VARIANTS[variant]
    path = Path(shutil.copy(ledger, tmp_path / "ledger.sqlite"))
    tail = TURNS if variant == "tail" else []
    words = [word for turn in tail for word in ("--tail-text", turn)]
    settings = upstream(**values)
    items = 0
    for query in QUERIES:
        theirs = sidecar(
            *("pack", "--db", path, f"--query={query}", "--trace", *options, *words),
            *("--pack-lifecycle-write", "off", "--pack-lifecycle-shadow", "off"),
        )
        ours = _packed(path, query, settings, tail, archived=variant == "archived")
        _compare(ours, theirs, query)
        items += len(theirs["items"])
    assert items > 40


def _packed(path: Path, query: str, settings: Settings, tail: list[str], *, archived: bool) -> Pack:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    lane = LedgerLane(path, upstream=True, include_archived=archived)
    return pack(query, gather([lane], query, settings, now_ms=now_ms), settings, now_ms=now_ms, tail=tail)


def _compare(ours: Pack, theirs: dict[str, Any], query: str) -> None:
    assert ours.bundle_text == theirs["bundle_text"], query
    mine, other = ours.context_pack(""), theirs["context_pack"]
    assert mine["items"] == other["items"], query
    assert mine["notes"] == other["notes"]
    traced = trace(ours, "", version="")
    keys = ("id", "layer", "importance", "trust", "decision", "citations")
    assert [{key: one[key] for key in keys} for one in traced["candidates"]] == [
        {key: one[key] for key in keys} for one in theirs["trace"]["candidates"]
    ], query
    assert traced["budgets"] == theirs["trace"]["budgets"]
    counts = ("includedCount", "excludedCount", "l2IncludedCount", "citationsCount", "coverage")
    assert {key: traced["output"][key] for key in counts} == {key: theirs["trace"]["output"][key] for key in counts}
    assert ours.refs == tuple(item["recordRef"] for item in theirs["citations"])
