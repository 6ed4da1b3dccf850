"""Judging in a browser: who may, what a form does, and that texts cannot run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from lab.cli.judge_browser import JudgePage, make_app
from lab.cli.judge_desk import Desk
from lab.golden.files import read_golden
from lab.golden.judging import Judging, open_judging
from lab.golden.pool import Pool, Pooled, PooledTurn
from lab.recordings.model import Memory, Recording, Turn

EVIL = '<script>document.title="run"</script><img src=x onerror=alert(1)>"\'</bdi></li></form> 山 \u202e'
PORT, SECRET = 8643, "a secret"
ORIGIN = f"http://127.0.0.1:{PORT}"
FIRST, SECOND = f"c/s/t2 {EVIL}", "c/s/t4"


def _recording() -> Recording:
    said = ["Hello", "Hi", f"Which port? {EVIL}", "…", "Thanks"]
    keys = [FIRST if at == 2 else f"c/s/t{at}" for at in range(len(said))]
    turns = tuple(
        Turn(key, at, "s", "assistant" if at % 2 else "user", text, 1_700_000_000_000 + at, f"ops {EVIL}")
        for at, (key, text) in enumerate(zip(keys, said, strict=True))
    )
    texts = ("It uses port 8080", f"It used port 80 {EVIL}", "燈籠 店", "Cat food", "Dog food")
    memories = tuple(
        Memory(f"c/s/t0#{at} {EVIL if at == 1 else ''}", text, text, 1, 1_700_000_000_000 + at, scope=f"ops {EVIL}")
        for at, text in enumerate(texts)
    )
    return Recording("c", turns, memories)


RECORDING = _recording()
PORT_KEY, OLD, CHINESE, CAT, DOG = (memory.key for memory in RECORDING.memories)
POOL = Pool(
    *(6, ("hybrid",), 0, "c.jsonl", "lab", "recorded", None, "none", "abc"),
    (
        PooledTurn(FIRST, tuple(Pooled(key, {"hybrid": 1}) for key in (PORT_KEY, OLD, CHINESE))),
        PooledTurn(SECOND, (Pooled(OLD, {"hybrid": 1}),)),
    ),
)


@pytest.fixture
def judging(tmp_path: Path) -> Judging:
    return open_judging(POOL, tmp_path / f"gold {EVIL.replace('/', '')}.jsonl", "ann")


@pytest.fixture
def client(judging: Judging) -> Any:
    """A browser that came by the printed address."""
    client = _stranger(judging)
    assert client.get("/", params={"key": SECRET}).status_code == 200
    return client


def _stranger(judging: Judging) -> Any:
    from starlette.testclient import TestClient

    app = make_app(JudgePage(Desk(judging, {"c": RECORDING})), PORT, SECRET)
    return TestClient(app, ORIGIN, raise_server_exceptions=False, headers={"origin": ORIGIN})


def _press(client: Any, key: str, turn: str = FIRST, **fields: str) -> str:
    answer = client.post("/press", data={"turn": turn, "key": key, **fields})
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


def test_judge_forms_write_the_golden_set(client: Any, judging: Judging) -> None:
    assert "1 of 3 memories judged" in _press(client, "2", memory=PORT_KEY)
    _press(client, "f", memory=OLD)
    _press(client, "note", memory=OLD, typed=f"old {EVIL}")
    _press(client, "reason", typed="the port")
    assert "What does this turn test?" in _press(client, "0", memory=CHINESE)
    assert "2 of 2 turns" in _press(client, "a")
    (probe,) = read_golden(judging.out).probes
    assert (probe.turn, probe.grades, [one.memory for one in probe.forbidden]) == (FIRST, {PORT_KEY: 2}, [OLD])
    sheet = judging.sheet(FIRST)
    assert (sheet.notes, sheet.reason) == ({OLD: f"old {EVIL}"}, "the port")
    # Every form names its turn and memory: what an outdated page shows is what it judges.
    _press(client, "0", memory=PORT_KEY)
    assert judging.sheet(FIRST).marks[PORT_KEY] == "0"
    assert judging.sheet(SECOND).marks == {}
    assert "undone" in _press(client, "u")
    assert judging.sheet(FIRST).marks[PORT_KEY] == "2"
    _press(client, "x", turn=SECOND)
    assert [one.grades for one in read_golden(judging.out).probes] == [{PORT_KEY: 2}, {}]


def test_judge_page_search_adds_a_memory(client: Any, judging: Judging) -> None:
    page = client.get("/", params={"turn": SECOND, "find": "food"}).text
    assert "2 memories match" in page
    assert page.count(">Add to the list<") == 2
    _press(client, "add", turn=SECOND, memory=DOG)
    assert judging.sheet(SECOND).items == [OLD, DOG]
    assert "no memories match" not in client.get("/", params={"find": "nothing"}).text
    assert "0 memories match" in client.get("/", params={"find": "nothing like it"}).text
    # Only what was visible at the turn can be added.
    _press(client, "add", turn=SECOND, memory="c/unknown")
    assert judging.sheet(SECOND).items == [OLD, DOG]


def test_judge_page_unknown_key_or_turn_changes_nothing(client: Any, judging: Judging) -> None:
    for key in ("q", "text:pasted", "", "pageup", "odd"):
        client.post("/press", data={"turn": FIRST, "memory": PORT_KEY, "key": key})
    assert judging.decisions == []
    answer = client.post("/press", data={"turn": "nobody", "key": "x"})
    assert (answer.status_code, answer.text) == (500, "no turn 'nobody' in this pool\n")
    assert client.get("/", params={"turn": "nobody"}).status_code == 500
    assert client.post("/press", data={"typed": "x" * 200_000}).status_code == 413
    assert judging.decisions == []


def test_judge_page_full_disk_is_reported_and_made_up_for(
    client: Any, judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("lab.golden.judging.write_atomically", full)
        answer = client.post("/press", data={"turn": FIRST, "key": "2", "memory": PORT_KEY})
    assert answer.status_code == 500
    assert "not saved" in answer.text
    assert "No space left on device. The next one saves both." in answer.text
    _press(client, "f", memory=OLD)
    again = open_judging(POOL, judging.out, "ann")
    assert again.sheet(FIRST).marks == {PORT_KEY: "2", OLD: "f"}


def test_judge_page_escapes_every_text(client: Any) -> None:
    _press(client, "note", memory=OLD, typed=EVIL)
    _press(client, "reason", typed=EVIL)
    for params in ({}, {"find": EVIL}, {"find": "food"}):
        answer = client.get("/", params=params)
        assert re.findall(r"<script[^>]*>", answer.text) == ['<script src="/judge.js" defer>']
        assert "<img" not in answer.text
        assert answer.text.count("&lt;img src=x onerror=alert(1)&gt;") >= 8
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"


def test_judge_page_needs_the_printed_address(judging: Judging) -> None:
    stranger = _stranger(judging)
    assert stranger.get("/").status_code == 403
    assert stranger.get("/", params={"key": "a guess"}).status_code == 403
    press = {"turn": FIRST, "memory": PORT_KEY, "key": "2"}
    assert stranger.post("/press", data=press).status_code == 403
    assert "Which port" not in stranger.get("/").text
    stranger.get("/", params={"key": SECRET})
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert stranger.post("/press", data=press, headers={"origin": origin}).status_code == 403
    assert stranger.post("/press", data=press, headers={"host": "evil.example"}).status_code == 421
    assert stranger.put("/press", data=press).status_code == 405
    assert judging.decisions == []
    assert stranger.post("/press", data=press).status_code == 200
    assert len(judging.decisions) == 1


def test_terminal_and_page_continue_each_other(client: Any, judging: Judging) -> None:
    _press(client, "2", memory=PORT_KEY)
    again = open_judging(POOL, judging.out, "ann")
    desk = Desk(again, {"c": RECORDING})
    assert (desk.turn.key, desk.sheet.marks) == (FIRST, {PORT_KEY: "2"})
    desk.press("f")
    page = _stranger(open_judging(POOL, judging.out, "ann"))
    assert "2 of 3 memories judged" in page.get("/", params={"key": SECRET}).text


@pytest.mark.full
def test_pool_is_judged_by_keys_in_a_browser(browser: Any, operators: Path, tmp_path: Path) -> None:
    from lab.recordings.readers import read_library
    from lab.replay.pool import content

    source = operators / "lantern-shop.jsonl"
    library = read_library(source, "lab")
    (recording,) = library.recordings
    turns = [turn.key for turn in recording.turns if turn.role == "user"][20:22]
    keys = [memory.key for memory in recording.memories][:3]
    pool = Pool(
        *(6, ("hybrid",), 0, str(source), "lab", "recorded", None, "none", content(library)),
        tuple(PooledTurn(turn, tuple(Pooled(key, {"hybrid": 1}) for key in keys)) for turn in turns),
    )
    (tmp_path / "pool.jsonl").write_bytes(pool.as_bytes())
    command = [sys.executable, "-m", "lab", "golden", "judge", "pool.jsonl", "--out", "gold.jsonl"]
    process = subprocess.Popen(
        [*command, "--browser", "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    address = process.stdout.readline().split()[0]
    try:
        browser.open(address, width=1280)
        assert "key=" not in browser.ask("location.href")
        title, here = "document.querySelector('h1')?.textContent", "document.querySelector('.is-here').dataset.memory"
        judged = "document.getElementById('items-title').textContent"
        assert browser.ask(title) == turns[0]
        order = browser.ask("[...document.querySelectorAll('[data-memory]')].map(one => one.dataset.memory)")
        assert sorted(order) == sorted(keys)
        browser.press("2")
        browser.until(f"{judged}.startsWith('1 of 3')")
        assert browser.ask(here) == order[1]
        browser.press("j")
        assert browser.ask(here) == order[2]
        browser.press("f")
        browser.until(f"{judged}.startsWith('2 of 3')")
        browser.press("u")
        browser.until(f"{judged}.startsWith('1 of 3')")
        browser.press("n")
        for letter in "why":
            browser.press(letter)
        browser.press("Enter")
        browser.until("document.activeElement.matches('.item')")
        browser.press("r")
        browser.until("document.getElementById('types') !== null")
        browser.press("a")
        browser.until(f"{title} === {json.dumps(turns[1])}")
        browser.press("x")
        browser.until("document.getElementById('message').textContent.startsWith('every turn')")
        assert browser.said == []
        # Without scripts, buttons do the same.
        browser.open(address, width=390, scripts=False)
        assert browser.ask("document.documentElement.scrollWidth") <= 390
        browser.ask("document.querySelector('#act button[value=left]').click()")
        browser.until(f"{title} === {json.dumps(turns[0])}")
    finally:
        process.send_signal(signal.SIGINT)
        said, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, "")
    assert "2 of 2 turns done" in said
    probes = read_golden(tmp_path / "gold.jsonl").probes
    assert [(probe.turn, probe.grades) for probe in probes] == [(turns[0], {order[0]: 2}), (turns[1], {})]
