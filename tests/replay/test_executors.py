"""Whoever replays a conversation, its files are the same bytes, and the process that asked is the one that writes."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.embedding.vectors import Vectors
from lab.errors import CannotMeasure, UnusableInput
from lab.replay.candidates import rows_of, save_kept
from lab.replay.executors import Here, Replayed, Task, Workers, _with_versions, replay_each, run_task, size, task_of
from lab.replay.plan import Plan, make_plan
from lab.replay.run import run_replay
from lab.replay.sources import hand, open_sources, prepare
from lab.runs.environment import packages
from tests.replay.conftest import untimed

Files = Callable[[Path], dict[str, bytes]]
ARMS = ("tier_first_v1", "seed_full", "hybrid", "oracle")
# Documents to cite, and a digest to write.
ENGINE = {
    "autoRecall": {"selectionMode": "tier_quota_v1"},
    "workingSet": {"enabled": True},
    "docsColdLane": {"enabled": True, "scopeMappingStrategy": "none", "minHotItems": 100},
    "lab": {"arm": "engine"},
}


def talk(desk: Any, *lengths: int) -> None:
    """Conversations talk0, talk1 … of so many turns, of which the last is judged."""
    for number, length in enumerate(lengths):
        said = [("user", f"pears and plums in crate {n}", f"crate {n} holds plums") for n in range(length)]
        desk.say(f"talk{number}", ("global", said))
        desk.judge(f"talk{number}/s1/t1#0", turn=f"talk{number}/s1/t{length}")


def tasks_of(plan: Plan) -> list[Task]:
    sources = open_sources(plan)
    prepare(plan, plan.recordings, sources, lambda _: None)
    return [task_of(plan, one, sources) for one in plan.recordings]


@pytest.fixture
def engine(desk: Any) -> str:
    """An arm that cites documents and writes its digest into its store."""
    docs = desk.home / "docs"
    docs.mkdir()
    (docs / "crates.md").write_text("# Crates\n\nPlums are kept in crate 4, pears in crate 5.\n", encoding="utf-8")
    configuration = ENGINE | {"docsColdLane": {**ENGINE["docsColdLane"], "sourceRoots": [str(docs)]}}
    (desk.home / "engine.json").write_text(json.dumps(configuration), encoding="utf-8")
    return f"cited={desk.home / 'engine.json'}"


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_a_task_that_was_sent_needs_no_cache_and_no_file_and_gives_the_same_bytes(
    desk: Any, engine: str, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    talk(desk, 6, 4)
    arms = ARMS if profile == "seed" else ("tier_first_v1",)
    tasks = tasks_of(make_plan(desk.asked(*arms, engine, profile=profile)))
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
        # Nothing was missing of what had been handed over.
        assert not (desk.home / "other").exists()


def test_what_is_kept_stands_in_for_vectors_and_words(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(desk, 6, 4)
    plan = make_plan(desk.asked(*ARMS))
    first = [(task.recording, run_task(task)) for task in tasks_of(plan)]
    for recording, found in first:
        assert isinstance(found, Replayed), found
        save_kept(plan, recording, found.kept)
    tasks = tasks_of(plan)
    assert all(len(task.handed.vectors.of([])) == len(task.handed.vectors._matrix) == 0 for task in tasks)
    sent = [pickle.dumps(task) for task in tasks]
    monkeypatch.setenv("LAB_CACHE_DIR", str(desk.home / "other"))
    for (_, found), task in zip(first, sent, strict=True):
        again = run_task(pickle.loads(task))
        assert isinstance(again, Replayed), again
        assert again.receipts == found.receipts
        assert again.kept == {}
    assert not (desk.home / "other").exists()
    # Another arm has to be asked for, and its task has the texts again.
    wider = make_plan(desk.asked(*ARMS, "bm25"))
    assert all(len(task.handed.vectors._matrix) for task in tasks_of(wider))


def test_a_task_holds_its_own_conversation_alone(desk: Any) -> None:
    talk(desk, 3, 3)
    first, _ = tasks_of(make_plan(desk.asked(*ARMS)))
    sent = pickle.dumps(first)
    assert b"talk0/s1/t2" in sent
    assert b"talk1" not in sent


def test_what_is_handed_over_is_what_the_cache_holds_and_the_rest_comes_from_there(desk: Any) -> None:
    talk(desk, 3)
    plan = make_plan(desk.asked())
    sources = open_sources(plan)
    prepare(plan, plan.recordings, sources, lambda _: None)
    handed = hand(plan, plan.recordings[0], sources)
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


def test_the_vectors_of_no_text_are_an_empty_matrix(desk: Any) -> None:
    desk.say("bare", ("global", [("assistant", "nobody asks anything")]))
    outcome = desk.run("tier_first_v1")
    assert (outcome.done, outcome.failures) == (("bare",), ())


def test_a_loaded_model_stays_behind() -> None:
    from lab.embedding.embedder import SentenceTransformerEmbedder

    embedder = SentenceTransformerEmbedder()
    embedder._loaded = object()
    assert pickle.loads(pickle.dumps(embedder))._loaded is None
    assert embedder._loaded is not None


class Noting(Here):
    """Works here, and notes in which order."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.order.append(args[0].conversation)
        return super().submit(work, *args, **kwargs)


