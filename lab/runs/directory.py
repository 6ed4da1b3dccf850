"""Read a run directory.

The receipts of a conversation are one file, complete or absent, so the receipts folder records which conversations are
done. Every file is checked against its recorded sha256 before it is read: once in a process, and again if it changed.
:mod:`lab.runs.resume` writes runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.columns import codes_of
from lab.base.errors import Altered, Incomplete, NotARun, UnusableInput
from lab.base.files import (
    cannot_write,
    digest,
    file_name,
    leftovers,
    read_json,
    read_json_lines,
    sha256_bytes,
    sha256_file,
)
from lab.base.formatting import counted
from lab.base.set_registry import SHIPPED
from lab.runs.manifest import COMPLETE, NO_HAYSTACK, Manifest, Shard, read_manifest
from lab.runs.tables import read_table
from lab.systems.arm_info import ArmInfo

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST, GOLDEN, FAILURES, DIGESTS = "manifest.json", "golden.jsonl", "failures.jsonl", "digests"
RECEIPTS, LATENCY, WRITES = "receipts", "latency", "writes"
# What other packages write into a run.
VERDICT, REPORT, REPORT_DATA = "verdict.json", "report.html", "report.json"
# What an audit of receipts is called, beside a verdict on it.
AUDIT = "audit.json"
# The list of files of an approved run, which never changes (:mod:`lab.nightly.baselines`).
OBJECT = "object.json"
REMEDY = "delete it and run the same replay again"


class RunDirectory:
    """A run on disk, a shard of one, or some conversations of one (:meth:`of`)."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        *,
        allow_failed: bool = False,
        only: frozenset[str] | None = None,
        gold: bytes | None = None,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.allow_failed = allow_failed
        # The lines of other judgements than golden.jsonl has (:meth:`judged_by`).
        self.gold = gold
        self._only = only
        self._checked: dict[str, tuple[int, int, int]] = {}

    def of(self, conversations: Iterable[str]) -> RunDirectory:
        """Return the run as if it had only these conversations; its files are the same."""
        only = frozenset(conversations).intersection(self.conversations)
        if len(only) == len(self.conversations):
            return self
        return RunDirectory(self.path, self.manifest, allow_failed=self.allow_failed, only=only, gold=self.gold)

    def judged_by(self, gold: bytes) -> RunDirectory:
        """Return the run as if its golden.jsonl had these lines; the file stays, and no scores are stored."""
        return RunDirectory(self.path, self.manifest, allow_failed=self.allow_failed, only=self._only, gold=gold)

    def _chosen(self, conversations: Iterable[str]) -> list[str]:
        return [name for name in conversations if self._only is None or name in self._only]

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the order of the request."""
        return [arm.name for arm in self.manifest.resolved.arms]

    def arm(self, name: str) -> ArmInfo:
        """Return an arm by name."""
        return self.manifest.arm(name)

    @property
    def conversations(self) -> list[str]:
        """Ids of all conversations of the run, done or not."""
        return self._chosen(self.manifest.resolved.conversations)

    @property
    def max_items(self) -> dict[str, int]:
        """Maximum number of items that each arm injects."""
        return {arm.name: arm.cutoff for arm in self.manifest.resolved.arms}

    @property
    def depths(self) -> dict[str, int]:
        """Maximum length of each arm's ranking."""
        return {arm.name: arm.depth for arm in self.manifest.resolved.arms}

    @property
    def cutoff(self) -> int:
        """The cutoff of the headline measures: the number of items that every arm can inject."""
        return min(self.max_items.values())

    @property
    def labels(self) -> str:
        """Short description of where importance labels came from."""
        return str(self.manifest.resolved.labels)

    @property
    def haystack(self) -> str:
        """Short description of the memories of other conversations that were added to each conversation."""
        return str(self.manifest.resolved.haystack or NO_HAYSTACK)

    @property
    def labels_are_sampled(self) -> bool:
        """Whether another seed would sample other labels."""
        return self.manifest.resolved.labels_are_sampled

    @property
    def shard(self) -> Shard | None:
        """Which shard of a run this is; None for a complete run."""
        return self.manifest.shard

    @property
    def assigned(self) -> list[str]:
        """Conversations assigned to this folder: all, or those of its shard."""
        return self._chosen(self.manifest.assigned)

    def receipts(self, conversation: str) -> Path:
        """Return the path of a conversation's receipts, existing or not."""
        return self.path / RECEIPTS / f"{file_name(conversation)}.parquet"

    def latency(self, conversation: str) -> Path:
        """Return the path of a conversation's timings, existing or not."""
        return self.path / LATENCY / f"{file_name(conversation)}.parquet"

    def writes(self, conversation: str) -> Path:
        """Return the path of the memories that arms wrote in a conversation, existing or not."""
        return self.path / WRITES / f"{file_name(conversation)}.parquet"

    def files(self, conversation: str) -> tuple[Path, ...]:
        """Return the paths of a conversation's files, existing or not, receipts last."""
        return self.latency(conversation), self.writes(conversation), self.receipts(conversation)

    def recorded(self, conversation: str) -> Path:
        """Return the path that holds the digests of a conversation's files until the run has ended."""
        return self.path / DIGESTS / f"{file_name(conversation)}.json"

    @cached_property
    def digests(self) -> dict[str, str]:
        """sha256 of every file by its path below the run: from the manifest, and recorded by a replay since.

        A replay that goes on adds what the manifest lacks, and replaces nothing in it. In a complete run the manifest
        alone counts; raises :class:`Altered` if such a run has a folder of recorded digests.
        """
        digests: dict[str, str] = {}
        folder = self.path / DIGESTS
        if self.manifest.status == COMPLETE and os.path.lexists(folder):
            raise Altered(
                f"{folder}: has no place in a complete run, whose manifest has all digests; a replay that was killed "
                "as it ended may have left it: run the same replay again, which checks the run and removes it"
            )
        for path in sorted(folder.glob("*.json")):
            try:
                value = read_json(path)
            except UnusableInput:
                # Written just before a loss of power: the conversation is replayed again.
                continue
            if isinstance(value, dict) and all(isinstance(sha256, str) for sha256 in value.values()):
                digests |= value
        return {**digests, **self.manifest.files}

    @property
    def content(self) -> str:
        """sha256 of everything that measures read: two runs with the same value have the same figures."""
        files = {name: sha256 for name, sha256 in sorted(self.digests.items()) if name != FAILURES}
        only = [] if self._only is None else [sorted(self._only)]
        gold = [] if self.gold is None else [sha256_bytes(self.gold)]
        return digest([self.manifest.run_key, dict(self.manifest.recall_points), files, *only, *gold])

    def name_of(self, path: Path) -> str:
        """Return the path of a file below the run, as the digests list it."""
        return path.relative_to(self.path).as_posix()

    def done(self) -> list[str]:
        """Return the conversations whose receipts exist and have a digest."""
        paths = {name: self.receipts(name) for name in self.assigned}
        return [name for name, path in paths.items() if path.is_file() and self.name_of(path) in self.digests]

    def require_done(self) -> None:
        """Refuse a shard, an unfinished run, and failed recalls unless they are allowed.

        Raises :class:`UnusableInput` for a shard, else :class:`Incomplete`.
        """
        if self.shard:
            raise UnusableInput(
                f"{self.path}: is shard {self.shard} of a run, with {len(self.assigned)} of its "
                f"{len(self.conversations)} conversations; merge all shards with `lab runs merge OUT SHARD…`"
            )
        self.require_assigned()
        if self.manifest.failed and not self.allow_failed:
            raise Incomplete(
                f"{self.path}: {failed_summary(self.manifest.failed)}; {FAILURES} lists them. A failed recall is no "
                "miss: fix the system and replay it again, or leave these turns out of every arm with --allow-failed"
            )

    def require_assigned(self) -> None:
        """Raise :class:`Incomplete` if conversations of this run or shard are missing, or not in the manifest yet."""
        done = self.done()
        sealed = [name for name in done if self.name_of(self.receipts(name)) in self.manifest.files]
        if len(sealed) < len(done):
            raise Incomplete(f"{self.path}: its replay has not ended; run the same replay again to finish it")
        missing = len(self.assigned) - len(done)
        if missing:
            raise Incomplete(
                f"{self.path}: {missing} of {len(self.assigned)} conversations are missing; "
                "run the same replay again to finish it"
            )

    def check(self, path: Path) -> Path:
        """Return the path of a file after checking its sha256; it is hashed again only if it changed since.

        Raises :class:`Incomplete` if the file is missing, and :class:`Altered` if it has changed since it was written.
        """
        name = self.name_of(path)
        try:
            stat = path.stat()
            seen = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if self._checked.get(name) == seen:
                return path
            recorded, actual = self.digests.get(name), sha256_file(path)
        except FileNotFoundError:
            raise Incomplete(f"{path}: is missing; run the same replay again to finish it") from None
        except OSError as error:
            raise Altered(f"{path}: damaged (cannot be read: {error.strerror}); {REMEDY}") from None
        if recorded is None:
            raise Altered(f"{path}: does not belong to this run (it has no recorded digest); {REMEDY}")
        if recorded != actual:
            raise Altered(f"{path}: damaged or altered (its sha256 is not the recorded one); {REMEDY}")
        self._checked[name] = seen
        return path

    def check_all(self) -> None:
        """Check every file that a finished run is scored from; raise what :meth:`check` raises."""
        self.require_done()
        for path in (self.path / GOLDEN, *map(self.receipts, self.conversations)):
            self.check(path)
        for name in self.digests:
            if name.startswith(f"{WRITES}/"):
                self.check(self.path / name)

    def read_receipts(
        self, conversation: str, columns: Sequence[str] | None = None, coded: Sequence[str] = ()
    ) -> pa.Table:
        """Return the receipts of a conversation, one row for each arm and recall point.

        ``columns`` and ``coded`` are those of :func:`lab.runs.tables.read_table`. Raises :class:`Altered`, and
        :class:`Incomplete` if rows are missing or repeated.
        """
        path = self.receipts(conversation)
        table = read_table(self.check(path), columns, coded)
        require_rows(table, path, self.arms, self.manifest.recall_points[conversation])
        return table

    def read_latency(
        self, conversation: str, columns: Sequence[str] | None = None, coded: Sequence[str] = ()
    ) -> pa.Table | None:
        """Return the timings of a conversation; None if the run has none at all, as an approved baseline.

        Raises :class:`Altered`, and :class:`Incomplete` if only other conversations have timings.
        """
        path = self.latency(conversation)
        if not path.is_file() and not any(self.latency(name).is_file() for name in self.assigned):
            return None
        return read_table(self.check(path), columns, coded)

    def failed_recalls(self) -> list[Failed]:
        """Return every failed recall of the conversations that are done."""
        failed = []
        for conversation in self.done():
            table = self.read_receipts(conversation, ("arm", "turn", "probe", "failure"))
            if table["failure"].null_count < table.num_rows:
                failed += [Failed(conversation, **row) for row in table.to_pylist() if row["failure"] is not None]
        return failed

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Keys of turns and probes with a failed recall, if allowed: no arm is measured there."""
        failed = self.failed_recalls() if self.allow_failed and self.manifest.failed else []
        return frozenset(key for recall in failed for key in (recall.turn, recall.probe) if key is not None)

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


def failed_summary(failed: Mapping[str, int]) -> str:
    """Return how many recalls of which arms failed, as text."""
    return ", ".join(f"{counted(count, 'recall')} of {arm} failed" for arm, count in failed.items())


def require_rows(table: pa.Table, path: Path, arms: Sequence[str], points: int) -> None:
    """Raise :class:`Incomplete` unless receipts have exactly one row for each arm and recall point.

    Without the columns ``arm`` and ``turn``, only the number of rows is checked.
    """
    import numpy as np

    expected = points * len(arms)
    message = (
        f"{path}: has %s, not one row for each of {counted(len(arms), 'arm')} and {counted(points, 'recall point')}"
    )
    if table.num_rows != expected:
        raise Incomplete(f"{message % counted(table.num_rows, 'row')}; {REMEDY}")
    if not {"arm", "turn"} <= set(table.column_names) or not expected:
        return
    (arm, names), (turn, turns) = codes_of(table["arm"]), codes_of(table["turn"])
    rows = np.bincount((arm + 1) * len(turns) + turn + 1, minlength=len(names) * len(turns))
    if set(names[:-1]) != set(arms) or len(turns) - 1 != points or rows.max(initial=0) > 1:
        raise Incomplete(f"{message % 'other arms or turns'}; {REMEDY}")


def open_run(path: Path, *, allow_failed: bool = False) -> RunDirectory:
    """Open a run. Raises :class:`NotARun` for a folder without a manifest of a run.

    With ``allow_failed``, turns at which a recall failed are left out of every arm; otherwise such a run is refused.
    """
    if not path.exists() and not str(path).startswith(SHIPPED):
        raise NotARun(f"{path}: no such run directory")
    if not (path / MANIFEST).is_file():
        runs = sorted(found.parent for found in path.glob(f"runs/*/*/{MANIFEST}"))
        inside = f"it is a league, whose runs are runs/SET/ARM, such as {runs[0]}" if runs else ""
        inside = inside or f"lab replay {path} --out DIR makes a run of recordings"
        raise NotARun(f"{path}: is not a run directory (it has no {MANIFEST}); {inside}")
    return RunDirectory(path, read_manifest(path / MANIFEST), allow_failed=allow_failed)


FILES = (
    *("golden.jsonl", "failures.jsonl", "scores.parquet", "admission.json"),
    *(f"{study}.parquet" for study in ("saturation", "scale", "missed", "retention")),
    *(f"{study}.html" for study in ("missed", "ablate", "retention")),
    *(VERDICT, "verdict.xml", "verdict.prom", REPORT, "report.md", REPORT_DATA),
    *(f"acceptance/{VERDICT}", "acceptance/verdict.xml", "acceptance/acceptance.html"),
)
# Folders with one file for each conversation.
TABLES = ("receipts", "latency", "writes")


def files_of_run(run: RunDirectory, figures: Collection[str]) -> list[Path]:
    """Return the files of a run that :func:`remove_run` would remove."""
    return sorted({path for path in (*_known(run, figures), run.path / MANIFEST) if path.is_symlink() or path.exists()})


def remove_run(run: RunDirectory, figures: Collection[str]) -> list[Path]:
    """Remove a run; return the files and folders that the lab did not write, which are left in place.

    ``figures`` are the names of the figures that the lab draws, without number and suffix. The manifest is removed
    last, so that the removal can be repeated after a kill. Raises :class:`lab.base.errors.CannotMeasure` if the
    operating system refuses.
    """
    folders = [run.path / name for name in (*TABLES, DIGESTS, "figures", "acceptance")]
    try:
        for file in _known(run, figures):
            file.unlink(missing_ok=True)
        for folder in folders:
            _remove_empty(folder)
        (run.path / MANIFEST).unlink()
        _remove_empty(run.path)
    except OSError as error:
        raise cannot_write(run.path, error) from error
    if not run.path.is_dir():
        return []
    return sorted(
        path for path in run.path.rglob("*") if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    )


def _known(run: RunDirectory, figures: Collection[str]) -> Iterator[Path]:
    """Yield the files of a run except its manifest. Links are removed, never their targets."""
    drawn = re.compile(rf"(?:{'|'.join(map(re.escape, figures))})(?:-\d+)?\.(?:svg|png)")
    for name in FILES:
        yield run.path / name
    yield from leftovers(run.path)
    for folder in (run.path / name for name in (*TABLES, DIGESTS, "figures")):
        if folder.is_symlink() or not folder.is_dir():
            continue
        yield from leftovers(folder)
        if folder.name == DIGESTS:
            yield from map(run.recorded, run.conversations)
        elif folder.name == "figures":
            yield from (path for path in folder.iterdir() if drawn.fullmatch(path.name))
        else:
            yield from (folder / f"{file_name(name)}.parquet" for name in run.conversations)


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
