"""Recorded answers: a run is repeated without its host, and a missing answer says what to do."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure
from lab.base.files import dump_json, sha256_bytes
from lab.embedding.cache import ABOUT, cache_folder
from lab.golden.model import Probe
from lab.replay.loop import Answered
from lab.systems.external.answers import KIND, held, last_errors, remove
from lab.systems.external.arm import ExternalArm, make
from lab.systems.spec import RECORDED, ArmSpec
from tests.commands import run_here
from tests.systems.external.hosting import TEXTS, answers_of, faulty, reasons

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    return cache_folder() / KIND


def files(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file() and path.name != ABOUT)


def repeated(arm: ExternalArm) -> ExternalArm:
    """The same arm from its description in a manifest, with recorded answers."""
    config = dict(arm.describe().config)
    return make(ArmSpec("live", "external", config, "arm live", answers=RECORDED))


def facts(answers: Sequence[Answered]) -> list[Any]:
    return [(answer.point.key, answer.recall, answer.failure) for answer in answers]


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From here on, a process that is started fails the test."""

    def forbid() -> None:
        def refuse(*_: Any, **__: Any) -> None:
            pytest.fail("a process was started")

        monkeypatch.setattr("lab.systems.external.arm.ProcessChannel", refuse)

    return forbid


@pytest.mark.parametrize("fault", ["none", "degraded", "half", "error", "unknown", "dies"])
def test_repeated_run_equals_the_first_without_a_process(fault: str, no_process: Callable[[], None]) -> None:
    arm = faulty(fault)
    first = answers_of(arm)
    no_process()
    second = answers_of(repeated(arm))
    # Failures are recorded like answers, and so are the times.
    assert facts(second) == facts(first)
    assert any(answer.recall.timings.get("recall", 0) > 0 for answer in second)


def test_recorded_identity_makes_the_arm_without_a_process(no_process: Callable[[], None]) -> None:
    first = answers_of(faulty())
    no_process()
    assert facts(answers_of(faulty(answers=RECORDED))) == facts(first)


def test_answers_are_for_their_owner_only_and_hold_the_texts(cache: Path) -> None:
    answers_of(faulty())
    (file,) = files(cache)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, cache)] == [0o600, 0o700, 0o700]
    assert all(text in file.read_text("utf-8") for text in TEXTS)
    assert not any(text in (file.parent / ABOUT).read_text("utf-8") for text in TEXTS)


def test_equal_runs_share_a_recording_and_others_do_not(cache: Path) -> None:
    arm = faulty()
    answers_of(arm)
    answers_of(arm)
    assert len(files(cache)) == 1
    answers_of(arm, turns=3)
    assert len(files(cache)) == 2
    # A run that ends earlier or later than another finds its own recording.
    for turns in (3, 4):
        assert reasons(answers_of(repeated(arm), turns=turns)) == [None] * turns


def test_recording_without_failures_is_preferred(cache: Path) -> None:
    arm = faulty()
    answers_of(replace(arm, settings=replace(arm.settings, command=(*arm.settings.command[:-1], "dies"))))
    (failed,) = files(cache)
    good = answers_of(arm)
    (target,) = {path.parent for path in files(cache)} - {failed.parent}
    shutil.copy(failed, target)
    assert len(files(cache)) == 3
    assert facts(answers_of(repeated(arm))) == facts(good)


@pytest.mark.parametrize("known", ["nothing", "who answers", "fewer turns"])
def test_missing_answer_names_the_way_to_record_it(known: str, no_process: Callable[[], None]) -> None:
    remedy = "run the replay again with --answers live, which records them"
    arm = None
    if known != "nothing":
        arm = faulty()
    if known == "fewer turns":
        assert arm is not None
        answers_of(arm, turns=2)
    no_process()
    missing = {
        "nothing": "arm live: has no recorded answers",
        "who answers": "arm live: no recorded answer to remember (request 1)",
        "fewer turns": "arm live: no recorded answer to remember (request 5)",
    }
    with pytest.raises(CannotMeasure) as caught:
        answers_of(faulty(answers=RECORDED))
    assert str(caught.value) == f"{missing[known]}; {remedy}"


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied"])
def test_damaged_recording_is_refused(damage: str, cache: Path) -> None:
    arm = faulty()
    answers_of(arm)
    (file,) = files(cache)
    data = file.read_bytes()
    file.write_bytes({"cut": data[:-20], "changed": data.replace(b"rye", b"oat"), "emptied": b""}[damage])
    with pytest.raises(CannotMeasure, match="is damaged; delete it, and run the replay again with --answers live"):
        answers_of(repeated(arm))


def test_recordings_that_disagree_are_refused(cache: Path) -> None:
    arm = faulty()
    answers_of(arm, turns=3)
    (shorter,) = files(cache)
    answers_of(arm, turns=4)
    body = shorter.read_bytes().partition(b"\n")[2].replace(b"dark", b"pale")
    head = dump_json({"kind": "lab.answers", "sha256": sha256_bytes(body), "stderr": ""}, indent=None)
    # The first by name, so that it is used until the requests part.
    shorter.with_name(f"{shorter.stem[:16]}-0000.jsonl").write_bytes(head + body)
    shorter.unlink()
    assert reasons(answers_of(repeated(arm), turns=3)) == [None] * 3
    with pytest.raises(CannotMeasure, match="recordings of other runs answer the same requests differently"):
        answers_of(repeated(arm), turns=4)


def test_recorded_answers_are_listed_and_removed(cache: Path) -> None:
    answers_of(faulty())
    answers_of(faulty("stderr"))
    listed = held()
    assert [(one.arm, one.system, one.version, one.recordings) for one in listed] == [("live", "faulty", "1.0", 1)] * 2
    remove(listed[:1])
    assert held() == listed[1:]
    remove(held())
    assert held() == []
    assert files(cache) == []


def test_end_of_stderr_is_recorded(cache: Path) -> None:
    answers_of(faulty("stderr"))
    (file,) = files(cache)
    assert file.read_text("utf-8").splitlines()[0].count("rye bread") > 1000


def test_stderr_is_shown_by_key_and_by_name_with_or_without_a_budget(cache: Path) -> None:
    answers_of(faulty("stderr"))
    answers_of(faulty())
    quiet, loud = sorted(held(), key=lambda one: last_errors([one]) is not None)
    for word in (loud.key, "live", "live@256"):
        shown = run_here("cache", "answers", "--stderr", word)
        assert (shown.returncode, {*shown.stdout.splitlines()}) == (0, {"rye bread"}), shown.stderr
    shown = run_here("cache", "answers", "--stderr", quiet.key)
    assert shown.stdout == f"{quiet.key}: its host wrote nothing to stderr\n"
    refused = run_here("cache", "answers", "--stderr", "lively")
    assert (refused.returncode, refused.stderr) == (2, "error: --stderr lively: no such arm or key; known: live\n")


def test_probe_after_the_end_is_recorded(no_process: Callable[[], None]) -> None:
    arm = faulty()
    probe = Probe("p1", "c", None, "what bread?", ())
    first = answers_of(arm, [probe])
    no_process()
    assert [answer.point.key for answer in first][-1] == "p1"
    assert facts(answers_of(repeated(arm), [probe])) == facts(first)
