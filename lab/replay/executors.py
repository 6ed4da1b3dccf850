"""Who replays conversations: this process, several of this machine, or the workers of a Dask cluster.

All of them through the face of ``concurrent.futures``, and all with the same task: a conversation with everything that
its replay needs. A task reads no cache and no file of ours and writes none; it answers with the bytes of the
conversation's two files, which the process that asked keeps. So a run is the same whoever made it, and a worker that
dies takes nothing with it that had been kept.
"""

from __future__ import annotations

import gc
import logging
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, ParamSpec, TypeVar

from lab.errors import CannotMeasure, LabError, UnusableInput, describe_unexpected
from lab.processes import set_up, worker_pool
from lab.recordings.model import Recording
from lab.replay.candidates import Kept, all_served, from_kept, read_kept, save_kept, signatures
from lab.replay.loop import Wrote, replay
from lab.replay.plan import Plan
from lab.replay.receipts import latency_table, receipts_table
from lab.replay.sources import Handed, Sources, hand, play_of, prepare, tools_of
from lab.replay.writes import alignments, writes_table
from lab.runs.environment import packages
from lab.runs.tables import table_bytes

P = ParamSpec("P")
T = TypeVar("T")
# Tasks that wait at a worker while it is busy: one, so that it never waits for the next.
AHEAD = 2
LOCAL = "local"
# Seconds that a scheduler is waited for.
PATIENCE = 10


class Replayed(NamedTuple):
    """The bytes of a conversation's files (``writes`` None: nobody may write), and candidates not kept before."""

    receipts: bytes
    latency: bytes
    writes: bytes | None
    kept: Kept


@dataclass(frozen=True, slots=True)
class Task:
    """One conversation to replay: a plan of it alone, its sources, and what is kept of its candidates."""

    plan: Plan
    recording: Recording
    handed: Handed
    kept: Kept

    @property
    def conversation(self) -> str:
        """Its conversation."""
        return self.recording.conversation


class Workers(NamedTuple):
    """An executor, and how many tasks it works on at once."""

    pool: Executor
    width: int


def run_task(task: Task) -> Replayed | str:
    """Replay one conversation; or say in a sentence why that failed."""
    plan, recording = task.plan, task.recording
    try:
        sources = task.handed.open()
        tools = tools_of(
            plan, recording, sources, from_kept(task.kept, lambda one: sources.retriever(one, plan.asked.store))
        )
        wrote: list[Wrote] = []
        answers = list(replay(play_of(plan, recording, tools), plan.arms, wrote.append, infos=plan.infos))
        names = signatures(plan)
        for retrieval, candidates in task.kept.items():
            candidates.serve(names[retrieval])
        changed = {retrieval: one for retrieval, one in task.kept.items() if one.changed}
        aligned = alignments(recording, wrote)
        return Replayed(
            table_bytes(receipts_table(answers, recording, aligned)),
            table_bytes(latency_table(answers)),
            table_bytes(writes_table(wrote, aligned, len(recording.turns))) if plan.source == "captured" else None,
            changed,
        )
    except LabError as error:
        return str(error)
    except Exception as error:  # a fault nobody foresaw ends its conversation, not the run
        return describe_unexpected(error)


def replay_each(
    plan: Plan, waiting: Sequence[Recording], sources: Sources, workers: Workers, *, kept: bool = True
) -> Iterator[tuple[str, Replayed | str]]:
    """Each conversation with its files, or with why it has none, as they come.

    One worker takes them in order. Several take the largest first, so that they end together; tasks are made as they
    are taken, so that no more texts are held than are worked on. Without ``kept`` no kept candidates are read or
    written: every search is made.
    """
    if workers.width > 1:
        waiting = sorted(waiting, key=lambda recording: -size(plan, recording))
    by_name = {recording.conversation: recording for recording in waiting}
    for conversation, found in _results((task_of(plan, one, sources, kept=kept) for one in waiting), workers):
        if isinstance(found, Replayed):
            save_kept(plan, by_name[conversation], found.kept)
        yield conversation, found


def task_of(plan: Plan, recording: Recording, sources: Sources, *, kept: bool = True) -> Task:
    """A conversation with what its replay needs: where its candidates are all kept, no vectors and no words."""
    found = read_kept(plan, recording) if kept else {}
    texts = not all_served(plan, found)
    if texts:
        # A kept file may have been damaged since it was looked at.
        prepare(plan, [recording], sources, lambda _: None)
    # What is handed over holds the stored vectors that it needs.
    alone = replace(plan.alone(recording), vectors=None)
    return Task(alone, recording, hand(plan, recording, sources, texts=texts), found)


