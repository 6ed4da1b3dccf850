"""The page of a watch: what it says, that it reads itself again, and that it needs nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.canary.rollout.live_figures import ERRORS, FIGURES, LATENCY, REPEAT, TEXT, TURNS
from lab.canary.rollout.watch_page import FILE, write_page


def receipt(**more: Any) -> dict[str, Any]:
    windows = [
        dict.fromkeys(FIGURES) | {"recalls": 100, "ended": 1.7e9 + n, ERRORS: 0.01, LATENCY: 90.0 + n, REPEAT: 0.4}
        for n in range(8)
    ]
    made = {
        "schema": "lab.watch.v1",
        "status": "watching",
        "started": "2026-11-23T15:00:00Z",
        "written": "2026-11-23T16:00:00Z",
        "config": "/home/op/.openclaw/openclaw.json",
        "control": None,
        "silent": [],
        "recalls": 15000,
        "writes": True,
        "limits": {ERRORS: 0.01, LATENCY: 150.0, REPEAT: 0.5, TEXT: 0.9},
        "counts": {"receipts": 812, "failed_receipts": 1},
        "seen": 812,
        "last_time": 1.7e9,
        "figures": {
            name: {"evidence": 20.0, "threshold": 21428.6, "observations": 812} for name in (ERRORS, LATENCY, REPEAT)
        },
        "learning": {},
        "windows": windows,
        "now": dict.fromkeys(FIGURES) | {"recalls": 12, ERRORS: 0.0},
        "causes": {},
        "warnings": [],
        "alarm": None,
        "command": None,
        "downgrade": None,
    }
    return made | more


def written(folder: Path, **more: Any) -> str:
    return write_page(receipt(**more), folder).read_text("utf-8")


def test_page_reads_itself_again_while_the_watch_goes_on(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert '<meta http-equiv="refresh" content="30">' in page
    assert "NO ALARM" in page
    assert "97" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert "<polyline" in page
    assert "refresh" not in written(tmp_path, status="ended").partition("<body>")[0].replace("refreshes", "")


def test_page_of_an_alarm_says_why_and_what_to_do(tmp_path: Path) -> None:
    alarm = {"figure": ERRORS, "raised": "x", "log_time": None, "recalls": 812, "why": "9 % of the recalls failed"}
    page = written(tmp_path, status="alarm", alarm=alarm, command="lab canary watch C --write", writes=False)
    assert "9 % of the recalls failed." in page.replace("\u00a0", " ")
    assert "lab canary watch C --write" in re.sub("<[^>]*>", "", page)
    done = {"at": "2026-11-23T16:00:01Z", "slot": "memory-core", "wrote": True, "restarted": True, "notes": []}
    page = written(tmp_path, status="alarm", alarm=alarm, downgrade=done)
    assert "Switched back to memory-core" in page


@pytest.mark.parametrize("seen", [0, 5])
def test_page_before_there_is_anything_to_show(tmp_path: Path, seen: int) -> None:
    learning = {LATENCY: 3} if seen else {}
    page = written(tmp_path, seen=seen, windows=[], figures={}, learning=learning, counts={}, last_time=None)
    assert ("learning" in page) == bool(seen)
    assert "Too few windows" in page


def test_page_with_a_control(tmp_path: Path) -> None:
    windows = receipt()["windows"]
    for window in windows:
        window["control"] = dict.fromkeys(FIGURES) | {"recalls": 100, ERRORS: 0.02, LATENCY: 80.0, REPEAT: 0.41}
    page = written(tmp_path, control="/other/gateway.log", windows=windows)
    assert "0.41" in page
    assert page.count('class="other"') == 3


def test_page_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("<html>mine</html>", "utf-8")
    with pytest.raises(UnusableInput, match="is not a page of"):
        write_page(receipt(), tmp_path)


def test_page_names_what_did_not_work_and_warnings(tmp_path: Path) -> None:
    turns = {TURNS: {"evidence": 5.0, "threshold": 1.5e6, "observations": 20}}
    causes = {"provider_unavailable": 1113, "a<b": 1}
    page = written(tmp_path, causes=causes, warnings=["40 of 41 recalls were skipped"], figures=turns)
    text = re.sub("<[^>]*>", " ", page)
    assert re.search(r"provider_unavailable\s+1,113", text)
    assert "a&lt;b" in page
    assert "40 of 41 recalls were skipped." in text
    assert re.search(r"turns without a recall\s+20 tested", text)
    assert "What did not work" not in written(tmp_path)
