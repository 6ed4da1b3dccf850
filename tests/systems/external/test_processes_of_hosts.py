"""The processes of a host: what they receive, and that none of them outlives its conversation or the lab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.systems.external.protocol import HostFailed
from lab.systems.external.session import ProcessChannel, environment
from tests.commands import lives
from tests.systems.external.hosting import FAULTY, answers_of, faulty, reasons

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]


def started(file: Path) -> list[int]:
    return [int(word) for word in file.read_text("utf-8").split()]


def require_ended(processes: Sequence[int]) -> None:
    until = time.monotonic() + 60
    while left := [process for process in processes if lives(process)]:
        assert time.monotonic() < until, f"{len(left)} of {len(processes)} processes outlived their host"
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt what left its group")
@pytest.mark.parametrize("fault", ["forks", "ignores_close"])
def test_no_process_of_a_host_outlives_its_conversation(fault: str, tmp_path: Path) -> None:
    file = tmp_path / "processes"
    assert reasons(answers_of(faulty(fault, str(file)))) == [None] * 4
    # Two instances: the one that says who it is, and the one of the conversation; each has two children.
    assert len(started(file)) == 6
    assert [process for process in started(file) if lives(process)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt what left its group")
def test_no_process_of_a_host_outlives_a_killed_lab(tmp_path: Path) -> None:
    file = tmp_path / "processes"
    program = (
        "import os, signal, sys\n"
        "from lab.systems.external.session import ProcessChannel\n"
        "channel = ProcessChannel(sys.argv[1:], os.environ)\n"
        'line = b\'{"id":1,"op":"remember","memories":[]}\\n\'\n'
        "print(channel.ask(line, 20, 'remember').decode(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    words = [sys.executable, "-c", program, sys.executable, str(FAULTY), "forks", str(file)]
    ended = subprocess.run(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (ended.returncode, json.loads(ended.stdout)["ok"]) == (-signal.SIGKILL, True)
    assert len(started(file)) == 3
    require_ended(started(file))


def test_host_receives_its_home_and_no_other_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-hosts")
    monkeypatch.setenv("HOST_KEY", "for-this-host")
    monkeypatch.setenv("TZ", "UTC")
    env = environment(tmp_path, ["HOST_KEY"], os.environ)
    assert {env[name] for name in ("HOME", "TMPDIR", "TMP", "TEMP")} == {str(tmp_path)}
    assert (env["HOST_KEY"], env["TZ"], env["PYTHONHASHSEED"], env["DO_NOT_TRACK"]) == (
        "for-this-host",
        "UTC",
        "0",
        "1",
    )
    assert "OPENAI_API_KEY" not in env
    program = "import json, os; print(json.dumps(sorted(os.environ) + os.listdir('/proc/self/fd')))"
    with open(tmp_path / "secret", "w", encoding="utf-8") as secret:
        os.set_inheritable(secret.fileno(), True)
        channel = ProcessChannel([sys.executable, "-c", program], env)
        told = json.loads(channel.ask(b"{}\n", 20, "hello"))
        channel.close(5)
    # LC_CTYPE is set by Python itself where no locale is.
    names = {name for name in told if not name.isdecimal()} - {"LC_CTYPE"}
    assert names == {*env} - {"LC_CTYPE"}
    # Besides the standard ones there is the one that lists them.
    assert sorted(name for name in told if name.isdecimal()) == ["0", "1", "2", "3"]


def test_large_request_is_sent_while_the_host_writes(tmp_path: Path) -> None:
    program = (
        "import sys; sys.stdout.write('x' * 3_000_000 + chr(10)); sys.stdout.flush(); print(len(sys.stdin.readline()))"
    )
    channel = ProcessChannel([sys.executable, "-c", program], environment(tmp_path, (), os.environ))
    line = b"y" * 5_000_000 + b"\n"
    assert len(channel.ask(line, 30, "remember")) == 3_000_000
    assert channel.ask(b"", 30, "remember") == b"5000001"
    channel.close(5)


def test_stderr_is_kept_apart_and_bounded(tmp_path: Path) -> None:
    program = "import sys; sys.stderr.write('a' * 300_000 + 'the end'); sys.stderr.flush(); print('answer')"
    channel = ProcessChannel([sys.executable, "-c", program], environment(tmp_path, (), os.environ))
    assert channel.ask(b"{}\n", 30, "hello") == b"answer"
    channel.close(5)
    assert len(channel.errors()) == 64_000
    assert channel.errors().endswith("the end")


def test_host_that_ends_early_is_dead_for_later_requests(tmp_path: Path) -> None:
    channel = ProcessChannel([sys.executable, "-c", "print('one')"], environment(tmp_path, (), os.environ))
    assert channel.ask(b"{}\n", 20, "hello") == b"one"
    with pytest.raises(HostFailed, match="died") as caught:
        channel.ask(b"x" * 1_000_000 + b"\n", 20, "recall")
    assert str(caught.value) == "died in recall at exit 0"
    channel.close(5)
