"""Run replays in this process, in several processes, or on the workers of a Dask cluster.

All of them are executors of ``concurrent.futures`` and run the same task: one conversation with everything that its
replay needs. A task reads and writes no cache and no file of a run; it returns the bytes of the conversation's files,
which the submitting process writes. So a run does not depend on its executor, and a killed worker loses no finished
conversation.
"""

from __future__ import annotations

import gc
import logging
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from lab.base.errors import CannotMeasure, LabError, UnusableInput, describe_unexpected
from lab.base.processes import set_up, worker_pool
from lab.embedding.embedder import DOCUMENT, Embedder, Role, SentenceTransformerEmbedder, each_done, embedder_key
from lab.embedding.endpoint import EndpointEmbedder
from lab.embedding.vectors import Vectors
from lab.recordings.model import Recording
from lab.replay.candidates import Cached, answers_all_arms, from_cached, read_cached, save_cached, signatures
from lab.replay.loop import TurnWrites, replay
from lab.replay.plan import Plan
from lab.replay.receipts import latency_table, receipts_table
from lab.replay.sources import Announce, Sources, TaskSources, play_of, prepare, task_sources, tools_of
from lab.replay.writes import Expected, alignments, writes_table
from lab.runs.resume import packages
from lab.runs.tables import table_bytes

if TYPE_CHECKING:
    import numpy as np

P = ParamSpec("P")
T = TypeVar("T")
# Texts of several lengths, by whose vectors two machines are compared: the shape of a batch decides how it is computed.
SHAPES = tuple("pears and plums in crate four " * times for times in (1, 10, 40))
# Texts that a worker embeds at once.
PART = 256
_LOADING = threading.Lock()
_MODELS: dict[str, tuple[Embedder, bytes]] = {}
# Tasks submitted for each worker: one that runs and one that waits, so that no worker is idle.
AHEAD = 2
LOCAL = "local"
# The variables that limit the threads of a Dask worker's libraries.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Seconds to wait for a scheduler.
TIMEOUT = 10


class Replayed(NamedTuple):
    """The bytes of a conversation's files (``writes`` is None if no arm may write), and new candidates to cache."""

    receipts: bytes
    latency: bytes
    writes: bytes | None
    cached: Cached


@dataclass(frozen=True, slots=True)
class Task:
    """One conversation to replay: a plan of it alone, its sources, and its cached candidates."""

    plan: Plan
    recording: Recording
    sources: TaskSources | Sources
    cached: Cached

    @property
    def conversation(self) -> str:
        """Id of the conversation."""
        return self.recording.conversation


class Workers(NamedTuple):
    """An executor, and the number of tasks it runs at once.

    ``is_here``: whether the workers are on this machine; None if they do not embed. Processes do not, because one
    process with a thread for each processor embeds at lower cost.
    """

    pool: Executor
    width: int
    is_here: bool | None = None


def run_task(task: Task) -> Replayed | str:
    """Replay one conversation; return its files, or a sentence on why it failed."""
    plan, recording = task.plan, task.recording
    try:
        sources = task.sources.open()
        tools = tools_of(
            plan,
            recording,
            sources,
            from_cached(task.cached, lambda retrieval: sources.retriever(retrieval, plan.request.store)),
        )
        wrote: list[TurnWrites] = []
        answers = list(replay(play_of(plan, recording, tools), plan.arms, wrote.append, infos=plan.infos))
        names = signatures(plan)
        for retrieval, candidates in task.cached.items():
            candidates.serve(names[retrieval])
        changed = {retrieval: some for retrieval, some in task.cached.items() if some.changed}
        # Rows that a recall derives, such as a Working Set, stand for no memory.
        capturing = {info.name for info in plan.infos if info.writes}
        aligned = alignments(recording, [entry for entry in wrote if entry.arm in capturing])
        expected = Expected.of(recording, plan.library.golden)
        return Replayed(
            table_bytes(receipts_table(answers, recording, aligned, plan.labels_of(recording))),
            table_bytes(latency_table(answers)),
            table_bytes(writes_table(wrote, aligned, expected, len(recording.turns)))
            if plan.source == "captured"
            else None,
            changed,
        )
    except LabError as error:
        return str(error)
    except Exception as error:  # an unexpected error ends its conversation, not the run
        return describe_unexpected(error)


