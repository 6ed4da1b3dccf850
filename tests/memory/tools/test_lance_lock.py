"""Two writers, killed writers, and running gateways (E-95, E-96), with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.base.errors import InUse, UnusableInput
from lab.memory.table.lance_lock import LOCK_NAME, WriterLock, gateway_using, holder
from lab.memory.table.lance_table import LanceTable, TableSettings
from tests.memory.tools.lance_tables import DIMENSION, entry, plugin_table, uuid

pytestmark = pytest.mark.process
TRIAL = Path(__file__).parents[2] / "trials" / "memory_kills.py"
Start = Callable[..., "subprocess.Popen[str]"]
HOLD = """
import sys, time
from pathlib import Path
from lab.memory.table.lance_lock import WriterLock
lock = WriterLock(Path(sys.argv[1]))
lock.acquire("a trial")
print("held", flush=True)
time.sleep(60)
"""
STORE = """
import sys, uuid
from pathlib import Path
from lab.retrieval.contract import Row
from lab.memory.table.lance_table import LanceTable, TableSettings
from lab.systems.openclaw.table.schema import Entry
for _ in range(int(sys.argv[2])):
    with LanceTable(Path(sys.argv[1]), create=8, settings=TableSettings(wait_seconds=100)) as table:
        key = str(uuid.uuid4())
        table.add([Entry(Row(key, key, key, key, 1), [1.0] * 8)])
    print(key, flush=True)
"""
GATEWAY = "import sys, time; print('up', flush=True); time.sleep(60)"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process, and kills it at the end."""
    running: list[subprocess.Popen[str]] = []

    def run(*command: str | Path, first: bool = True, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, text=True, env=os.environ | environment
        )
        running.append(process)
        assert process.stdout is not None
        if first:
            assert process.stdout.readline()
        return process

    yield run
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, in which gateways keep their locks."""
    folder = tmp_path / "temporary"
    (folder / "openclaw-1000").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_second_writer_is_told_who_writes(tmp_path: Path, start: Start) -> None:
    process = start(sys.executable, "-c", HOLD, tmp_path)
    message = rf"process {process.pid} on \S+ \(a trial, since 20\S+\) is writing it"
    with pytest.raises(InUse, match=message):
        WriterLock(tmp_path).acquire("me", 0.1)
    assert f"process {process.pid}" in str(holder(tmp_path))
    process.kill()
    process.wait()
    assert holder(tmp_path) is None
    lock = WriterLock(tmp_path)
    lock.acquire("me")
    assert f"process {process.pid}" in str(lock.taken_from)
    lock.release()
    lock.acquire("me")
    assert lock.taken_from is None
    lock.release()


def test_readers_need_no_lock(tmp_path: Path, start: Start) -> None:
    plugin_table(tmp_path, 1)
    start(sys.executable, "-c", HOLD, tmp_path)
    with LanceTable(tmp_path, read_only=True) as table:
        assert len(table.rows()) == 1
    with pytest.raises(InUse):
        LanceTable(tmp_path, settings=TableSettings(wait_seconds=0))


def test_unreadable_lock_file_of_a_dead_process_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_bytes(b'{"pid": 12')
    with LanceTable(tmp_path, create=DIMENSION) as table:
        assert not table.notes


def test_two_processes_lose_and_double_nothing(tmp_path: Path, start: Start) -> None:
    both = [start(sys.executable, "-c", STORE, tmp_path, "6", first=False) for _ in range(2)]
    acknowledged = [line for process in both for line in process.communicate(timeout=120)[0].split()]
    assert [process.returncode for process in both] == [0, 0]
    with LanceTable(tmp_path, read_only=True) as table:
        assert sorted(row.id for row in table.rows()) == sorted(acknowledged)
    assert len(acknowledged) == 12


def test_kills_lose_and_double_nothing() -> None:
    done = subprocess.run([sys.executable, TRIAL, "--kills", "4"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nothing lost, nothing doubled" in done.stdout


def test_gateway_is_recognised_by_its_lock_file(tmp_path: Path, temporary: Path, start: Start) -> None:
    state = tmp_path / "state"
    store, other = state / "memory" / "lancedb", tmp_path / "elsewhere"
    for folder in (store, other):
        folder.mkdir(parents=True)
        plugin_table(folder, 1)
    (state / "openclaw.json").write_text("{plugins: {}}")
    process = start(sys.executable, "-c", GATEWAY)
    lock = temporary / "openclaw-1000" / "gateway.0a1b2c3d.lock"
    lock.write_text(json.dumps({"pid": process.pid, "configPath": str(state / "openclaw.json")}))
    assert gateway_using(other) is None
    with LanceTable(store) as table:
        assert table.read_only_reason == f"a running gateway uses it: process {process.pid}, by the lock file {lock}"
        with pytest.raises(UnusableInput, match="nothing is written, because a running gateway uses it"):
            table.add([entry(2)])
    assert not (store / LOCK_NAME).exists()
    with LanceTable(store, despite_gateway=True) as table:
        table.add([entry(2)])
        table.compact()
        assert "sees new rows after a restart" in table.notes[0]
    # The configuration may name a folder anywhere.
    (state / "openclaw.json").write_text(f"{{plugins: {{entries: {{x: {{config: {{dbPath: '{other}'}}}}}}}}}}")
    assert gateway_using(other) is not None
    # So may a file that it includes; a variable that is not set here hides nothing.
    part = {"engine": {"dbPath": "${LAB_NOT_SET}"}, "x": {"dbPath": str(other)}}
    (state / "part.json").write_text(json.dumps(part))
    (state / "openclaw.json").write_text('{"plugins": {"entries": {"openclaw-mem-engine": {"$include": "part.json"}}}}')
    assert gateway_using(other) is not None
    process.kill()
    process.wait()
    assert gateway_using(store) is None
    with LanceTable(store) as table:
        assert [row.id for row in table.rows()] == [uuid(1), uuid(2)]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_gateway_is_recognised_by_its_process(tmp_path: Path, temporary: Path, start: Start) -> None:
    del temporary
    store = tmp_path / "state" / "memory"
    store.mkdir(parents=True)
    command = ("bash", "-c", f'exec -a openclaw-gateway "{sys.executable}" -c "{GATEWAY}"')
    process = start(*command, OPENCLAW_STATE_DIR=str(tmp_path / "state"))
    assert f"process {process.pid} " in str(gateway_using(store))
    assert gateway_using(tmp_path) is None


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_open_file_of_the_host_is_recognised(tmp_path: Path, temporary: Path, start: Start) -> None:
    del temporary
    (tmp_path / "store").mkdir()
    file = tmp_path / "store" / "data.lance"
    file.write_bytes(b"x")
    node = tmp_path / "node"
    node.symlink_to(Path(sys.executable).resolve())
    process = start(node, "-c", f"import time; file = open({str(file)!r}); print('up', flush=True); time.sleep(60)")
    found = gateway_using(tmp_path / "store")
    assert found == f"process {process.pid} (node), which has data.lance open"


@pytest.mark.parametrize("text", ["", "[]", '{"pid": "x"}', '{"pid": -1, "configPath": "/"}', '{"pid": 1}', "\0"])
def test_malformed_gateway_locks_are_ignored(tmp_path: Path, temporary: Path, text: str) -> None:
    (temporary / "openclaw-1000" / "gateway.0a1b2c3d.lock").write_text(text)
    assert gateway_using(tmp_path) is None