@pytest.mark.parametrize(("width", "order"), [(1, [0, 1, 2]), (2, [1, 2, 0])])
def test_several_workers_take_the_largest_first(desk: Any, width: int, order: list[int]) -> None:
    talk(desk, 2, 7, 4)
    plan = make_plan(desk.asked())
    sources = open_sources(plan)
    prepare(plan, plan.recordings, sources, lambda _: None)
    assert np.argsort([-size(plan, one) for one in plan.recordings]).tolist() == [1, 2, 0]
    pool = Noting()
    found = dict(replay_each(plan, plan.recordings, sources, Workers(pool, width)))
    assert pool.order == [f"talk{number}" for number in order]
    assert sorted(found) == sorted(pool.order)


@pytest.mark.process
def test_an_outcome_is_in_the_order_of_the_run_whoever_was_first(desk: Any, files_of: Files) -> None:
    talk(desk, 2, 9, 4)
    one = desk.run(*ARMS, out="one")
    two = desk.run(*ARMS, out="two", jobs=2)
    assert one.done == two.done == ("talk0", "talk1", "talk2")
    assert untimed(files_of(one.run.path)) == untimed(files_of(two.run.path))


@pytest.mark.process
def test_an_arm_that_cites_and_writes_is_the_same_in_two_processes(desk: Any, engine: str, files_of: Files) -> None:
    talk(desk, 5, 3)
    for profile in ("seed", "upstream"):
        runs = [desk.run(engine, out=f"{profile}{jobs}", jobs=jobs, profile=profile) for jobs in (1, 2)]
        assert [run.failures for run in runs] == [(), ()]
        first, second = (untimed(files_of(run.run.path)) for run in runs)
        assert first == second


def test_a_worker_with_other_versions_says_so_instead_of_working() -> None:
    here = packages()
    assert _with_versions(here, lambda: "worked") == "worked"
    other = {**here, "numpy": "1.0"}
    assert _with_versions(other, lambda: "worked") == f"a worker has numpy {here['numpy']} and not 1.0"


@pytest.mark.parametrize(
    ("where", "kind", "said"),
    [
        ("lokal", UnusableInput, "expected local, or a scheduler's address such as tcp://host:8786"),
        ("tcp://127.0.0.1:1", CannotMeasure, "no scheduler answers there"),
    ],
)
def test_a_scheduler_that_is_none_is_told_and_the_run_can_go_on_elsewhere(
    desk: Any, monkeypatch: pytest.MonkeyPatch, where: str, kind: type[Exception], said: str
) -> None:
    if kind is CannotMeasure:
        pytest.importorskip("distributed", reason="Dask is not installed")
        monkeypatch.setattr("lab.replay.executors.PATIENCE", 1)
    talk(desk, 2)
    with pytest.raises(kind, match=said):
        run_replay(desk.asked(), desk.home / "run", dask=where)
    assert desk.run().done == ("talk0",)


def test_without_dask_the_command_that_installs_it_is_told(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(desk, 2)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(UnusableInput, match=r'pip install "dask\[distributed\]"'):
        run_replay(desk.asked(), desk.home / "run", dask="local")


def test_a_disk_that_is_full_ends_the_replay_instead_of_failing_each_conversation(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from lab.errors import CannotWrite
    from lab.files import cannot_write, write_atomically

    def write(path: Path, data: bytes, *, durable: bool = True) -> None:
        if path.name == "talk1.parquet":
            raise cannot_write(path, OSError(errno.ENOSPC, "No space left on device"))
        write_atomically(path, data, durable=durable)

    talk(desk, 2, 2, 2)
    heard: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr("lab.runs.resume.write_atomically", write)
        with pytest.raises(CannotWrite, match=r"talk1\.parquet: No space left on device"):
            run_replay(desk.asked(), desk.home / "run", announce=heard.append)
    assert heard[-1] == "talk0: done (1 of 3)"
    assert desk.run().done == ("talk1", "talk2")


def test_a_plan_alone_labels_its_conversation_as_the_whole_does(realmem: Path) -> None:
    from lab.replay.plan import ReplayRequest

    plan = make_plan(
        ReplayRequest(str(realmem), "realmem", ("tier_first_v1",), labels="distractors", hard_rules=2, limit=2)
    )
    for recording in plan.recordings:
        alone = plan.alone(recording)
        assert rows_of(alone, recording) == rows_of(plan, recording)
        assert alone.probes(recording) == plan.probes(recording)
        assert replace(alone, library=plan.library, recordings=plan.recordings, golden_files=plan.golden_files) == plan
