"""The child process of a self-test: it replays with faulty code and reports how that ended.

``python -m lab.gate.selftest.child PLAN`` replays what PLAN lists with the first ``lab`` on the path: a copy with a
fault.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

# Most memory that a fault may use, in bytes.
MEMORY = 6 << 30
# Written beside the plan: the files of the package that were loaded.
LOADED = "loaded.json"


def main(plan: Path) -> int:
    """Replay what the plan lists. Return 0 if all succeeded, else 1, with the reason in the last line of stderr."""
    task = json.loads(plan.read_text("utf-8"))
    _limit(task["seconds"])
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        from lab.base.processes import set_up

        set_up()
        # The runs are read once and deleted, so they need not survive a crash.
        os.fsync = _unflushed
        from lab.replay.run import run_replay
        from lab.runs.request import ReplayRequest

        for replay in task["replays"]:
            outcome = run_replay(ReplayRequest.of_manifest(replay["asked"]), Path(replay["out"]), use_cache=False)
            if outcome.failures:
                # An error message may contain a text of the recording; its type does not.
                return _failed(outcome.failures[0]["reason"].partition(":")[0])
        plan.with_name(LOADED).write_text(json.dumps(_loaded()), "utf-8")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return _failed(f"{type(error).__name__} in {Path(frames[-1].filename).name}, line {frames[-1].lineno}")
    return 0


def _end_with(parent: int) -> None:
    """Exit when the parent process is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _loaded() -> list[str]:
    import lab

    package = Path(lab.__file__).parent
    files = (Path(str(module.__file__)) for module in list(sys.modules.values()) if getattr(module, "__file__", None))
    return sorted(str(file.relative_to(package)) for file in files if file.is_relative_to(package))


def _unflushed(fd: Any) -> None:
    """Replace ``os.fsync`` and do nothing."""
    del fd


def _limit(seconds: int) -> None:
    """Limit CPU time and memory, in case the parent dies before this process ends."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _failed(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
