"""A run is not resumed with other code or packages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import lab.runs.manifest as manifest_module
import lab.runs.resume as resume
from lab.base.errors import Altered, OtherArguments
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory, open_run
from lab.runs.manifest import Environment
from lab.runs.request import ReplayRequest
from lab.runs.resume import decisive, environment, tolerated

NOW = environment()


def _elsewhere(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    monkeypatch.setattr(resume, "environment", lambda *roots: replace(environment(*roots), **changes))


def _packages(**changes: str | None) -> dict[str, str | None]:
    return {**NOW.packages, **changes}


@pytest.mark.parametrize("done", [0, 2, 3])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"code": "0" * 64}, "different versions .code [0-9a-f]{12} -> 000000000000"),
        ({"packages": _packages(numpy="1.0")}, "different versions .numpy .* -> 1.0"),
        ({"packages": _packages(torch=None)}, "different versions .torch .* -> none"),
        ({"python": "3.99.0"}, "different versions .Python 3.11 -> 3.99"),
    ],
)
def test_resume_with_other_code_is_refused(
    run: RunDirectory,
    replay_request: ReplayRequest,
    monkeypatch: pytest.MonkeyPatch,
    done: int,
    changes: dict[str, object],
    message: str,
) -> None:
    for conversation in run.conversations[done:]:
        run.receipts(conversation).unlink()
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    _elsewhere(monkeypatch, **changes)
    with pytest.raises(OtherArguments, match=rf"{message}.*choose another --out, or `lab runs rm") as refused:
        run_replay(replay_request, run.path)
    assert refused.value.exit_code == 2
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "changes",
    [
        {"platform": "Plan9"},
        {"machine": "m68k"},
        {"python": "3.11.99"},
        {"packages": _packages(pandas="9.9")},
        {"git": None},
    ],
)
def test_resume_in_another_environment_is_allowed_with_a_note(
    run: RunDirectory, replay_request: ReplayRequest, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    run.receipts(run.conversations[1]).unlink()
    _elsewhere(monkeypatch, **changes)
    messages: list[str] = []
    outcome = run_replay(replay_request, run.path, announce=messages.append)
    assert outcome.done == (run.conversations[1],)
    message = [line for line in messages if "resuming in a different environment" in line]
    assert len(message) == sum(name in changes for name in ("platform", "machine", "python"))
    assert open_run(run.path).manifest.environment == run.manifest.environment


def test_environments_every_difference_is_listed_once() -> None:
    other = Environment("3.99.1", "Plan9", "m68k", {}, "0" * 64)
    names = [one.split()[0] for one in (*decisive(NOW, other), *tolerated(NOW, other))]
    known = [name for name in ("recall-lab", "torch", "numpy", "pyarrow", "orjson", "pyuca") if NOW.packages[name]]
    assert len(names) == len(set(names))
    assert {"code", "Python", "platform", "machine", *known} <= set(names)
    assert (decisive(NOW, NOW), tolerated(NOW, NOW)) == ([], [])


@pytest.mark.parametrize("kind", ["receipts", "latency"])
def test_resume_damaged_file_is_refused(run: RunDirectory, replay_request: ReplayRequest, kind: str) -> None:
    path = run.path / kind / run.receipts(run.conversations[0]).name
    path.write_bytes(path.read_bytes()[:-1])
    run.receipts(run.conversations[1]).unlink()
    with pytest.raises(Altered, match=rf"{path.name}: damaged or altered .*; delete it and run the same replay again"):
        run_replay(replay_request, run.path)
    path.unlink()
    outcome = run_replay(replay_request, run.path)
    assert set(outcome.done) == set(run.conversations[:2])
    after = open_run(run.path)
    for conversation in after.conversations:
        after.read_receipts(conversation)
        assert after.read_latency(conversation) is not None


def test_resume_altered_golden_set_is_refused(run: RunDirectory, replay_request: ReplayRequest) -> None:
    path = run.path / "golden.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"grade": 1', b'"grade": 2', 1))
    with pytest.raises(Altered, match=r"golden\.jsonl: damaged or altered"):
        run_replay(replay_request, run.path)
    path.unlink()
    run_replay(replay_request, run.path)
    assert path.read_bytes() == data


def test_resume_receipts_without_digest_are_replayed(
    run: RunDirectory, replay_request: ReplayRequest, tmp_path: Path
) -> None:
    """This happens after a loss of power between two files, or if somebody adds receipts."""
    conversation = run.conversations[0]
    receipts = run.receipts(conversation).read_bytes()
    begun = RunDirectory(
        tmp_path / "begun", run.manifest.ended("started", {"golden.jsonl": run.digests["golden.jsonl"]}, {})
    )
    shutil.copytree(run.path, begun.path)
    manifest_module.write_manifest(begun.path / "manifest.json", begun.manifest)
    assert open_run(begun.path).done() == []
    outcome = run_replay(replay_request, begun.path)
    assert (outcome.done, outcome.skipped) == (tuple(run.conversations), ())
    assert begun.receipts(conversation).read_bytes() == receipts
    assert open_run(begun.path).manifest.resolved == run.manifest.resolved


def test_keep_writes_digests_before_receipts(
    sound: RunDirectory, replay_request: ReplayRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run killed after any file can be resumed, and its files can be trusted."""
    written: list[Path] = []
    real: Callable[..., None] = resume.write_atomically

    class Killed(BaseException):
        pass

    def write(path: Path, data: bytes, **how: bool) -> None:
        if len(written) == limit:
            raise Killed
        real(path, data, **how)
        written.append(path)

    def writing(how: Callable[..., None]) -> None:
        for module in (resume, manifest_module):
            monkeypatch.setattr(module, "write_atomically", how)

    writing(write)
    for limit in range(40):
        out = tmp_path / f"killed{limit}"
        written.clear()
        try:
            run_replay(replay_request, out)
        except Killed:
            pass
        else:
            break
        if (out / "manifest.json").exists():
            left = open_run(out)
            for conversation in left.done():
                left.read_receipts(conversation)
                left.read_latency(conversation)
        writing(real)
        ended = run_replay(replay_request, out).run
        writing(write)
        assert ended.manifest.status == "complete"
        assert not (out / "digests").exists()
        for conversation in sound.conversations:
            assert ended.receipts(conversation).read_bytes() == sound.receipts(conversation).read_bytes()
    assert limit == 2 + 3 * len(sound.conversations) + 1