def replay_each(
    plan: Plan, waiting: Sequence[Recording], sources: Sources, workers: Workers, *, use_cache: bool = True
) -> Iterator[tuple[str, Replayed | str]]:
    """Yield each conversation with its files, or with the reason of its failure, in the order of completion.

    One worker takes conversations in order; several take the largest first, so that they finish at about the same time.
    Tasks are created when they are submitted, to bound memory. Without ``use_cache`` no cached candidates are read or
    written: every search is run.
    """
    if workers.width > 1:
        waiting = sorted(waiting, key=lambda recording: -size(plan, recording))
    by_name = {recording.conversation: recording for recording in waiting}
    is_here = isinstance(workers.pool, Here)
    tasks = (task_of(plan, recording, sources, use_cache=use_cache, is_here=is_here) for recording in waiting)
    for conversation, result in _results(tasks, workers):
        if isinstance(result, Replayed):
            save_cached(plan, by_name[conversation], result.cached)
        yield conversation, result


def task_of(
    plan: Plan, recording: Recording, sources: Sources, *, use_cache: bool = True, is_here: bool = False
) -> Task:
    """Return a conversation with what its replay needs: no vectors or words if all its candidates are cached.

    A task that runs in this process (``is_here``) has the sources of all conversations.
    """
    cached = read_cached(plan, recording) if use_cache else {}
    texts = not answers_all_arms(plan, cached)
    if texts and use_cache:
        # A cached file may have been damaged since it was checked.
        prepare(plan, [recording], sources, lambda _: None)
    if is_here:
        return Task(plan, recording, sources, cached)
    # The task's sources hold the stored vectors that it needs.
    alone = replace(plan.alone(recording), vectors=None)
    return Task(alone, recording, task_sources(plan, recording, sources, texts=texts), cached)


def size(plan: Plan, recording: Recording) -> int:
    """Estimate the work of a conversation: a fixed cost for each recall point, plus one scan of all memories."""
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
    """Wait until a task ends; remove and yield all that have ended."""
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in [future for future in running if future in done]:
        conversation = running.pop(future)
        try:
            yield conversation, future.result()
        except BrokenProcessPool:
            yield conversation, "its process was killed"
        except Exception as error:  # an error of the executor: a task returns its own as a sentence
            yield conversation, describe_unexpected(error)


class Here(Executor):
    """An executor that runs each task in this process, on submission."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return a completed future."""
        future: Future[Any] = Future()
        future.set_result(work(*args, **kwargs))
        return future


def on_workers(embedder: Embedder, workers: Workers, announce: Announce) -> Embedder:
    """Return an embedder of equal vectors that the workers of a cluster compute; else the embedder itself.

    An endpoint is queried by this process alone.
    """
    if workers.is_here is None or isinstance(embedder, EndpointEmbedder):
        return embedder
    return OnWorkers(embedder, workers, announce)


