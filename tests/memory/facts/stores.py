"""Ledgers, files and facts for the tests of ``lab memory facts``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.memory.facts import store
from lab.memory.facts.asserting import Claim, assert_facts
from lab.memory.facts.model import Fact
from lab.memory.facts.sources import Sources
from lab.memory.facts.view import View
from tests.memory.ledger.ledgers import filled

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
ROWS = ({"summary": "the gateway is live"}, {"summary": "the gateway is retired"}, {"summary": "kitchen uses gas"})


class Place(NamedTuple):
    """A file of assertions with a ledger and a folder for its sources."""

    facts: Path
    ledger: Path
    root: Path

    @property
    def sources(self) -> Sources:
        """The sources as they are now."""
        return Sources(self.ledger, self.root)

    def add(self, claim: Claim, *, now: datetime = NOW) -> Fact:
        """Assert one claim and return its fact."""
        return assert_facts(self.facts, [claim], self.sources, now=now, write=True).facts[0]

    @property
    def view(self) -> View:
        """The view of the file."""
        return View(store.read(self.facts).records)


def place(folder: Path, rows: Any = ROWS) -> Place:
    """Return a place with observations and two documents, and no facts yet."""
    (folder / "a.md").write_text("first\n")
    (folder / "b.md").write_text("second\n")
    return Place(folder / "facts.jsonl", filled(folder / "ledger.sqlite", rows), folder)


def claim(value: str = "live", since: str = "2026-11-01", **changes: Any) -> Claim:
    """Return a claim on the status of the gateway, with changes."""
    base = Claim("Gateway", "status", value, since, ("obs:1",), "note:review")
    return base._replace(**changes)
