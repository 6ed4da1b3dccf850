"""Complete runs with an endpoint: they resume after a kill, store no key, and repeat without requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure
from lab.embedding.embedder import SentenceTransformerEmbedder
from lab.embedding.housekeeping import damage
from lab.embedding.vectors import Vectors, embedder_named
from lab.replay.run import run_replay
from lab.runs.directory import open_run
from lab.runs.request import ReplayRequest
from lab.view.recorded import Recorded
from tests.commands import run_here
from tests.embedding.conftest import PROJECT, Endpoint

pytestmark = pytest.mark.slow

SECRET = "sk-9z8y7x6w5v4u3t2s"
KILLS = 25
TEXTS = [f"fact {number}: the gateway listens on port {8000 + number}" for number in range(240)]

# The parent imports everything once and forks children that prepare the texts. It kills each child a few milliseconds
# after a random number of requests.
KILLED = """
import os, random, signal, sys, time
from lab.embedding import cache, http
from lab.embedding.vectors import embedder_named
from lab.embedding.vectors import Vectors

name, count, kills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
texts = [f"fact {number}: the gateway listens on port {8000 + number}" for number in range(count)]
cache.WRITE_AFTER = 0
Vectors(embedder_named(name)).prepare(texts[:1])
post, moments, killed = http.post, random.Random(13), 0
for _ in range(kills):
    heard, tell = os.pipe()
    child = os.fork()
    if not child:
        def told(*given):
            os.write(tell, b".")
            return post(*given)
        http.post = told
        Vectors(embedder_named(name)).prepare(texts)
        os._exit(0)
    os.close(tell)
    for _ in range(moments.randint(2, 5)):
        os.read(heard, 1)
    time.sleep(moments.uniform(0, 0.01))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(heard)
    killed += os.WIFSIGNALED(status)
print(killed)
"""


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments],
        cwd=PROJECT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _files_with(needle: str, *folders: Path) -> list[str]:
    return [
        str(path)
        for folder in folders
        for path in [*folder.rglob("*")]
        if needle in path.name or (path.is_file() and needle.encode() in path.read_bytes())
    ]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return the folder of a conversation of four turns, each of the first three followed by a memory."""
    lines = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": "c", "language": "en"},
        {"kind": "session", "session": "s1", "time": "2026-03-01T09:00:00+00:00", "scope": "global"},
    ]
    for number in range(1, 5):
        lines.append({"kind": "turn", "turn": f"t{number}", "role": "user", "text": f"Which port has host {number}?"})
        if number < 4:
            lines.append({"kind": "memory", "text": f"Host {number} listens on port 900{number}."})
    path = tmp_path / "recordings" / "c.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path.parent


def test_endpoint_after_many_kills_finishes_with_the_same_vectors(
    endpoint: Endpoint, model: SentenceTransformerEmbedder, tmp_path: Path
) -> None:
    name = endpoint.named("?batch=1")
    # One large batch, so that the server does not compute the vectors one by one later.
    embedder_named(endpoint.named("?batch=256")).encode(TEXTS)
    command = [sys.executable, "-c", KILLED, name, str(len(TEXTS)), str(KILLS)]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=300)
    killed = int(ended.stdout)
    vectors = Vectors(embedder_named(name))
    missing = vectors.prepare(TEXTS)
    assert killed == KILLS
    assert 0 < missing < len(TEXTS) - KILLS, "a process did not continue where the previous one was killed"
    assert vectors.of(TEXTS).tobytes() == model.encode(TEXTS).tobytes()
    found = [one for _, checked in damage(tmp_path / "cache") for one in checked]
    assert found
    assert [one.problem for one in found if one.problem] == []
    assert Vectors(embedder_named(name)).prepare(TEXTS) == 0