class OnWorkers:
    """An embedder whose texts the workers of a cluster embed, each with one thread at a time.

    The last bits of a vector depend on the processor. A worker on another machine therefore proves first that its
    vectors of :data:`SHAPES` are this machine's. What it does not embed, for that reason or another, is embedded here.
    """

    def __init__(self, embedder: Embedder, workers: Workers, announce: Announce) -> None:
        self._embedder, self._workers, self._announce = embedder, workers, announce

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return self._embedder.dimension

    def identity(self) -> dict[str, Any]:
        """Return the identity of the embedder, whose vectors these are."""
        return self._embedder.identity()

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Embed texts in this process."""
        return self._embedder.encode(texts, role)

    def batches(self, texts: Sequence[str], role: Role = DOCUMENT) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield rows of ``texts`` with their vectors, as :class:`lab.embedding.embedder.Batches`."""
        import numpy as np

        expected = None
        if not self._workers.is_here:
            vectors = Vectors(self._embedder)
            vectors.prepare(SHAPES)
            expected = vectors.of(SHAPES).tobytes()
        count = self._workers.width * AHEAD
        step = max(1, min(PART, -(-len(texts) // count)))
        parts = (range(start, min(start + step, len(texts))) for start in range(0, len(texts), step))

        def work(rows: range) -> np.ndarray | str:
            try:
                some = [texts[row] for row in rows]
                found: np.ndarray | str = self._workers.pool.submit(
                    embed_on_worker, self._embedder, some, role, expected
                ).result()
            except LabError as error:
                return str(error)
            except Exception as error:  # an error of the executor, or of a worker that lacks the model
                return describe_unexpected(error)
            return found

        refused = set[str]()
        for done in each_done(work, parts, count):
            if done is None:
                yield [], np.empty((0, self.dimension), np.float32)
                continue
            rows, found = done
            if isinstance(found, str):
                if found not in refused:
                    self._announce(f"{found}: what it would embed is embedded here")
                refused.add(found)
                found = self.encode([texts[row] for row in rows], role)
            yield list(rows), found


def embed_on_worker(embedder: Embedder, texts: Sequence[str], role: Role, expected: bytes | None) -> np.ndarray | str:
    """Return the vectors of texts; or why not, if those of :data:`SHAPES` are not the ``expected`` ones."""
    key = embedder_key(embedder)
    # A process loads a model once, though each task brings its embedder, and several threads may run tasks.
    with _LOADING:
        if key not in _MODELS:
            if isinstance(embedder, SentenceTransformerEmbedder):
                embedder.threads = 1
            _MODELS[key] = embedder, embedder.encode(SHAPES).tobytes()
    known, shown = _MODELS[key]
    if expected not in (None, shown):
        return "a worker's vectors differ from this machine's in their last bits"
    return known.encode(texts, role)


def workers_for(conversations: int, jobs: int, dask: str | None) -> AbstractContextManager[Workers]:
    """Return the requested workers: those of Dask, else up to ``jobs`` processes, one for each conversation at most."""
    if dask is not None and conversations:
        return _dask(dask, jobs)
    return _processes(min(jobs, conversations)) if min(jobs, conversations) > 1 else nullcontext(Workers(Here(), 1))


@contextmanager
def _processes(count: int) -> Iterator[Workers]:
    with worker_pool(count) as pool:
        yield Workers(pool, count)


@contextmanager
def _dask(where: str, jobs: int) -> Iterator[Workers]:
    """Connect to Dask: ``local`` starts ``jobs`` processes on this machine, else ``where`` is a scheduler's address.

    Raises :class:`UnusableInput` if Dask is not installed or the address is malformed, and :class:`CannotMeasure` if no
    scheduler answers or it has no workers.
    """
    if where != LOCAL and "://" not in where:
        raise UnusableInput(f"--dask {where!r}: expected {LOCAL}, or a scheduler's address such as tcp://host:8786")
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise UnusableInput('--dask needs Dask; pip install "dask[distributed]"') from None
    settings = {
        # A task holds the vectors of a conversation by design.
        "distributed.admin.large-graph-warning-threshold": "1 GiB",
        # Profiles of Dask's workers are not used.
        "distributed.worker.profile.enabled": False,
        # Without Dask's threshold for returning memory to the system, at which embedding takes a third longer.
        "distributed.nanny.pre-spawn-environ": dict.fromkeys(THREADS, 1),
    }
    with dask.config.set(settings), _without_dask_log():
        cluster = None
        try:
            if where == LOCAL:
                with _ignoring_interrupts():
                    cluster = LocalCluster(
                        n_workers=jobs, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                    )
            client = Client(cluster or where, timeout=TIMEOUT)
        except (OSError, TimeoutError, ValueError) as error:
            raise CannotMeasure(f"--dask {where}: no scheduler answers there ({error})") from None
        try:
            try:
                client.wait_for_workers(1, timeout=TIMEOUT)
            except TimeoutError:
                raise CannotMeasure(f"--dask {where}: the scheduler has no workers") from None
            # Not pure: Dask would hash all of a task to find equal ones, which takes as long as half of its replay.
            pool = _Checked(client.get_executor(pure=False), packages())
            yield Workers(pool, sum(client.ncores().values()), where == LOCAL)
        finally:
            client.close()
            if cluster is not None:
                cluster.close()


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Start processes that ignore SIGINT: this process ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _without_dask_log() -> Iterator[None]:
    """Keep Dask's log off the terminal; failures are reported as reasons of conversations."""
    log = logging.getLogger("distributed")
    before, log.disabled = log.level, True
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
        log.disabled = False


class _Checked(Executor):
    """An executor on other machines, whose workers refuse tasks if their package versions differ from ours."""

    def __init__(self, pool: Executor, versions: dict[str, str | None]) -> None:
        self._pool, self._versions = pool, versions

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task together with the expected versions."""
        return self._pool.submit(_with_versions, self._versions, work, *args, **kwargs)


def _with_versions(versions: dict[str, str | None], work: Any, *args: Any, **kwargs: Any) -> Any:
    here = packages()
    differs = [
        f"{name} {here.get(name)}, expected {expected}"
        for name, expected in versions.items()
        if here.get(name) != expected
    ]
    if differs:
        return f"a worker has {', '.join(differs)}"
    # The worker may belong to others: its settings are restored after the task.
    before = gc.get_threshold()
    set_up()
    try:
        return work(*args, **kwargs)
    finally:
        gc.set_threshold(*before)
