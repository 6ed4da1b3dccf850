"""Peers of the lab for its tests: the public sidecar, and a model provider like that of the recorded gateways."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def provider(shared: Callable[..., Path]) -> Iterator[str]:
    """Return the base URL of a loopback provider like the gateway's."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node here, which the gateway's provider runs on")
    script = shared("live", "tools", "stub_provider.mjs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([node, str(script), str(port)], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until, "the provider does not start"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def sidecar_process(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The public sidecar's command, which ``LAB_SIDECAR`` names, with a home of its own: the ended process."""
    program = os.environ.get("LAB_SIDECAR")
    if not program:
        pytest.skip("no sidecar: nox -s peers installs openclaw-context-pack, whose command LAB_SIDECAR names")
    env = {"HOME": str(tmp_path_factory.mktemp("home")), "PATH": os.environ["PATH"], "OPENAI_API_KEY": "none"}

    def run(*words: object) -> Any:
        command = [program, "--json", *map(str, words)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def sidecar_answer(sidecar_process: Any) -> Any:
    """The public sidecar's command: its exit code and JSON."""

    def run(*words: object) -> Any:
        done = sidecar_process(*words)
        return done.returncode, json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def sidecar(sidecar_process: Any) -> Any:
    """The public sidecar's command, which must succeed: its JSON."""

    def run(*words: object) -> Any:
        done = sidecar_process(*words)
        done.check_returncode()
        return json.loads(done.stdout)

    return run
