"""``lab replay`` with a faulty host: what a user is told, and that no text of a memory is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.commands import Done, run_here
from tests.systems.external.hosting import FAULTY
from tests.systems.external.test_incomplete_runs import readable, recorded_texts
from tests.systems.external.web import FAULTS, Server, refuses, serving

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
HERE, OTHER = "night-bakery", "card-studio"
# A host that is too slow waits longer than this; no other one is judged by the load of the machine.
SECONDS = {"recall": 0.5, "close": 0.5}
TOO_SLOW = ("silent", "late")
JSON_ONLY = "give nothing but one JSON object as an answer; logs belong on standard error"
KEY = "name the variable with its key under key_env in the arm's file"
FASTER = "make it faster, or raise timeouts.recall in the arm's file"
ADDRESS = "start the endpoint, or correct the address"
# Fault of an endpoint -> the reason of its recalls, and the remedy.
OF_ENDPOINTS = {
    "401": ("http_401 in recall", KEY),
    "500": ("http_500 in recall", "see the log of the endpoint"),
    "half a JSON": ("not_json in recall", JSON_ONLY),
    "silent": ("timed_out in recall at 0.5 s", FASTER),
    "hangs up": ("no_answer in recall at cannot be reached (RemoteDisconnected)", ADDRESS),
    "two answers": ("not_json in recall", JSON_ONLY),
}
# Fault of a process -> the reason and the remedy, and whether the rest of the conversation fails too.
OF_PROCESSES = {
    "rubbish": ("not_json in recall", JSON_ONLY, True),
    "half": ("not_json in recall", JSON_ONLY, True),
    "late": ("timed_out in recall at 0.5 s", FASTER, True),
    "dies": ("died in recall at exit 3", "`lab cache answers --stderr live` shows what it wrote", True),
    "twice": ("answered_twice in remember", "answer each request once, in order, with its id", True),
    "unborn": ("item_not_there in recall", "return no memory that is not born yet or forgotten", False),
    "error": ("host_error in recall at WrongDimension", "see the log of the host", False),
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as own:
        own.faulty_in = HERE
        yield own


def lab(folder: Path, *words: str, **environment: str) -> Done:
    """Run the command, in a terminal of 80 columns, with a cache of its own."""
    return run_here(*words, cwd=folder, LAB_CACHE_DIR=str(folder / "cache"), **environment)


def replay(folder: Path, config: dict[str, Any], **environment: str) -> Done:
    file = {"lab": {"arm": "external"}, **config}
    (folder / "live.json").write_text(json.dumps(file), "utf-8")
    chosen = ["--conversation", HERE, "--haystack", "0", "--embedder", "hashing"]
    # On a busy machine a short limit fails the other conversation, too.
    chosen += [] if "timeouts" in config else ["--conversation", OTHER]
    return lab(folder, "replay", "shipped:operators", *chosen, "--arm", "live=live.json", "--out", "run", **environment)


def limited(fault: str) -> dict[str, Any]:
    """The time limits of a host with this fault."""
    return {"timeouts": SECONDS} if fault in TOO_SLOW else {}


def memory_key(at: int) -> str:
    """The key of a memory of the faulty conversation that is born late in it."""
    (file,) = (ROOT / "datasets" / "operators").rglob(f"{HERE}.jsonl")
    keys: list[str] = []
    session = turn = ""
    born = 0
    for line in file.read_text("utf-8").splitlines():
        one = json.loads(line)
        if one["kind"] == "session":
            session = one["session"]
        elif one["kind"] == "turn":
            turn, born = one["turn"], 0
        elif one["kind"] == "memory":
            keys.append(f"{HERE}/{session}/{turn}#{born}")
            born += 1
    return keys[at]


def check(folder: Path, done: Done, reason: str, remedy: str, *, final: bool) -> None:
    """Check what the user sees, the run, and that neither quotes a memory."""
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    failures = [json.loads(line) for line in (folder / "run" / "failures.jsonl").read_text("utf-8").splitlines()]
    assert {(one["conversation"], one["arm"], one["failure"]) for one in failures} == {(HERE, "live", reason)}
    assert len(failures) > 5 if final else len(failures) == 1
    count = f"{len(failures)} recalls" if final else "1 recall"
    assert error.startswith(f"error: {count} of live failed; first at {failures[0]['turn']}: {reason}; {remedy}")
    assert error.endswith(". Failed recalls do not count as misses; see run/failures.jsonl")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    # A run that cannot be scored as it is does not name that as the next step.
    assert "Next:" not in done.stdout
    manifest = json.loads((folder / "run" / "manifest.json").read_text("utf-8"))
    assert (manifest["status"], manifest["failed"]) == ("incomplete", {"live": len(failures)})
    rows = [
        row for path in (folder / "run" / "receipts").glob("*.parquet") for row in parquet.read_table(path).to_pylist()
    ]
    failed = [row["turn"] for row in rows if row["status"] == "failed"]
    assert len(failed) == len(failures)
    assert all(turn.startswith(f"{HERE}/") for turn in failed)
    texts = recorded_texts()
    assert len(texts) > 1000
    held = [done.stdout + done.stderr, *(readable(path) for path in (folder / "run").rglob("*") if path.is_file())]
    assert not [text for text in texts if any(text in one for one in held)]


@pytest.mark.parametrize("fault", OF_ENDPOINTS)
def test_user_is_told_what_failed_at_an_endpoint_and_what_mends_it(fault: str, server: Server, tmp_path: Path) -> None:
    server.fault, expected = FAULTS[fault]
    reason, remedy = OF_ENDPOINTS[fault]
    assert reason == expected
    config = {"url": server.url, **limited(fault)}
    check(tmp_path, replay(tmp_path, config), reason, remedy, final=True)


@pytest.mark.parametrize("fault", OF_PROCESSES)
def test_user_is_told_what_failed_in_a_process_and_what_mends_it(fault: str, tmp_path: Path) -> None:
    reason, remedy, final = OF_PROCESSES[fault]
    config = {"exec": [sys.executable, str(FAULTY), fault, memory_key(-1)], "env": ["FAULTY_IN"], **limited(fault)}
    check(tmp_path, replay(tmp_path, config, FAULTY_IN=HERE), reason, remedy, final=final)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, f"live.json: the host does not answer hello: http_401 in hello; {KEY} (docs/external.md)"),
        (500, "live.json: the host does not answer hello: http_500 in hello; see the log of the endpoint (docs"),
    ],
)
def test_endpoint_that_refuses_everything_is_one_line(
    status: int, message: str, server: Server, tmp_path: Path
) -> None:
    server.fault, server.always = refuses(status), True
    done = replay(tmp_path, {"url": server.url})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "run").exists()
