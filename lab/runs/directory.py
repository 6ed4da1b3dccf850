"""The run directory: what it holds, and how its files are read.

A conversation's receipts are one file that is complete or absent, so the receipts folder is the record of what is
done. Every file is checked against its recorded sha256 before it is read, once a process as long as it stays as it is.
Writing is in :mod:`lab.runs.resume`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from lab.columns import codes_of
from lab.errors import Altered, Incomplete, NotARun, UnusableInput
from lab.files import digest, read_json, read_json_lines, sha256_file
from lab.formatting import counted
from lab.runs.manifest import Manifest, Shard, read_manifest
from lab.runs.tables import read_table
from lab.systems.contract import ArmInfo

if TYPE_CHECKING:
    import pyarrow as pa

# Bytes of a name before its ending; most file systems take 255 in all.
MAX_NAME = 180
MANIFEST, GOLDEN, FAILURES, DIGESTS = "manifest.json", "golden.jsonl", "failures.jsonl", "digests"
RECEIPTS, LATENCY, WRITES = "receipts", "latency", "writes"
AGAIN = "delete it and run the same replay again"


class RunDirectory:
    """A run on disk, or a shard of one."""

    def __init__(self, path: Path, manifest: Manifest, *, allow_failed: bool = False) -> None:
        self.path = path
        self.manifest = manifest
        self.allow_failed = allow_failed
        self._checked: dict[str, tuple[int, int, int]] = {}

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the order in which they were asked for."""
        return [arm.name for arm in self.manifest.resolved.arms]

    def arm(self, name: str) -> ArmInfo:
        """An arm by name."""
        return self.manifest.arm(name)

    @property
    def conversations(self) -> list[str]:
        """Conversations that the run is to hold, by id."""
        return list(self.manifest.resolved.conversations)

    @property
    def max_items(self) -> dict[str, int]:
        """Items that each arm injects at most."""
        return {arm.name: arm.cutoff for arm in self.manifest.resolved.arms}

    @property
    def depths(self) -> dict[str, int]:
        """Places of each arm's ranking."""
        return {arm.name: arm.depth for arm in self.manifest.resolved.arms}

    @property
    def cutoff(self) -> int:
        """The cutoff of the headline measures: what every arm can inject."""
        return min(self.max_items.values())

    @property
    def labels(self) -> str:
        """Where importance came from, in a few words."""
        return str(self.manifest.resolved.labels)

    @property
    def labels_are_sampled(self) -> bool:
        """Whether another seed would draw other labels."""
        return self.manifest.resolved.labels.are_sampled

    @property
    def shard(self) -> Shard | None:
        """Which part of a run this is; None for a whole one."""
        return self.manifest.shard

    @property
    def own(self) -> list[str]:
        """Conversations that this folder is to hold: all, or those of its shard."""
        return list(self.manifest.own)

    def receipts(self, conversation: str) -> Path:
        """Where a conversation's receipts are, or will be."""
        return self.path / RECEIPTS / f"{file_name(conversation)}.parquet"

    def latency(self, conversation: str) -> Path:
        """Where a conversation's timings are, or will be."""
        return self.path / LATENCY / f"{file_name(conversation)}.parquet"

    def writes(self, conversation: str) -> Path:
        """Where is, or will be, what the arms wrote in a conversation."""
        return self.path / WRITES / f"{file_name(conversation)}.parquet"

    def files(self, conversation: str) -> tuple[Path, ...]:
        """Where the files of a conversation are, or will be, the receipts last."""
        return self.latency(conversation), self.writes(conversation), self.receipts(conversation)

    def recorded(self, conversation: str) -> Path:
        """Where the digests of a conversation's files are until the run has ended."""
        return self.path / DIGESTS / f"{file_name(conversation)}.json"

    @cached_property
    def digests(self) -> dict[str, str]:
        """sha256 of every file by its path below the run: those of the manifest, and those recorded since."""
        found = dict(self.manifest.files)
        for path in sorted((self.path / DIGESTS).glob("*.json")):
            try:
                value = read_json(path)
            except UnusableInput:
                # Written just before the power went: what it was to cover is replayed again.
                continue
            if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
                found |= value
        return found

    @property
    def content(self) -> str:
        """sha256 of everything that measures are computed from: of two runs with one, every figure is the same."""
        files = {name: one for name, one in sorted(self.digests.items()) if name != FAILURES}
        return digest([self.manifest.run_key, dict(self.manifest.recall_points), files])

    def name_of(self, path: Path) -> str:
        """The path of a file below the run, as the digests have it."""
        return path.relative_to(self.path).as_posix()

    def done(self) -> list[str]:
        """Conversations whose receipts are there, with a digest."""
        paths = {name: self.receipts(name) for name in self.own}
        return [name for name, path in paths.items() if path.is_file() and self.name_of(path) in self.digests]

    def require_done(self) -> None:
        """Refuse a run that is not finished, a shard, which is not all of a run, and failed recalls unless allowed."""
        if self.shard:
            raise UnusableInput(
                f"{self.path}: is shard {self.shard} of a run, with {len(self.own)} of its {len(self.conversations)} "
                "conversations; `lab merge OUT SHARD…` makes the run of all its shards"
            )
        self.require_own()
        if self.manifest.failed and not self.allow_failed:
            raise Incomplete(
                f"{self.path}: {failed_told(self.manifest.failed)}; {FAILURES} lists them. A failed recall is no miss: "
                "mend the system and replay it again, or leave these turns out of every arm with --allow-failed"
            )

    def require_own(self) -> None:
        """Refuse a run, or a shard, in which conversations are missing: :class:`Incomplete`."""
        missing = len(self.own) - len(self.done())
        if missing:
            raise Incomplete(
                f"{self.path}: {missing} of {len(self.own)} conversations are missing; "
                "run the same replay again to finish it"
            )

    def check(self, path: Path) -> Path:
        """A file of the run, once it is seen to be as it was written; :class:`Altered` where it is not.

        It is hashed once, and again when it has changed since.
        """
        name = self.name_of(path)
        try:
            stat = path.stat()
            seen = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if self._checked.get(name) == seen:
                return path
            wanted, now = self.digests.get(name), sha256_file(path)
        except FileNotFoundError:
            raise Incomplete(f"{path}: is missing; run the same replay again to finish it") from None
        except OSError as error:
            raise Altered(f"{path}: damaged (cannot be read: {error.strerror}); {AGAIN}") from None
        if wanted is None:
            raise Altered(f"{path}: is not of this run (no digest of it was recorded); {AGAIN}")
        if wanted != now:
            raise Altered(f"{path}: damaged or altered (its sha256 is not the recorded one); {AGAIN}")
        self._checked[name] = seen
        return path

    def check_all(self) -> None:
        """Check everything that a finished run is scored from; raises what :meth:`check` does."""
        self.require_done()
        for path in (self.path / GOLDEN, *map(self.receipts, self.conversations)):
            self.check(path)
        for name in self.digests:
            if name.startswith(f"{WRITES}/"):
                self.check(self.path / name)

    def read_receipts(
        self, conversation: str, columns: Sequence[str] | None = None, coded: Sequence[str] = ()
    ) -> pa.Table:
        """The receipts of a conversation, a row an arm and recall point; see :func:`lab.runs.tables.read_table`.

        Raises :class:`Altered`, and :class:`Incomplete` where there is not exactly one row for each of them.
        """
        path = self.receipts(conversation)
        table = read_table(self.check(path), columns, coded)
        require_rows(table, path, self.arms, self.manifest.recall_points[conversation])
        return table

    def read_latency(
        self, conversation: str, columns: Sequence[str] | None = None, coded: Sequence[str] = ()
    ) -> pa.Table | None:
        """The timings of a conversation; None where the run has no timings at all, as an approved baseline has none.

        Raises :class:`Altered`, and :class:`Incomplete` where others have timings and this one has none.
        """
        path = self.latency(conversation)
        if not path.is_file() and not any(self.latency(one).is_file() for one in self.own):
            return None
        return read_table(self.check(path), columns, coded)

    def failed_recalls(self) -> list[Failed]:
        """Every failed recall of the conversations that are done."""
        found = []
        for conversation in self.done():
            table = self.read_receipts(conversation, ("arm", "turn", "probe", "failure"))
            if table["failure"].null_count < table.num_rows:
                found += [Failed(conversation, **row) for row in table.to_pylist() if row["failure"] is not None]
        return found

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Turns and probes at which a recall failed: where that is allowed, no arm is measured there."""
        places = self.failed_recalls() if self.allow_failed and self.manifest.failed else []
        return frozenset(key for one in places for key in (one.turn, one.probe) if key is not None)

    def failures(self) -> list[dict[str, object]]:
        """What could not be replayed, with phase and reason; nothing where all could."""
        path = self.path / FAILURES
        return [line for _, line in read_json_lines(self.check(path))] if path.is_file() else []


class Failed(NamedTuple):
    """A failed recall, and why: the kind of failure, in which call, and where in the code."""

    conversation: str
    arm: str
    turn: str
    probe: str | None
    failure: str


def failed_told(failed: Mapping[str, int]) -> str:
    """How many recalls of which arms failed, in a few words."""
    return ", ".join(f"{counted(count, 'recall')} of {arm} failed" for arm, count in failed.items())


def require_rows(table: pa.Table, path: Path, arms: Sequence[str], points: int) -> None:
    """Refuse receipts without exactly one row for each arm and recall point: :class:`Incomplete`.

    Looks at every row where the table has the columns ``arm`` and ``turn``, and else counts them.
    """
    import numpy as np

    wanted = points * len(arms)
    told = f"{path}: has %s, not one row for each of {counted(len(arms), 'arm')} and {counted(points, 'recall point')}"
    if table.num_rows != wanted:
        raise Incomplete(f"{told % counted(table.num_rows, 'row')}; {AGAIN}")
    if not {"arm", "turn"} <= set(table.column_names) or not wanted:
        return
    (arm, names), (turn, turns) = codes_of(table["arm"]), codes_of(table["turn"])
    cells = np.bincount((arm + 1) * len(turns) + turn + 1, minlength=len(names) * len(turns))
    if set(names[:-1]) != set(arms) or len(turns) - 1 != points or cells.max(initial=0) > 1:
        raise Incomplete(f"{told % 'other arms or turns'}; {AGAIN}")


def open_run(path: Path, *, allow_failed: bool = False) -> RunDirectory:
    """Open a run; a folder without a manifest of ours is :class:`NotARun`.

    With ``allow_failed`` turns at which a recall failed are left out of every arm; without, such a run is refused.
    """
    if not path.is_dir():
        raise NotARun(f"{path}: no such run directory")
    if not (path / MANIFEST).is_file():
        raise NotARun(f"{path}: is no run directory (it has no {MANIFEST})")
    return RunDirectory(path, read_manifest(path / MANIFEST), allow_failed=allow_failed)


def file_name(conversation: str) -> str:
    """A conversation id as a file name.

    Letters and digits of any script stay; what a path could trip over is percent-escaped, so that two ids never share a
    name. A name too long for a file system ends in a hash of the whole.
    """
    name = "".join(
        character
        if character.isalnum() or character in " -_"
        else quote(character.encode("utf-8", "surrogatepass"), safe="")
        for character in conversation
    ).replace(".", "%2E")
    if len(name.encode()) > MAX_NAME:
        name = f"{name[:40]}-{digest(conversation)[:24]}"
    return name.replace(" ", "%20") if name.strip(" ") != name else name
