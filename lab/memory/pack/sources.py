"""The sources of a pack beside the memories of a recording: ledgers, episodes, facts, a graph, documents (PK-10)."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import digest, sha256_file
from lab.memory.episodes.lane import EpisodesLane
from lab.memory.facts.lane import FactsLane
from lab.memory.graph.lane import GraphLane
from lab.memory.pack.candidate import Lane
from lab.memory.pack.documents_lane import SUFFIXES, DocumentsLane, read_documents
from lab.memory.pack.ledger_lane import UNREADABLE, LedgerLane
from lab.systems.files.settings import Reader

# What a source is, as a message says what to give.
_A_LEDGER = "the SQLite file of a ledger"
_KINDS = {
    "episodes": _A_LEDGER,
    "facts": "a file of lab memory facts",
    "factsLedger": _A_LEDGER,
    "graph": "a file of lab memory graph export",
}
KEYS = ("ledgers", *_KINDS, "factsRoot", "documents")
_MISSING, _FILE, _FOLDER, _HIDDEN = "missing", "file", "folder", "hidden"


@dataclass(frozen=True, slots=True)
class Sources:
    """Files and folders that a pack is made from; None and empty: not searched.

    ``facts_ledger`` has the sources of ``facts`` (None: the only ledger of ``ledgers``); their relative paths start
    from ``facts_root``. ``archived``: soft-archived observations are included.
    """

    ledgers: tuple[Path, ...] = ()
    episodes: Path | None = None
    facts: Path | None = None
    facts_ledger: Path | None = None
    facts_root: Path = Path()
    graph: Path | None = None
    documents: Path | None = None
    archived: bool = False

    def checked(self, names: Mapping[str, str]) -> Sources:
        """Return these sources. Raises :class:`UnusableInput` for one that does not exist.

        One in a folder that may not be entered is left to its lane. ``names`` says how the user gives each of
        :data:`KEYS`, such as ``--facts``; "" for what needs no name.
        """
        for key, path in self.files():
            if (kind := _kind(path)) not in (_FILE, _HIDDEN):
                wrong = "is a folder" if kind == _FOLDER else "no such file"
                raise UnusableInput(f"{names[key]} {path}: {wrong}; give {_KINDS.get(key, _A_LEDGER)}".lstrip())
        for key, folder in (("documents", self.documents), ("factsRoot", self.facts_root)):
            # Without the folder of their sources, the evidence of all facts would seem to be gone.
            if folder is not None and (kind := _kind(folder)) not in (_FOLDER, _HIDDEN):
                wrong = "is a file; give its folder" if kind == _FILE else "no such folder"
                raise UnusableInput(f"{names[key]} {folder}: {wrong}")
        if len({path.stem for path in self.ledgers}) < len(self.ledgers):
            same = "two ledgers have one name, so that their citations would be the same; rename one"
            raise UnusableInput(f"{names['ledgers']} {same}".lstrip())
        if self.facts and not self.facts_ledger and len(self.ledgers) > 1:
            other = names["factsLedger"].rpartition(" ")[2].rstrip(":")
            raise UnusableInput(
                f"{names['facts']} with several ledgers: name the one that has their sources by {other}"
            )
        return self

    def ledger_lanes(self, *, upstream: bool = False) -> list[LedgerLane]:
        """Return a lane for each ledger; the refs of several have the names of their files."""
        many = len(self.ledgers) > 1
        return [LedgerLane(path, f"{path.stem}:" if many else "", upstream, self.archived) for path in self.ledgers]

    def other_lanes(self, stack: ExitStack) -> list[Lane]:
        """Return the lanes of episodes, facts, a graph and documents, as far as they are given.

        They can be searched until ``stack`` closes.
        """
        lanes: list[Lane] = []
        if self.episodes:
            lanes.append(EpisodesLane(self.episodes))
        if self.facts:
            ledger = self.facts_ledger or next(iter(self.ledgers), None)
            lanes.append(FactsLane(self.facts, ledger, self.facts_root))
        if self.graph:
            lanes.append(GraphLane(self.graph))
        if self.documents:
            lanes.append(stack.enter_context(closing(DocumentsLane(self.documents))))
        return lanes

    def digests(self) -> dict[str, str]:
        """Return the sha256 of every file by its key and name, and one of a folder of documents."""
        found = {f"{key}:{path.name}": sha256_file(path) for key, path in self.files()}
        for key, path in self.files():
            # What another program wrote to a ledger may still be in the log beside it.
            log = Path(f"{path}-wal")
            if log.is_file() and log.stat().st_size:
                found[f"{key}:{log.name}"] = sha256_file(log)
        if self.documents:
            found[f"documents:{self.documents.name}"] = digest(read_documents(self.documents)[0])
        return found

    def describe(self) -> dict[str, object]:
        """Return a configuration that :func:`read_sources` reads back as these sources."""
        config: dict[str, object] = {key: str(path) for key, path in self.files() if key != "ledgers"}
        config |= {"ledgers": [str(path) for path in self.ledgers]} if self.ledgers else {}
        config |= {"documents": str(self.documents)} if self.documents else {}
        return config | ({"factsRoot": str(self.facts_root)} if self.facts_root != Path() else {})

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield every file with its key."""
        yield from (("ledgers", path) for path in self.ledgers)
        for key, path in zip(_KINDS, (self.episodes, self.facts, self.facts_ledger, self.graph), strict=True):
            if path is not None:
                yield key, path


