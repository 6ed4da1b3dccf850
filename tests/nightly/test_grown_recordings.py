"""Nightly runs over recordings that grow, shrink and change: what is the same is compared, and the rest is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure
from lab.nightly.baselines import approve
from lab.nightly.nightly_run import NightlyRun, run_nightly, write_nightly
from lab.nightly.plan import read_plan
from lab.report.message import message_at
from lab.report.nightly import write_pages
from lab.runs.directory import open_run

PLAN = """
name = "grown"
about = "what grows"
[[set]]
name = "mine"
recordings = "recordings"
format = "lab"
arms = ["hybrid"]
embedder = "hashing"
scope = "recorded"
"""


@pytest.fixture
def recordings(operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the plan's folder hold the first so many conversations."""
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(PLAN, "utf-8")
    files = sorted(operators.glob("*.jsonl"))

    def holds(count: int) -> None:
        Path("recordings").mkdir(exist_ok=True)
        for number, file in enumerate(files[:6]):
            place = Path("recordings", file.name)
            if number < count:
                shutil.copy(file, place)
            else:
                place.unlink(missing_ok=True)

    return holds


def _night(date: str) -> NightlyRun:
    plan = read_plan("plan.toml")
    found = run_nightly(plan, Path("nights", date), date=date, baselines=Path("kept"), store=Path("trend"))
    write_pages(found, Path("trend"))
    write_nightly(found)
    return found


def _status(found: NightlyRun, kind: str) -> dict[str, tuple[str, bool]]:
    lines = found.sets[0].verdict.lines
    return {line.measure: (line.status, line.critical) for line in lines if line.kind == kind}


def test_recordings_that_grow_stay_comparable(recordings: Callable[[int], None]) -> None:
    recordings(2)
    first = _night("2026-03-01")
    approve(Path("kept"), open_run(Path(str(first.sets[0].verdict.run))), "mine", date="2026-03-01")
    recordings(4)
    second = _night("2026-03-02")
    (result,) = second.sets
    assert (second.status, len(result.exact.common.same) if result.exact else 0) == ("pass", 2)
    assert result.apart is not None
    assert [row["what"] for row in result.apart.rows] == ["added", "added"]
    assert [row.get("since") for row in result.apart.rows] == [None, None]
    # Figures of the history are those of the same conversations.
    assert result.means == first.sets[0].means != result.apart.means
    third = _night("2026-03-03")
    assert third.status == "pass"
    assert _status(third, "added") == {"hybrid receipts": ("pass", False)}
    assert third.sets[0].apart is not None
    assert {row["since"] for row in third.sets[0].apart.rows} == {"2026-03-02"}
    assert third.sets[0].apart.run == third.sets[0].verdict.run
    told = json.loads(Path("nights/2026-03-03/nightly.json").read_text("utf-8"))["sets"][0]["apart"]
    assert (told["since"], len(told["conversations"])) == ("the baseline", 2)
    page = Path("nights/2026-03-03/nightly.html").read_text("utf-8")
    assert "Since the baseline: 2 conversations added" in page
    # Approved, they are part of the baseline.
    approve(Path("kept"), open_run(Path(str(third.sets[0].verdict.run))), "mine", date="2026-03-03")
    fourth = _night("2026-03-04")
    assert (fourth.status, fourth.sets[0].apart) == ("pass", None)


def test_message_says_that_what_was_added_is_not_judged_again(recordings: Callable[[int], None]) -> None:
    Path("plan.toml").write_text(f'{PLAN}added = "judge"\n', "utf-8")
    recordings(2)
    first = _night("2026-03-01")
    approve(Path("kept"), open_run(Path(str(first.sets[0].verdict.run))), "mine", date="2026-03-01")
    assert "not checked" not in message_at(_night("2026-03-02").folder).title
    recordings(3)
    _night("2026-03-03")
    fourth = _night("2026-03-04")
    assert _status(fourth, "added") == {"hybrid receipts": ("pass", True)}
    file = fourth.folder / "nightly.json"
    found = json.loads(file.read_bytes())
    note = "[not checked: what was added since is not compared again with earlier nightly runs]"
    assert note in message_at(fourth.folder).title
    lines = found["sets"][0]["verdict"]["lines"]
    kept = [line for line in lines if line["kind"] != "added"]
    lines[:] = kept
    file.write_text(json.dumps(found), "utf-8")
    assert note in message_at(fourth.folder).title
    # The limits of what was added are judged again.
    lines[:] = [line for line in kept if not line["measure"].endswith(" since")]
    assert lines != kept
    file.write_text(json.dumps(found), "utf-8")
    with pytest.raises(CannotMeasure, match="is stale: set 'mine': it has 5 rules, and its inputs give 8"):
        message_at(fourth.folder)


def test_conversations_that_were_removed_or_changed_are_named(recordings: Callable[[int], None]) -> None:
    recordings(3)
    first = _night("2026-03-01")
    approve(Path("kept"), open_run(Path(str(first.sets[0].verdict.run))), "mine", date="2026-03-01")
    recordings(2)
    changed = sorted(Path("recordings").iterdir())[0]
    lines = changed.read_text("utf-8").splitlines()
    memory = max(number for number, line in enumerate(lines) if json.loads(line)["kind"] == "memory")
    value = json.loads(lines[memory])
    lines[memory] = json.dumps(value | {"text": value["text"] + " It was said twice."})
    changed.write_text("\n".join(lines) + "\n", "utf-8")
    second = _night("2026-03-02")
    assert second.status == "inconclusive"
    (line,) = [line for line in second.sets[0].verdict.lines if line.kind == "baseline"]
    assert line.reason.startswith(
        f"not all of baseline 'mine' can be compared: 1 conversation changed: {changed.stem} (memories); "
        "1 conversation removed: "
    )
    assert line.settles is not None
    # The conversation that is the same is still compared.
    assert _status(second, "exact") == {"hybrid receipts": ("pass", True)}
    assert second.sets[0].exact is not None
    assert len(second.sets[0].exact.common.same) == 1
