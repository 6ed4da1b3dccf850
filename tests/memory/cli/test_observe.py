"""``lab memory observe``: logs that go on after a kill and grow with their recording, and files that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Done, run_here

Said = Sequence[str]
# At this size the reflector runs too.
SIZE = ("--tokens", "256")


def write(folder: Path, said: Said, name: str = "basil") -> Path:
    """Write a recording of a user's messages, one a minute."""
    head = {"kind": "recording", "schema": "lab.recording.v1", "conversation": name}
    lines: list[dict[str, Any]] = [head, {"kind": "session", "session": "s01", "time": "2026-11-02T10:00:00Z"}]
    for number, text in enumerate(said):
        at = f"2026-11-02T{10 + number // 60:02}:{number % 60:02}:30Z"
        lines.append({"kind": "turn", "turn": f"t{number:03}", "role": "user", "text": text, "time": at})
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def observe(path: Path, out: Path, *words: str | Path) -> Done:
    return run_here("memory", "observe", path, "--format", "lab", "--out", out, *SIZE, *words)


def texts(count: int) -> list[str]:
    labels = ("We decided to keep {} pots of basil.", "Pot {} is green, and never dry: we decided.", "Pot {} is 新.")
    return [labels[number % 3].format(number) for number in range(count)]


def test_observe_log_is_one_line_for_each_observation(tmp_path: Path) -> None:
    path = write(
        tmp_path / "in", ["We decided to keep basil.", "thanks, got it", "Remind me on 2026-11-20 to prune", "x" * 400]
    )
    done = observe(path, tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    head, *lines, mark = (tmp_path / "logs" / "basil.log").read_text().splitlines()
    assert head.startswith("# lab.observations.v1 {")
    assert mark.startswith("# read 4 ")
    assert [line for line in lines if not line.startswith("#")][:2] == [
        "2026-11-02T10:00Z [nice] We decided to keep basil. (basil/s01/t000)",
        "2026-11-02T10:02Z [ignore, due 2026-11-20T23:59Z] Remind me on 2026-11-20 to prune (basil/s01/t002)",
    ]
    value = json.loads(observe(path, tmp_path / "logs", "--json").stdout)
    (log,) = value["logs"]
    assert (log["entries"], log["observed"], log["new"], log["runs"]) == (4, 4, 0, 0)
    assert "basil." not in json.dumps(value)


@pytest.mark.parametrize("count", [30, 90])
def test_observe_cut_log_goes_on_to_the_same_bytes(tmp_path: Path, count: int) -> None:
    """Cut anywhere after its second mark, a log is completed as if it had not been cut.

    Of 90 turns the reflector replaces the file, of 30 it does not, so that what was cut must be removed.
    """
    larger = ("--tokens", "800", "--buffer", "0.1")
    source = write(tmp_path / "in", texts(count))
    observe(source, tmp_path / "unbroken", *larger)
    expected = (tmp_path / "unbroken" / "basil.log").read_bytes()
    observe(write(tmp_path / "early", texts(20)), tmp_path / "logs", *larger)
    log = tmp_path / "logs" / "basil.log"
    part = log.read_bytes()
    assert part.count(b"# read") >= 3
    second = part.index(b"# read", part.index(b"# read") + 1)
    for end in range(part.index(b"\n", second) + 1, len(part) + 1, 31):
        log.write_bytes(part[:end])
        assert observe(source, tmp_path / "logs", *larger).returncode == 0
        assert log.read_bytes() == expected


def test_observe_grown_recording_continues_its_log(tmp_path: Path) -> None:
    for count in (0, 1, 9, 40, 90):
        # A recording without turns is refused before any log.
        observe(write(tmp_path / "in", texts(count)), tmp_path / "logs")
    observe(write(tmp_path / "in", texts(90)), tmp_path / "at-once")
    assert (tmp_path / "logs" / "basil.log").read_bytes() == (tmp_path / "at-once" / "basil.log").read_bytes()


@pytest.mark.parametrize("count", [1, 90])
def test_observe_log_can_be_read_by_its_owner_alone(tmp_path: Path, count: int) -> None:
    # With 90 turns, the reflector writes the file again.
    observe(write(tmp_path / "in", texts(count)), tmp_path / "logs")
    assert (tmp_path / "logs" / "basil.log").stat().st_mode & 0o777 == 0o600


def test_observe_edited_line_stays_as_it_is(tmp_path: Path) -> None:
    observe(write(tmp_path / "in", texts(20)), tmp_path / "logs")
    log = tmp_path / "logs" / "basil.log"
    log.write_text(log.read_text().replace("[must] Pot 1 is green", "[must] Pot 1 is blue"))
    observe(write(tmp_path / "in", texts(28)), tmp_path / "logs")
    assert "Pot 1 is blue" in log.read_text()


def changed_turns(folder: Path, log: Path) -> tuple[str | Path, ...]:
    write(folder, ["Other words.", *texts(39)[1:]])
    return ()


def shorter(folder: Path, log: Path) -> tuple[str | Path, ...]:
    write(folder, texts(3))
    return ()


def other_settings(folder: Path, log: Path) -> tuple[str | Path, ...]:
    return ("--buffer", "0.5")


def foreign(folder: Path, log: Path) -> tuple[str | Path, ...]:
    log.write_text("dear diary\n")
    return ()


def no_mark(folder: Path, log: Path) -> tuple[str | Path, ...]:
    log.write_text(log.read_text().splitlines(keepends=True)[0])
    return ()


def bad_line(folder: Path, log: Path) -> tuple[str | Path, ...]:
    log.write_text(log.read_text().replace("[must]", "[vital]", 1))
    return ()


def other_outputs(folder: Path, log: Path) -> tuple[str | Path, ...]:
    log.unlink()
    outputs = folder / "outputs"
    outputs.write_text('{"entry": "other/s01/t000", "text": "x"}\n')
    return ("--recorded", outputs)


def bad_outputs(folder: Path, log: Path) -> tuple[str | Path, ...]:
    outputs = folder / "outputs"
    outputs.write_text('{"entry": "basil/s01/t000"}\n')
    return ("--recorded", outputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed_turns, "basil.log: was made of other turns than those of basil"),
        (shorter, "basil.log: was made of other turns than those of basil"),
        (other_settings, "basil.log: was made with other settings or another observer; use a new --out"),
        (foreign, "basil.log: is no log of lab memory observe; choose another --out"),
        (no_mark, "basil.log: has no complete mark"),
        (bad_line, "is no line of a log; mend or remove it"),
        (other_outputs, "outputs: has no line for basil/s01/t000"),
        (bad_outputs, "outputs:1: has no field 'text'"),
    ],
)
def test_observe_refuses_what_it_cannot_continue(
    tmp_path: Path, change: Callable[[Path, Path], tuple[str | Path, ...]], message: str
) -> None:
    folder, log = tmp_path / "in", tmp_path / "logs" / "basil.log"
    path = write(folder, texts(39))
    observe(path, tmp_path / "logs")
    words = change(folder, log)
    before = log.read_bytes() if log.exists() else None
    done = observe(path, tmp_path / "logs", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    if before is not None:
        assert log.read_bytes() == before
