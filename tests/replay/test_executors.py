"""All executors give equal bytes, and only the submitting process writes."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.embedding.embedder import HashingEmbedder, embedder_key
from lab.embedding.vectors import Vectors, embedder_named
from lab.replay import executors
from lab.replay.candidates import rows_of, save_cached
from lab.replay.executors import (
    SHAPES,
    Here,
    Replayed,
    Task,
    Workers,
    _with_versions,
    embed_on_worker,
    on_workers,
    replay_each,
    run_task,
    size,
    task_of,
)
from lab.replay.plan import Plan, make_plan
from lab.replay.run import run_replay
from lab.replay.sources import prepared_sources, task_sources
from lab.runs.resume import packages
from tests.replay.conftest import untimed

Files = Callable[[Path], dict[str, bytes]]
ARMS = ("tier_first_v1", "seed_full", "hybrid", "oracle")
# Documents to cite, and a Working Set to store.
ENGINE = {
    "autoRecall": {"selectionMode": "tier_quota_v1"},
    "workingSet": {"enabled": True},
    "docsColdLane": {"enabled": True, "scopeMappingStrategy": "none", "minHotItems": 100},
    "lab": {"arm": "engine"},
}


def talk(desk: Any, *lengths: int) -> None:
    """Write conversations talk0, talk1 … with this many turns each, the last one judged."""
    for number, length in enumerate(lengths):
        said = [("user", f"pears and plums in crate {n}", f"crate {n} holds plums") for n in range(length)]
        desk.say(f"talk{number}", ("global", said))
        desk.judge(f"talk{number}/s1/t1#0", turn=f"talk{number}/s1/t{length}")


def tasks_of(plan: Plan) -> list[Task]:
    sources = prepared_sources(plan)
    return [task_of(plan, recording, sources) for recording in plan.recordings]


@pytest.fixture
def engine(desk: Any) -> str:
    """An arm that cites documents and stores its Working Set."""
    docs = desk.home / "docs"
    docs.mkdir()
    (docs / "crates.md").write_text("# Crates\n\nPlums are kept in crate 4, pears in crate 5.\n", encoding="utf-8")
    configuration = ENGINE | {"docsColdLane": {**ENGINE["docsColdLane"], "sourceRoots": [str(docs)]}}
    (desk.home / "engine.json").write_text(json.dumps(configuration), encoding="utf-8")
    return f"cited={desk.home / 'engine.json'}"


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_run_task_pickled_without_cache_or_files_gives_equal_bytes(
    desk: Any, engine: str, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    talk(desk, 6, 4)
    arms = ARMS if profile == "seed" else ("tier_first_v1",)
    tasks = tasks_of(make_plan(desk.request(*arms, engine, profile=profile)))
    sent = [pickle.dumps(task) for task in tasks]
    here = [run_task(task) for task in tasks]
    for path in (desk.folder, desk.home / "docs", desk.home / "cache"):
        path.rename(path.with_name(f"{path.name} is gone"))
    monkeypatch.setenv("LAB_CACHE_DIR", str(desk.home / "other"))
    there = [run_task(pickle.loads(one)) for one in sent]
    for one, other in zip(here, there, strict=True):
        assert isinstance(one, Replayed), one
        assert isinstance(other, Replayed), other
        assert one.receipts == other.receipts
    if profile == "seed":
        # The tasks carried everything that they needed.
        assert not (desk.home / "other").exists()


def test_task_of_cached_candidates_needs_no_vectors_or_words(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(desk, 6, 4)
    plan = make_plan(desk.request(*ARMS))
    first = [(task.recording, run_task(task)) for task in tasks_of(plan)]
    for recording, result in first:
        assert isinstance(result, Replayed), result
        save_cached(plan, recording, result.cached)
    tasks = tasks_of(plan)
    assert all(len(task.sources.vectors.of([])) == len(task.sources.vectors._matrix) == 0 for task in tasks)
    sent = [pickle.dumps(task) for task in tasks]
    monkeypatch.setenv("LAB_CACHE_DIR", str(desk.home / "other"))
    for (_, result), task in zip(first, sent, strict=True):
        again = run_task(pickle.loads(task))
        assert isinstance(again, Replayed), again
        assert again.receipts == result.receipts
        assert again.cached == {}
    assert not (desk.home / "other").exists()
    # Another arm has no cached candidates, so its task carries the texts.
    wider = make_plan(desk.request(*ARMS, "bm25"))
    assert all(len(task.sources.vectors._matrix) for task in tasks_of(wider))


def test_task_of_conversation_holds_no_other_conversation(desk: Any) -> None:
    talk(desk, 3, 3)
    first, _ = tasks_of(make_plan(desk.request(*ARMS)))
    sent = pickle.dumps(first)
    assert b"talk0/s1/t2" in sent
    assert b"talk1" not in sent


def test_task_sources_equal_the_cache_and_fall_back_to_it(desk: Any) -> None:
    talk(desk, 3)
    plan = make_plan(desk.request())
    sources = prepared_sources(plan)
    handed = task_sources(plan, plan.recordings[0], sources)
    for one in (handed, pickle.loads(pickle.dumps(handed))):
        texts = ["something new", "crate 1 holds plums", "something new", "pears and plums in crate 0"]
        assert one.vectors.prepare(texts[1:2]) == 0
        one.vectors.prepare(texts)
        cached = Vectors(plan.embedder)
        assert one.vectors.of(texts).tobytes() == cached.of(texts).tobytes()
        assert one.vectors.of([]).shape == (0, plan.embedder.dimension)
        (settings, words) = next(iter(one.words.items()))
        words.prepare(texts)
        assert words.of(texts) == sources.words[settings].of(texts)


def test_task_vectors_of_no_text_are_empty(desk: Any) -> None:
    desk.say("bare", ("global", [("assistant", "nobody asks anything")]))
    outcome = desk.run("tier_first_v1")
    assert (outcome.done, outcome.failures) == (("bare",), ())


def test_task_of_loaded_embedder_is_pickled_without_the_model() -> None:
    from lab.embedding.embedder import SentenceTransformerEmbedder

    embedder = SentenceTransformerEmbedder()
    embedder._loaded = object()
    assert pickle.loads(pickle.dumps(embedder))._loaded is None
    assert embedder._loaded is not None


class Noting(Here):
    """Runs tasks in this process and records their order."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.order.append(args[0].conversation)
        return super().submit(work, *args, **kwargs)