def test_endpoint_two_processes_send_a_text_once(endpoint: Endpoint) -> None:
    name = endpoint.named("?batch=4")
    program = "import sys; from lab.embedding.vectors import Vectors, embedder_named"
    program += "; Vectors(embedder_named(sys.argv[1])).prepare([f'note {one}' for one in range(40)])"
    both = [subprocess.Popen([sys.executable, "-c", program, name], cwd=PROJECT) for _ in range(2)]
    assert [one.wait(timeout=120) for one in both] == [0, 0]
    assert endpoint.state()["texts"] == 40


def test_replay_with_an_endpoint_stores_no_key(endpoint: Endpoint, recording: Path, tmp_path: Path) -> None:
    run, direct = tmp_path / "run", tmp_path / "direct"
    replay = ["replay", str(recording), "--format", "lab", "--arm", "hybrid", "--arm", "engine", "--out"]
    named = ["--embedder", endpoint.named()]
    outputs = []
    # HTML and a refused key end the replay. Status 500 is retried, so the last replay succeeds.
    for fault, code, said in (
        ({"raw": "<html></html>"}, 4, "returned HTML, not JSON"),
        ({"status": 401}, 4, "refuses the key in LAB_EMBEDDER_KEY"),
        ({"status": 500}, 0, ""),
    ):
        endpoint.fail(fault)
        ended = run_here(*replay, str(run), *named, LAB_EMBEDDER_KEY=SECRET)
        outputs.append(ended.stdout + ended.stderr)
        assert ended.returncode == code, ended.stderr
        assert said in ended.stderr
        assert code == 0 or ended.stderr.splitlines()[-1].startswith("error: openai:")
    assert set(endpoint.state()["keys"]) == {f"Bearer {SECRET}"}
    ended = run_here(*replay, str(direct))
    assert ended.returncode == 0, ended.stderr
    (own,), (other,) = ([*one.glob("receipts/*.parquet")] for one in (run, direct))
    assert own.read_bytes() == other.read_bytes()
    # Without a key, all vectors come from the cache.
    again = run_here(*replay, str(tmp_path / "again"), *named)
    assert (again.returncode, endpoint.state()["requests"]) == (0, 0)
    assert (tmp_path / "again" / "receipts" / own.name).read_bytes() == own.read_bytes()
    assert _files_with(SECRET, tmp_path) == []
    assert not any(SECRET in text for text in outputs)


def test_replay_killed_resumes_with_the_same_command(endpoint: Endpoint, recording: Path, tmp_path: Path) -> None:
    endpoint.fail(*[{"sleep": 0.4}] * 7)
    command = ["replay", str(recording), "--format", "lab", "--arm", "vector", "--out", str(tmp_path / "run")]
    command += ["--embedder", endpoint.named("?batch=1")]
    started = subprocess.Popen([sys.executable, "-m", "lab", *command], cwd=PROJECT, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    asked = 0
    while asked < 2 and time.monotonic() < until:
        asked += endpoint.state()["requests"]
        time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    assert started.wait(timeout=60) == -signal.SIGKILL
    ended = _run(*command)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "complete"


@pytest.mark.parametrize("reader", ["explain", "view"])
def test_reading_a_run_sends_no_request(
    endpoint: Endpoint, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setenv("LAB_EMBEDDER_KEY", SECRET)
    run = tmp_path / "run"
    asked = ReplayRequest(str(recording), "lab", ("vector",), embedder=endpoint.named())
    run_replay(asked, run)
    endpoint.state()

    def read() -> str:
        if reader == "view":
            return Recorded(open_run(run)).explanation("c", "c/s1/t4", "vector", with_text=True, full=True)
        ended = _run("explain", str(run), "c/s1/t4", "--arm", "vector")
        if ended.returncode:
            assert ended.returncode == CannotMeasure.exit_code
            raise CannotMeasure(ended.stderr)
        return ended.stdout

    assert "c/s1/t4" in read()
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(CannotMeasure, match="is not in the cache; run the replay again first"):
        read()
    assert endpoint.state()["requests"] == 0
    assert not (tmp_path / "empty" / "vectors").exists()
