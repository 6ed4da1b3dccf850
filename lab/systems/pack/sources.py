"""The sources of a pack beside the memories of a recording: ledgers, episodes, facts, a graph, documents (PK-10)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import digest, sha256_file
from lab.systems.episodes.lane import EpisodesLane
from lab.systems.facts.lane import FactsLane
from lab.systems.files.settings import Reader
from lab.systems.graph.lane import GraphLane
from lab.systems.pack.candidate import Lane
from lab.systems.pack.documents_lane import DocumentsLane, read_documents
from lab.systems.pack.ledger_lane import LedgerLane

# What a source is, as a message says what to give.
_A_LEDGER = "the SQLite file of a ledger"
_KINDS = {
    "episodes": _A_LEDGER,
    "facts": "a file of lab facts",
    "factsLedger": _A_LEDGER,
    "graph": "a file of lab graph export",
}
KEYS = ("ledgers", *_KINDS, "factsRoot", "documents")


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

        ``names`` says how the user gives each of :data:`KEYS`, such as ``--facts``; "" for what needs no name.
        """
        for key, path in self.files():
            if not path.is_file():
                wrong = "is a folder" if path.is_dir() else "no such file"
                raise UnusableInput(f"{names[key]} {path}: {wrong}; give {_KINDS.get(key, _A_LEDGER)}".lstrip())
        for key, folder in (("documents", self.documents), ("factsRoot", self.facts_root)):
            # Without the folder of their sources, the evidence of all facts would seem to be gone.
            if folder is not None and not folder.is_dir():
                wrong = "is a file; give its folder" if folder.is_file() else "no such folder"
                raise UnusableInput(f"{names[key]} {folder}: {wrong}")
        if len({path.stem for path in self.ledgers}) < len(self.ledgers):
            raise UnusableInput("two ledgers have one name, so that their citations would be the same; rename one")
        if self.facts and not self.facts_ledger and len(self.ledgers) > 1:
            raise UnusableInput(
                f"{names['facts']} with several ledgers: name the one that has their sources by {names['factsLedger']}"
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

    Raises :class:`UnusableInput` for an unknown key, a value of another type, or a path that does not exist.
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
    # A prompt has to be packed without such a source; a replay without it would measure something else.
    for key, path in sources.files():
        if not os.access(path, os.R_OK):
            raise UnusableInput(f"{where}: sources: {key}: {path}: may not be read; change its permissions")
    return sources