@pytest.mark.parametrize(("width", "order"), [(1, [0, 1, 2]), (2, [1, 2, 0])])
def test_replay_each_several_workers_start_with_the_largest(desk: Any, width: int, order: list[int]) -> None:
    talk(desk, 2, 7, 4)
    plan = make_plan(desk.request())
    sources = prepared_sources(plan)
    assert np.argsort([-size(plan, recording) for recording in plan.recordings]).tolist() == [1, 2, 0]
    pool = Noting()
    result = dict(replay_each(plan, plan.recordings, sources, Workers(pool, width)))
    assert pool.order == [f"talk{number}" for number in order]
    assert sorted(result) == sorted(pool.order)


class Cluster(Here):
    """Workers that embed; each answer may be replaced."""

    def __init__(self, answer: Callable[[Any], Any] = lambda found: found) -> None:
        self.texts: list[str] = []
        self._answer = answer

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        if work is embed_on_worker:
            self.texts += args[1]
        return super().submit(lambda: self._answer(work(*args, **kwargs)))


def _broken(found: Any) -> Any:
    raise RuntimeError(found)


@pytest.mark.parametrize(
    ("answer", "is_here", "said"),
    [
        (lambda found: found, True, []),
        (lambda found: found, False, []),
        (lambda found: "a worker has numpy 1.0, expected 2.0", True, ["a worker has numpy 1.0, expected 2.0"]),
        (_broken, True, ["RuntimeError"]),
    ],
)
def test_on_workers_embeds_each_text_once_with_equal_vectors(
    desk: Any, answer: Callable[[Any], Any], is_here: bool, said: list[str]
) -> None:
    messages: list[str] = []
    texts = [f"crate {number} holds plums" for number in range(600)]
    pool = Cluster(answer)
    embedder = HashingEmbedder()
    vectors = Vectors(on_workers(embedder, Workers(pool, 2, is_here), messages.append))
    assert vectors.prepare(texts) == 600
    assert sorted(pool.texts) == sorted(texts)
    assert np.array_equal(vectors.of(texts), embedder.encode(texts))
    assert [message.split(":")[0].split(" in ")[0] for message in messages] == said
    # Another process finds them in the cache.
    assert Vectors(embedder).prepare(texts) == 0


class Wrong(HashingEmbedder):
    """Computes other vectors under the same identity."""

    def encode(self, texts: Any, role: Any = "document") -> np.ndarray:
        return -super().encode(texts, role)


def test_on_workers_embeds_here_if_vectors_of_another_machine_differ(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"crate {number} holds plums" for number in range(3)]
    embedder = HashingEmbedder()
    wrong = Wrong(), Wrong().encode(SHAPES).tobytes()
    monkeypatch.setitem(executors._MODELS, embedder_key(embedder), wrong)
    messages: list[str] = []
    vectors = Vectors(on_workers(embedder, Workers(Here(), 1, is_here=False), messages.append))
    vectors.prepare(texts)
    assert np.array_equal(vectors.of(texts), embedder.encode(texts))
    assert messages == [
        "a worker's vectors differ from this machine's in their last bits: what it would embed is embedded here"
    ]


