"""The write side during a replay: from turns to drafts of documents, with the cap of extractions (RS-17 to RS-22)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lab.recordings.model import Turn
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.document import Defaults, extracted_defaults, normalised
from lab.systems.rsclaw.extract import (
    MIN_CONFIDENCE,
    MOST_ITEMS,
    MOST_LESSONS,
    Candidate,
    distinct,
    entities,
    failure,
    kept,
    lessons,
    main_pass,
    passes_gate,
)
from lab.systems.rsclaw.recorded import Extractions

# Extractions that may run at the same time; another one is dropped.
IN_FLIGHT = 4


class Proposed(NamedTuple):
    """A document to store, and the pass that proposed it."""

    via: str
    kind: str
    text: str
    defaults: Defaults


class Waiting(NamedTuple):
    """An extraction that ends at ``ready_ms``, and what it will store for the turn."""

    ready_ms: int
    turn: Turn
    proposed: tuple[Proposed, ...]


class Extractor:
    """The passes over the turns of one conversation.

    ``running`` are the extractions that have not ended. With ``extraction_ms`` 0 each ends at its own turn.
    """

    def __init__(self, settings: Settings, recorded: Extractions) -> None:
        self._settings, self._recorded = settings, recorded
        self.running: list[Waiting] = []
        self._results: list[str] = []
        self._answered = False

    def turn(self, turn: Turn) -> tuple[list[Proposed], dict[str, Any]]:
        """Read a turn; return what is to be stored at once, and the receipt (empty: nothing was read).

        What the extraction of the message itself proposes is in :attr:`running`.
        """
        if turn.role == "assistant":
            self._answered = True
            return [], {}
        if turn.role != "user":
            self._results.append(turn.text)
            candidate = failure(self._results) if self._settings.extractor == "rules" else None
            return ([_proposed("failure", candidate)], {"failure": True}) if candidate else ([], {})
        self._results.clear()
        if self._settings.extractor == "none":
            return [], {}
        certain = [_proposed("entity", candidate) for candidate in kept(entities(turn.text), MOST_ITEMS)]
        receipt = self._extract(turn, {normalised(item.text) for item in certain})
        if certain:
            receipt["entities"] = len(certain)
        return certain, receipt

    def ended(self, now_ms: int) -> list[Waiting]:
        """Return the extractions that have ended by now, in the order of their turns."""
        done = [waiting for waiting in self.running if waiting.ready_ms <= now_ms]
        self.running = [waiting for waiting in self.running if waiting.ready_ms > now_ms]
        return done

    def new_session(self) -> None:
        """Begin a session: the messages and results of the last one no longer count."""
        self._results.clear()
        self._answered = False

    def _extract(self, turn: Turn, taken: set[str]) -> dict[str, Any]:
        """Start the extraction of a message, unless the gate or the cap prevents it; return its receipt."""
        settings, fold = self._settings, self._settings.fold_chinese
        # A correction needs something to correct.
        corrected = lessons(turn.text, fold=fold) if self._answered else []
        gate = passes_gate(turn.text, fold=fold)
        if not (gate or corrected):
            return {}
        if sum(waiting.ready_ms > turn.time_ms for waiting in self.running) >= IN_FLIGHT:
            return {"gate": gate, "dropped": "in_flight"}
        if settings.extractor == "recorded":
            candidates: Sequence[Candidate] = self._recorded.get(turn.key, ())
        else:
            candidates = [*corrected, *(main_pass(turn.text, fold=fold) if gate else ())]
        passes = _passes(candidates)
        # A sentence that is a lesson is stored once.
        items = distinct(
            _proposed(via, candidate)
            for via, most in (("lesson", MOST_LESSONS), ("failure", 1), ("main", MOST_ITEMS))
            for candidate in kept([item for item in passes[via] if normalised(item.text) not in taken], most)
        )
        self.running.append(Waiting(turn.time_ms + settings.extraction_ms, turn, tuple(items)))
        receipt = {"gate": gate, "candidates": len(candidates), "kept": len(items)}
        receipt["low_confidence"] = sum(candidate.confidence < MIN_CONFIDENCE for candidate in candidates)
        return receipt | ({"recorded": turn.key in self._recorded} if settings.extractor == "recorded" else {})


def _passes(candidates: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """Return candidates by the pass whose limit they share."""
    passes: dict[str, list[Candidate]] = {"lesson": [], "failure": [], "main": []}
    for candidate in candidates:
        passes[candidate.kind if candidate.kind in passes else "main"].append(candidate)
    return passes


def _proposed(via: str, candidate: Candidate) -> Proposed:
    defaults = extracted_defaults(candidate.kind)
    if candidate.importance is not None:
        defaults = defaults._replace(importance=candidate.importance)
    return Proposed(via, candidate.kind, candidate.text, defaults)
