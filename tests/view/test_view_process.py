"""``lab view`` as a process: address, port, end; and its pages in a real browser."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from lab.runs.directory import RunDirectory

pytestmark = pytest.mark.process


def view(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "view", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def address(walked: RunDirectory) -> Iterator[str]:
    """The address of a running viewer; where it is ended, it ends well and says where it was."""
    process = view(str(walked.path), "--port", "0", "--with-text", "--json")
    assert process.stdout
    said = json.loads(process.stdout.readline())
    assert (said["conversations"], said["damaged"]) == (3, 0)
    yield said["address"]
    process.send_signal(signal.SIGINT)
    rest, complaints = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")
    assert complaints == f"stopped; {walked.path} was at {said['address']}\n"


def test_view_listens_on_loopback_only(address: str, walked: RunDirectory) -> None:
    before = {one: one.read_bytes() for one in walked.path.rglob("*") if one.is_file()}
    with urllib.request.urlopen(address + "turns?conversation=plain") as answer:
        assert answer.status == 200
        assert b"wombat0" in answer.read()
    assert {one: one.read_bytes() for one in walked.path.rglob("*") if one.is_file()} == before
    port = int(address.rstrip("/").rpartition(":")[2])
    for host in ("127.0.0.2", "::1"):
        with pytest.raises(OSError, match=r"refused|assign|unreachable"):
            socket.create_connection((host, port), 1).close()


def test_port_in_use_is_one_line(walked: RunDirectory) -> None:
    from lab.base.errors import UnusableInput
    from lab.view.app import listen

    with listen(0) as taken, pytest.raises(UnusableInput, match=r"in use\); choose another --port") as caught:
        listen(taken.getsockname()[1])
    assert caught.value.exit_code == 2


def test_folder_without_run_is_refused_before_listening(tmp_path: Path) -> None:
    from lab.base.errors import NotARun
    from lab.cli.main import app

    found = CliRunner().invoke(app, ["view", str(tmp_path), "--port", "0"])
    assert isinstance(found.exception, NotARun)


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_load_in_a_browser(browser: Any, address: str, width: int) -> None:
    """Nothing runs but ours, nothing is asked for elsewhere, nothing overflows, in light and dark."""
    turn = f"turn?conversation=plain&turn={quote('plain/s04/t3', safe='')}&arm=quota_repeat&full=1"
    pages = (
        "",
        "conversations",
        "probes?measure=R@6&sort=difference",
        "turns?conversation=plain&show=superseded",
        "compare",
    )
    for place, page in enumerate((*pages, turn)):
        browser.open(address + page, width=width, dark=place % 2 == 1)
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask("document.title").endswith("– recall lab")
        assert browser.ask("document.querySelectorAll('script').length") == 1
        assert browser.said == []
        assert {one for one in browser.asked if not one.startswith((address, "data:"))} == set()
    light = browser.ask("getComputedStyle(document.body).backgroundColor")
    browser.open(address, width=width, dark=False)
    assert browser.ask("getComputedStyle(document.body).backgroundColor") != light


def test_run_is_navigated_by_keys(browser: Any, address: str) -> None:
    focused = "document.activeElement.id"
    browser.open(address + "turns?conversation=plain", width=1280)
    browser.press("j")
    assert browser.ask(focused) == "r0"
    browser.press("j")
    browser.press("j")
    browser.press("k")
    assert browser.ask(focused) == "r1"
    assert browser.ask("location.hash") == "#r1"
    browser.press("?")
    opened = "document.querySelector('#help:popover-open') !== null"
    assert browser.ask(opened)
    browser.press("Escape")
    assert not browser.ask(opened)
    browser.press("/")
    assert browser.ask(focused) == "q"
    browser.press("j")
    assert browser.ask("document.getElementById('q').value") == "j"
    browser.ask("document.activeElement.blur()")
    browser.press("j")
    assert browser.ask(focused) == "r2"
    browser.press("Enter", leads=True)
    heading = "document.querySelector('h1').textContent"
    assert browser.ask(heading) == "plain/s01/t1"
    browser.press("e", leads=True)
    assert browser.ask("location.hash") == "#explained"
    assert "tier_quota_v1 at plain/s01" in browser.ask("document.querySelector('.explained').textContent")
    browser.press("j", leads=True)
    assert browser.ask(heading) == "plain/s01/t3"
    browser.press("n", leads=True)
    assert browser.ask(heading) == "plain/s02/t3"
    browser.press("p", leads=True)
    assert browser.ask(heading) == "plain/s01/t3"
    browser.press("f", leads=True)
    assert "flip" in browser.ask("document.querySelector('.strip [aria-current]').dataset.kinds").split()
    browser.press("u", leads=True)
    assert browser.ask(heading) == "plain"
    browser.press("3", leads=True)
    assert browser.ask(heading) == "Probes"


def test_long_list_draws_the_rows_in_sight_only(browser: Any, long: RunDirectory) -> None:
    process = view(str(long.path), "--port", "0", "--json")
    assert process.stdout
    said = json.loads(process.stdout.readline())
    try:
        browser.open(said["address"] + "turns?conversation=long", width=1280)
        assert browser.ask("document.documentElement.scrollHeight") < 1800
        count = "document.querySelectorAll('.list tr[data-step]').length"
        assert browser.ask(count) <= 120 < said["turns"]
        browser.press("j")
        browser.press("End")
        last = f"r{said['turns'] - 1}"
        browser.until(f"document.activeElement.id === '{last}'")
        assert browser.ask(count) <= 120
        box = "document.querySelector('.list').getBoundingClientRect()"
        row = "document.activeElement.getBoundingClientRect()"
        assert browser.ask(f"{row}.bottom <= {box}.bottom + 1 && {row}.top >= {box}.top")
        # A copied address leads to the same row.
        browser.open(said["address"] + "turns?conversation=long#r250", width=390)
        browser.until("document.activeElement.id === 'r250'")
        assert browser.ask("document.activeElement.textContent").strip().startswith("long/s")
        browser.press("Home")
        browser.until("document.activeElement.id === 'r0'")
        assert browser.said == []
        # Every row is there once, in order.
        keys = "Promise.all([0, 100, 200, 300].map(from => fetch(`/rows/turns?from=${from}`).then(one => one.text())))"
        found = browser("Runtime.evaluate", expression=keys, awaitPromise=True, returnByValue=True)
        rows = re.findall(r'id="r(\d+)"', "".join(found["result"]["value"]))
        assert rows == [str(number) for number in range(said["turns"])]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_run_is_navigated_without_scripts(browser: Any, address: str) -> None:
    opened = "document.querySelector('#help:popover-open') !== null"

    def tab_to(selector: str) -> None:
        for _ in range(60):
            browser.press("Tab")
            if browser.ask(f"document.activeElement.matches({json.dumps(selector)})"):
                assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                return
        raise AssertionError(f"no Tab leads to {selector}")

    browser.open(address, scripts=False)
    tab_to(".skip")
    tab_to("#ask")
    browser.press("Enter")
    assert browser.ask(opened)
    assert "the number of stars is its grade" in browser.ask("document.getElementById('help').innerText")
    browser.press("Escape")
    assert not browser.ask(opened)
    tab_to(".tabs a[href='/conversations']")
    browser.press("Enter", leads=True)
    tab_to("a[href^='/turns?conversation=']")
    browser.press("Enter", leads=True)
    tab_to("button.plainly")
    browser.press(" ")
    assert browser.ask(opened)
    browser.press("Escape")
    tab_to(".list tbody a")
    browser.press("Enter", leads=True)
    tab_to("#explained a")
    browser.press("Enter", leads=True)
    assert browser.ask("document.querySelector('.explained').tabIndex") == 0
    assert browser.said == []