def test_run_replay_workers_that_embed_give_equal_bytes(
    desk: Any, monkeypatch: pytest.MonkeyPatch, files_of: Files
) -> None:
    talk(desk, 5, 3)
    here = desk.run(*ARMS, out="here")
    monkeypatch.setenv("LAB_CACHE_DIR", str(desk.home / "other"))
    pool = Cluster()
    monkeypatch.setattr("lab.replay.run.workers_for", lambda *_: nullcontext(Workers(pool, 2, is_here=True)))
    there = desk.run(*ARMS, out="there")
    assert untimed(files_of(here.run.path)) == untimed(files_of(there.run.path))
    assert len(pool.texts) == len(set(pool.texts)) == here.embedded == there.embedded > 0


def test_on_workers_leaves_endpoints_and_processes_to_the_submitting_process() -> None:
    endpoint = embedder_named("openai:model@http://127.0.0.1:9")
    assert on_workers(endpoint, Workers(Here(), 2, is_here=True), print) is endpoint
    assert on_workers(plain := HashingEmbedder(), Workers(Here(), 2), print) is plain


@pytest.mark.process
def test_run_replay_two_jobs_keeps_the_order_of_the_run(desk: Any, files_of: Files) -> None:
    talk(desk, 2, 9, 4)
    one = desk.run(*ARMS, out="one")
    two = desk.run(*ARMS, out="two", jobs=2)
    assert one.done == two.done == ("talk0", "talk1", "talk2")
    assert untimed(files_of(one.run.path)) == untimed(files_of(two.run.path))


@pytest.mark.process
def test_run_replay_two_jobs_gives_equal_bytes_for_stateful_arms(desk: Any, engine: str, files_of: Files) -> None:
    talk(desk, 5, 3)
    for profile in ("seed", "upstream"):
        runs = [desk.run(engine, out=f"{profile}{jobs}", jobs=jobs, profile=profile) for jobs in (1, 2)]
        assert [run.failures for run in runs] == [(), ()]
        first, second = (untimed(files_of(run.run.path)) for run in runs)
        assert first == second


def test_worker_with_other_versions_refuses_tasks() -> None:
    here = packages()
    assert _with_versions(here, lambda: "worked") == "worked"
    other = {**here, "numpy": "1.0"}
    assert _with_versions(other, lambda: "worked") == f"a worker has numpy {here['numpy']}, expected 1.0"


@pytest.mark.parametrize(
    ("where", "kind", "said"),
    [
        ("lokal", UnusableInput, "expected local, or a scheduler's address such as tcp://host:8786"),
        ("tcp://127.0.0.1:1", CannotMeasure, "no scheduler answers there"),
    ],
)
def test_dask_bad_scheduler_is_refused_and_run_can_continue(
    desk: Any, monkeypatch: pytest.MonkeyPatch, where: str, kind: type[Exception], said: str
) -> None:
    if kind is CannotMeasure:
        pytest.importorskip("distributed", reason="Dask is not installed")
        monkeypatch.setattr("lab.replay.executors.TIMEOUT", 1)
    talk(desk, 2)
    with pytest.raises(kind, match=said):
        run_replay(desk.request(), desk.home / "run", dask=where)
    assert desk.run().done == ("talk0",)


def test_dask_not_installed_names_the_install_command(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(desk, 2)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(UnusableInput, match=r'pip install "dask\[distributed\]"'):
        run_replay(desk.request(), desk.home / "run", dask="local")


def test_run_replay_full_disk_ends_the_replay(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    from lab.base.errors import CannotWrite
    from lab.base.files import cannot_write, write_atomically

    def write(path: Path, data: bytes, *, durable: bool = True) -> None:
        if path.name == "talk1.parquet":
            raise cannot_write(path, OSError(errno.ENOSPC, "No space left on device"))
        write_atomically(path, data, durable=durable)

    talk(desk, 2, 2, 2)
    messages: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr("lab.runs.resume.write_atomically", write)
        with pytest.raises(CannotWrite, match=r"talk1\.parquet: No space left on device"):
            run_replay(desk.request(), desk.home / "run", announce=messages.append)
    assert messages[-1] == "talk0: done (1 of 3)"
    assert desk.run().done == ("talk1", "talk2")


def test_plan_alone_gives_the_labels_of_the_full_plan(realmem: Path) -> None:
    from lab.runs.request import ReplayRequest

    plan = make_plan(
        ReplayRequest(str(realmem), "realmem", ("tier_first_v1",), labels="distractors", hard_rules=2, limit=2)
    )
    for recording in plan.recordings:
        alone = plan.alone(recording)
        assert rows_of(alone, recording) == rows_of(plan, recording)
        assert alone.probes(recording) == plan.probes(recording)
        assert replace(alone, library=plan.library, recordings=plan.recordings, golden_files=plan.golden_files) == plan