def read_sources(config: Mapping[str, Any] | None, where: str) -> Sources:
    """Return the sources of an arm's configuration, with paths relative to the current folder.

    Raises :class:`UnusableInput` for an unknown key, a value of another type, and a source that does not exist or
    cannot be searched.
    """
    part = Reader((config or {}).get("sources", {}), f"{where}: sources", KEYS)

    def path_of(key: str) -> Path | None:
        value = part.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise part.wrong(key, "a path")
        return None if value is None else Path(value)

    sources = Sources(
        tuple(Path(value) for value in part.texts("ledgers", ())),
        path_of("episodes"),
        path_of("facts"),
        path_of("factsLedger"),
        path_of("factsRoot") or Path(),
        path_of("graph"),
        path_of("documents"),
    ).checked({key: f"{where}: sources: {key}:" for key in KEYS})
    if not sources.facts and (alone := next((key for key in ("factsLedger", "factsRoot") if part.get(key)), None)):
        raise UnusableInput(f"{where}: sources: {alone}: needs facts; give a file of lab memory facts, or leave it out")
    _require_searchable(sources, f"{where}: sources")
    return sources


def _require_searchable(sources: Sources, where: str) -> None:
    """Raise :class:`UnusableInput` for a source that cannot be searched.

    A prompt has to be packed without such a source; a replay without it would measure something else.
    """
    with ExitStack() as stack:
        lanes: list[tuple[str, Lane]] = [("ledgers", lane) for lane in sources.ledger_lanes()]
        lanes += [("factsLedger", LedgerLane(sources.facts_ledger))] if sources.facts_ledger else []
        lanes += [(lane.name, lane) for lane in replace(sources, documents=None).other_lanes(stack)]
        for key, lane in lanes:
            found = lane.search("memory", 1, scope=None, now_ms=0)
            if not found.searched:
                raise UnusableInput(f"{where}: {key}: {(found.reason or '').removeprefix(f'{UNREADABLE}: ')}")
    folder = sources.documents
    if folder and not read_documents(folder)[0]:
        raise UnusableInput(f"{where}: documents: {folder}: no documents ({', '.join(SUFFIXES)}) that can be read")


def _kind(path: Path) -> str:
    """Return whether a path is a file or a folder, does not exist, or is in a folder that may not be entered."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return _HIDDEN
    except (OSError, ValueError):
        return _MISSING
    return _FILE if stat.S_ISREG(mode) else _FOLDER if stat.S_ISDIR(mode) else _MISSING