def size(plan: Plan, recording: Recording) -> int:
    """How much work a conversation is, roughly: a turn has its cost, and looks at every memory."""
    return len(plan.recall_points_of(recording)) * (2000 + len(recording.memories))


def _results(tasks: Iterable[Task], workers: Workers) -> Iterator[tuple[str, Replayed | str]]:
    running: dict[Future[Replayed | str], str] = {}
    most = workers.width * AHEAD if workers.width > 1 else 1
    for task in tasks:
        if len(running) >= most:
            yield from _ended(running)
        try:
            running[workers.pool.submit(run_task, task)] = task.conversation
        except BrokenProcessPool:
            yield task.conversation, "its process was killed"
    while running:
        yield from _ended(running)


def _ended(running: dict[Future[Replayed | str], str]) -> Iterator[tuple[str, Replayed | str]]:
    """Wait for the next to end; take out all that did."""
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in [one for one in running if one in done]:
        conversation = running.pop(future)
        try:
            yield conversation, future.result()
        except BrokenProcessPool:
            yield conversation, "its process was killed"
        except Exception as error:  # of the executor: a task tells its own as a sentence
            yield conversation, describe_unexpected(error)


class Here(Executor):
    """An executor that works in the process that asks, at once."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it, then hand out what came of it."""
        future: Future[Any] = Future()
        future.set_result(work(*args, **kwargs))
        return future


def workers_for(conversations: int, jobs: int, dask: str | None) -> AbstractContextManager[Workers]:
    """The workers that were asked for: those of Dask, else ``jobs`` processes, as far as there is work for them."""
    if dask is not None and conversations:
        return _dask(dask, jobs)
    return _processes(min(jobs, conversations)) if min(jobs, conversations) > 1 else _here()


@contextmanager
def _here() -> Iterator[Workers]:
    yield Workers(Here(), 1)


@contextmanager
def _processes(count: int) -> Iterator[Workers]:
    with worker_pool(count) as pool:
        yield Workers(pool, count)


@contextmanager
def _dask(where: str, jobs: int) -> Iterator[Workers]:
    """A Dask cluster: ``local`` for one of ``jobs`` processes on this machine, else the address of a scheduler.

    Raises :class:`UnusableInput` where Dask is not installed or the address is none, :class:`CannotMeasure` where
    nobody answers.
    """
    if where != LOCAL and "://" not in where:
        raise UnusableInput(f"--dask {where!r}: expected {LOCAL}, or a scheduler's address such as tcp://host:8786")
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise UnusableInput('--dask needs Dask; pip install "dask[distributed]"') from None
    settings = {
        # A task holds the vectors of a conversation, and is meant to.
        "distributed.admin.large-graph-warning-threshold": "1 GiB",
        # Dask samples what its workers do, which nobody looks at here.
        "distributed.worker.profile.enabled": False,
    }
    with dask.config.set(settings), _silenced():
        cluster = None
        try:
            if where == LOCAL:
                with _deaf():
                    cluster = LocalCluster(
                        n_workers=jobs, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                    )
            client = Client(cluster or where, timeout=PATIENCE)
        except (OSError, TimeoutError, ValueError) as error:
            raise CannotMeasure(f"--dask {where}: no scheduler answers there ({error})") from None
        try:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError:
                raise CannotMeasure(f"--dask {where}: the scheduler has no workers") from None
            yield Workers(_Checked(client.get_executor(), packages()), sum(client.ncores().values()))
        finally:
            client.close()
            if cluster is not None:
                cluster.close()


@contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that are started here not hear an interrupt: it is for this one to end them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _silenced() -> Iterator[None]:
    """Keep Dask's own log off the terminal: what matters of it is told as a reason."""
    log = logging.getLogger("distributed")
    before, log.disabled = log.level, True
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
        log.disabled = False


class _Checked(Executor):
    """Workers of other machines, which work only with the versions that this one has."""

    def __init__(self, pool: Executor, versions: dict[str, str | None]) -> None:
        self._pool, self._versions = pool, versions

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send it off."""
        return self._pool.submit(_with_versions, self._versions, work, *args, **kwargs)


def _with_versions(versions: dict[str, str | None], work: Any, *args: Any, **kwargs: Any) -> Any:
    here = packages()
    differs = [
        f"{name} {here.get(name)} and not {wanted}" for name, wanted in versions.items() if here.get(name) != wanted
    ]
    if differs:
        return f"a worker has {', '.join(differs)}"
    # The worker may be somebody else's: it is set up for the task alone.
    before = gc.get_threshold()
    set_up()
    try:
        return work(*args, **kwargs)
    finally:
        gc.set_threshold(*before)
