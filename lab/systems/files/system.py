"""What systems over a workspace share: what they write, what of a search becomes an item, and why others do not.

The rules are HB-2, HB-7 and HB-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from typing import NamedTuple

from lab.base.files import digest
from lab.recordings.model import Memory, Turn
from lab.retrieval.faults import SLOW_NS, Faults
from lab.retrieval.stage_timer import SEARCH, StageTimer
from lab.systems.contract import (
    NOTHING,
    Ask,
    Detail,
    Explained,
    Item,
    MemorySystem,
    Recall,
    Signals,
    Standing,
    Step,
    Stored,
    Writes,
)
from lab.systems.files.folder import Entry, Folder, Written, draft_of, note_of, operators_files, transcript_of
from lab.systems.files.index import SNIPPET, FileIndex
from lab.systems.files.search import Found, Hit, candidates, depth_of, selected
from lab.systems.files.settings import Settings
from lab.systems.kit import Kit

# What became of a result, as receipts say it.
INJECTED, BELOW, SLOTS, BUDGET = "injected", "below_min_score", "max_results", "max_tokens"
_CAUSES = {
    BELOW: ("silent", "the score {score:.3f} of {at} is below the minimum"),
    SLOTS: ("slot", "{at} has a score of {score:.3f}; others took the slots"),
    BUDGET: ("budget", "{at} was selected, and the budget dropped it"),
    "": ("slot", "{at} has a score of {score:.3f}, and is not among what the search returns"),
}


class Trace(NamedTuple):
    """What a recall looked at: why it was skipped or failed, all candidates, and what became of the results by row.

    ``floor`` is the minimum score.
    """

    skipped: str = ""
    failed: str = ""
    candidates: Sequence[Hit] = ()
    decisions: Mapping[int, str] = {}
    floor: float = 0.0


def _holds(hit: Hit, key: str) -> bool:
    return any(piece.entry.id == key for piece in hit.indexed.chunk.pieces)


def _reason(trace: Trace, hit: Hit | None, key: str) -> tuple[str, str]:
    if trace.skipped:
        return "trivial", f"the prompt was skipped: {trace.skipped}"
    if trace.failed:
        return "fault", f"the search failed: {trace.failed}"
    if hit is None:
        return "depth", "no chunk with it is among the candidates of the search"
    decision = trace.decisions.get(hit.row, BELOW if hit.score < trace.floor else "")
    beyond = f"beyond the {SNIPPET} characters that a result shows"
    if decision == INJECTED:
        return "snippet", f"{hit.indexed.citation} holds it {beyond}"
    cause, text = _CAUSES[decision]
    is_shown = any(entry.id == key for entry in hit.indexed.shown)
    return cause, text.format(score=hit.score, at=hit.indexed.citation) + ("" if is_shown else f"; it is {beyond}")


# Faults with which a search answers with less than it has.
_HARMFUL = frozenset({"embedder_down", "input_too_long", "fts_error", "vector_error"})


class FileMemory(MemorySystem):
    """A workspace of one conversation: memories become notes, messages transcripts, and outputs of tools drafts.

    Where the system does not capture, transcripts and drafts are searched like all else, but are no items.
    """

    def __init__(self, settings: Settings, draft_roles: Sequence[str], kit: Kit) -> None:
        default = ("memory", "sessions") if kit.captures else ("memory",)
        self._version, self._trace = settings.version, Trace()
        self._sources = default if settings.sources is None else settings.sources
        self._draft_roles = draft_roles
        self._captures = kit.captures
        self._sessions: dict[str, int] = {}
        # Workspaces with transcripts differ, because these contain what the system injected.
        shares = not kit.captures and "sessions" not in self._sources
        key = digest(["files", asdict(replace(settings, max_results=0, min_score=0)), list(draft_roles)])
        shared: FileIndex | None = kit.shared.get(key) if shares else None
        self._leads = shared is None
        self.index = shared or FileIndex(Folder(kit.scratch), settings, kit.vectors)
        if self._leads and shares:
            kit.shared[key] = self.index
        self._folder = self.index.folder
        if self._leads and "memory" in self._sources:
            for path, text in operators_files(settings.extra_paths).items():
                # It is context, and no memory of the recording.
                self._folder.append(path, Entry("", "", (path,)), text.removesuffix("\n").split("\n"), 0)

    def remember(self, memories: Sequence[Memory]) -> None:
        """Write memories into notes."""
        with self._feeding() as feeds:
            for memory in memories if feeds and "memory" in self._sources else ():
                path, (entry, lines) = note_of(memory)
                self._folder.append(path, entry, lines, memory.created_at)

    def forget(self, keys: Sequence[str]) -> None:
        """Remove memories from the notes."""
        with self._feeding() as feeds:
            for key in keys if feeds else ():
                self._folder.remove(key)

    def observe(self, turn: Turn) -> Writes:
        """Write a turn into the drafts or into the transcript of its session."""
        with self._feeding() as feeds:
            return self._observed(turn) if feeds else NOTHING

    def _observed(self, turn: Turn) -> Writes:
        written: Sequence[Written] = ()
        path = ""
        if turn.role in self._draft_roles and "memory" in self._sources:
            path, written = draft_of(turn)
        elif turn.role not in self._draft_roles and "sessions" in self._sources:
            number = self._sessions.setdefault(turn.session, len(self._sessions) + 1)
            path, written = transcript_of(turn, number, self.message(turn))
        for entry, lines in written:
            kept = entry if self._captures else entry._replace(id="")
            self._folder.append(path, kept, lines, turn.time_ms)
        if not self._captures or not written:
            return NOTHING
        return Writes(created=tuple(Stored(*entry) for entry, _ in written))

    def message(self, turn: Turn) -> str:
        """Return the text of a message as the host keeps it."""
        return turn.said or turn.text

    def reads(self, ask: Ask) -> bool:
        """Return whether a query brings the index up to date."""
        return True

    def explain(self, ask: Ask, candidates: None, recall: Recall, relevant: Sequence[str], detail: Detail) -> Explained:
        """Explain each memory by the chunk that holds it."""
        injected = [item.id for item in recall.items[: recall.injected]]
        reasons: dict[str, tuple[str, str]] = {}
        standings: dict[str, Standing] = {}
        for key in relevant:
            found = next(((rank, hit) for rank, hit in enumerate(self._trace.candidates, 1) if _holds(hit, key)), None)
            if found:
                standings[key] = Standing(None, found[0], found[1].score, found[1].fts_rank, found[1].vec_rank)
            if key not in injected:
                reasons[key] = _reason(self._trace, found[1] if found else None, key)
        return Explained.of(f"host {self._version}", reasons, standings=standings)

    def rehearse(self, steps: Iterable[Step]) -> Iterator[str]:
        """Yield the chunks that recalls would embed. Blocks that recalls would inject are not in the transcripts."""
        with closing(self):
            for step in steps:
                self.remember(step.born)
                self.forget(step.gone)
                if any(self.reads(ask) for ask in step.asks):
                    yield from self.index.texts_to_embed()
                if step.turn is not None:
                    self.observe(step.turn)

    def close(self) -> None:
        """Close the index."""
        if self._leads:
            self.index.close()

    def search(self, ask: Ask, limit: int, min_score: float, timer: StageTimer) -> Found:
        """Bring the index up to date and search it. What systems share is done once, and each counts it all."""
        if self.index.broken is not None:
            raise self.index.broken
        index, depth = self.index, depth_of(self.index, limit)
        _, timer.timings["retrieve"] = index.once(ask, "sync", index.sync)
        ranked, spent = index.once(ask, depth, lambda: candidates(index, ask.text, depth, ask.now_ms, ask.faults))
        found = timer.stage(SEARCH, lambda: selected(index, ranked, limit, min_score, ask.faults))
        timer.timings[SEARCH] += spent + SLOW_NS * ("slow_store" in ask.faults)
        return found

    @contextmanager
    def _feeding(self) -> Iterator[bool]:
        """Say whether this system feeds the index; the others fail if it could not."""
        if self.index.broken is not None:
            raise self.index.broken
        try:
            yield self._leads
        except BaseException as error:
            self.index.broken = error
            raise


def rendered(hit: Hit) -> str:
    """Return a result as it is injected: the start of the chunk, and where it is from, as the host cites it."""
    return f"{hit.indexed.snippet}\nSource: {hit.indexed.citation}"


def items_of(injected: Sequence[Hit], others: Iterable[Hit], depth: int) -> tuple[tuple[Item, ...], int]:
    """Return the items of a ranking, each once, and how many of them are injected.

    A result holds the entries that its snippet shows, in the order of its lines. The items of ``others`` follow, up to
    ``depth`` in all.
    """
    items: dict[str, Item] = {}
    for item in _items(injected):
        items.setdefault(item.id, item)
    count = len(items)
    rows = {hit.row for hit in injected}
    for item in _items(hit for hit in others if hit.row not in rows):
        if len(items) >= depth:
            break
        items.setdefault(item.id, item)
    return tuple(items.values()), count


def _items(hits: Iterable[Hit]) -> Iterator[Item]:
    for hit in hits:
        for entry in hit.indexed.shown:
            signals = Signals(hit.indexed.citation, fts_rank=hit.fts_rank, vec_rank=hit.vec_rank)
            yield Item(entry.id, entry.text, entry.sources, round(hit.score, 6), signals)


def harmed(faults: Faults) -> bool:
    """Return whether a part of the search fails."""
    return bool(faults & _HARMFUL)


def receipt_of(hits: Sequence[Hit], decisions: Mapping[int, str]) -> list[dict[str, object]]:
    """Return what a receipt says of results: where they are, their scores, and what became of them."""
    return [
        {
            "at": hit.indexed.citation,
            "score": round(hit.score, 6),
            "vector": round(hit.vector, 6),
            "words": round(hit.words, 6),
            "decision": decisions.get(hit.row, ""),
        }
        for hit in hits
    ]
