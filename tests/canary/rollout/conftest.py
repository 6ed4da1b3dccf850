"""A gateway as a process of its own, with its configuration, its log and its restart command."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.canary.rollout import commands, follow, watching
from lab.canary.rollout.commands import run_command
from lab.canary.rollout.journal import State
from tests.canary.conftest import receipt_of

HERE = Path(__file__).parent
ENTRY = "openclaw-mem-engine"
# JSON5 with what a parser would lose: comments, quotes of both kinds, unquoted keys, numbers as spelt, order, trailing
# commas, blanks at ends of lines, no newline at the end of the file.
CONFIG = """// The gateway of the shop.
{
  gateway: { mode: 'local', port: 0x4967, auth: { token: "s3cret-token" } },   
  "plugins": {
    "load": {"paths": ["~/plugins/openclaw-mem-engine",],},
    'slots': { /* who owns memory */ memory: 'memory-lancedb' }, // Stage A
    entries: {
      'openclaw-mem-engine': {
        enabled: true, hooks: {allowConversationAccess: true},
        config: { embedding: {apiKey: 'sk-key', model: 'text-embedding-3-small'},
          autoRecall: {maxItems: 4.0, }, },
      },
    },
  },
  logging: { file: '~/.openclaw/gateway.log' },
}"""  # noqa: W291 - blanks at the end of a line must stay
POLICY = """name = "small"
about = "The engine answers."
rollback = "set plugins.slots.memory back"
minimum_receipts = 20

[[receipts]]
measure = "errors.rate"
of = "errors.attempts"
at_most = 0.3

[[receipts]]
measure = "limits.items_most"
at_most = MOST
"""


@dataclass
class Gateway:
    """A home with a gateway that runs."""

    home: Path

    @property
    def config(self) -> Path:
        return self.home / "openclaw.json"

    @property
    def restart(self) -> str:
        return shlex.join([str(HERE / "restart.sh"), str(self.home), sys.executable, str(HERE)])

    @property
    def state(self) -> State:
        return State(self.config)

    def running(self) -> dict[str, Any]:
        """What the gateway that runs was started with; empty if none runs."""
        try:
            value: dict[str, Any] = json.loads((self.home / "running.json").read_text("utf-8"))
            os.kill(value["pid"], 0)
        except (OSError, ValueError):
            return {}
        return value

    def start(self) -> None:
        ended = run_command(self.restart, 30)
        assert ended.code == 0, ended

    def stop(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.home / "pid").read_text("ascii")), signal.SIGKILL)

    def policy(self, most: int = 6) -> Path:
        file = self.home / f"policy{most}.toml"
        file.write_text(POLICY.replace("MOST", str(most)), "utf-8")
        return file

    def words(self, *more: str | Path, most: int = 6) -> list[str]:
        """Return the words of a canary of the slot that ends after 25 recalls."""
        shown = ["--slot", ENTRY, "--restart", self.restart, "--recalls", "25", "--for", "30s", "--timeout", "20s"]
        return ["canary", "run", str(self.config), *shown, "--policy", str(self.policy(most)), *map(str, more)]


@contextlib.contextmanager
def made_gateway(folder: Path, config: str = CONFIG) -> Iterator[Gateway]:
    """Make a gateway under a configuration in a folder and start it; kill it at the end."""
    home = folder / ".openclaw"
    home.mkdir(mode=0o755)
    gateway = Gateway(home)
    gateway.config.write_bytes(config.encode())
    gateway.config.chmod(0o600)
    for mode, quota in (("tier_first_v1", None), ("tier_quota_v1", (2, 2, 1))):
        lines = [receipt_of([f"m{n}", f"n{n}", f"u{n}"], quota=quota) for n in range(40)]
        (home / f"receipts-{mode}.txt").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


@pytest.fixture(scope="session", autouse=True)
def _no_signal_is_ignored() -> None:
    """Let the processes of the tests receive the signals that nohup, or a shell in the background, has ignored."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def look_often(change: Callable[[object, str, float], None] = setattr) -> None:
    """Let who waits for a gateway, in this process or in a copy of it, look fifty times a second."""
    for module in (commands, follow, watching):
        change(module, "PAUSE", 0.02)


@pytest.fixture
def make_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Gateway]]:
    """Make a gateway and start it."""
    look_often(monkeypatch.setattr)
    with contextlib.ExitStack() as stack:
        yield lambda config=CONFIG: stack.enter_context(made_gateway(tmp_path, config))
