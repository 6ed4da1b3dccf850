"""How long `lab view` takes for its pages on a run of a thousand conversations (docs/viewer.md).

python -m tests.trials.viewer_times HOME [--conversations 1000] [--sessions 20] [--rounds 100]

HOME receives a synthetic set, its golden set and a run of two arms. They are made once, which takes some minutes. A
request goes over one kept connection to a process of its own. Printed are milliseconds at the median and at the 95th
percentile. Other work on the machine raises them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab.replay.explain import FILE, Missed, write_missed
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.view.index import Index

LABELS = ("must_remember", "nice_to_have", "nice_to_have", "unknown")
LANGUAGES = ("en", "zh")


def recording(name: str, sessions: int, language: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a conversation: two user turns, one answer and four memories a session."""
    yield {"kind": "recording", "schema": "lab.recording.v1", "conversation": name, "language": language}
    for number in range(sessions):
        day = f"2026-{number // 28 + 1:02}-{number % 28 + 1:02}"
        yield {"kind": "session", "session": f"s{number:02}", "time": f"{day}T09:00:00Z", "scope": "shop"}
        yield {"kind": "turn", "turn": "t1", "role": "user", "text": f"hello wombat{number} of {name}"}
        for part, label in enumerate(LABELS):
            yield {"kind": "memory", "text": f"note {number} {part} of {name}", "importance_label": label}
        yield {"kind": "turn", "turn": "t2", "role": "assistant", "text": "hello back"}
        yield {"kind": "turn", "turn": "t3", "role": "user", "text": f"which note {max(number - 1, 0)} 1 was it?"}


def golden(name: str, sessions: int) -> Iterator[dict[str, Any]]:
    """Yield a probe for each session after the first."""
    for number in range(1, sessions):
        relevant = [{"memory": f"{name}/s{number - 1:02}/t1#1", "grade": 2}]
        turn = f"{name}/s{number:02}/t3"
        yield {"kind": "probe", "type": ("paraphrase", "preference")[number % 2], "turn": turn, "relevant": relevant}


def made(home: Path, conversations: int, sessions: int) -> Path:
    """Return the run with causes of its misses, made if it is not there."""
    run = home / "run"
    if (run / FILE).exists():
        return run
    for kind in ("set", "gold"):
        (home / kind).mkdir(parents=True, exist_ok=True)
    for number in range(conversations):
        name = f"c{number:04}"
        files = {"set": recording(name, sessions, LANGUAGES[number % 2]), "gold": golden(name, sessions)}
        for kind, lines in files.items():
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (home / kind / f"{name}.jsonl").write_text(text, "utf-8")
    arms = ("tier_first_v1", "tier_quota_v1")
    request = ReplayRequest(str(home / "set"), "lab", arms, golden=str(home / "gold"), embedder="hashing")
    # One cause for all, because `lab missed` takes minutes, and the viewer would compute it while it is timed.
    index = Index(run_replay(request, run).run)
    missed = [
        Missed(arm, index.conversations[index.conversation_of[turn]], index.turns[turn], key, 2, "slot")
        for arm, turns in index.missed.items()
        for turn, key in turns
    ]
    write_missed(missed, {}, run / FILE)
    return run


def timed(connection: http.client.HTTPConnection, path: str, rounds: int) -> list[float]:
    """Return the milliseconds of each request but the first five."""
    spent = []
    for _ in range(rounds + 5):
        started = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        spent.append((time.perf_counter() - started) * 1e3)
        assert answer.status == 200, (path, body[:500])
    return sorted(spent[5:])


def settled(connection: http.client.HTTPConnection) -> None:
    """Wait until the measures are computed."""
    for path in ("/", "/probes"):
        connection.request("GET", path)
        connection.getresponse().read()
    while True:
        connection.request("GET", "/version")
        if not json.loads(connection.getresponse().read())["pending"]:
            return
        time.sleep(1)


def main() -> None:
    """Print the times of the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    run = made(given.home, given.conversations, given.sessions)
    command = [sys.executable, "-m", "lab", "view", str(run), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            started = time.perf_counter()
            assert process.stdout
            address = json.loads(process.stdout.readline())["address"]
            print(f"the server listens after {time.perf_counter() - started:.1f} s", flush=True)
            connection = http.client.HTTPConnection(urlsplit(address).netloc)
            settled(connection)
            print(f"measures are known after {time.perf_counter() - started:.1f} s", flush=True)
            name = f"c{given.conversations // 2:04}"
            turn = f"/turn?conversation={name}&turn={name}/s05/t3"
            lists = ("/conversations", "/probes", "/turns", "/probes?sort=rank+candidate", "/turns?show=missed")
            for path in (*lists, "/turns?q=s05", f"/turns?conversation={name}", turn):
                spent = timed(connection, path, given.rounds)
                late = spent[int(0.95 * len(spent))]
                print(f"{path:<40} {statistics.median(spent):6.1f} ms, p95 {late:6.1f} ms", flush=True)
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
