"""The half of a self-test that runs faulty code: a process of its own, which replays and says how it ended.

``python -m lab.gate.selftest.child PLAN`` reads from PLAN what to replay and where to, and replays it with whichever
lab stands first on the path: a copy with a fault in it.
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

# Bytes of memory that a fault may take, and no more.
MEMORY = 6 << 30
# Beside the plan: which files of the package were loaded.
LOADED = "loaded.json"


def main(plan: Path) -> int:
    """Replay what the plan names. 0: all of it; 1: something failed, and the last line of stderr says what."""
    asked = json.loads(plan.read_text("utf-8"))
    _limit(asked["seconds"])
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        from lab.processes import set_up

        set_up()
        # What is written here is looked at once and thrown away: it need not survive anything.
        os.fsync = _unflushed
        from lab.replay.plan import ReplayRequest
        from lab.replay.run import run_replay

        for one in asked["replays"]:
            outcome = run_replay(ReplayRequest.of_manifest(one["asked"]), Path(one["out"]), kept=False)
            if outcome.failures:
                # Words of an error may hold a text; its kind does not.
                return _failed(outcome.failures[0]["reason"].partition(":")[0])
        plan.with_name(LOADED).write_text(json.dumps(_loaded()), "utf-8")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return _failed(f"{type(error).__name__} in {Path(frames[-1].filename).name}, line {frames[-1].lineno}")
    return 0


def _end_with(parent: int) -> None:
    """End when the process that started us is gone: nobody would look at what we find."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _loaded() -> list[str]:
    import lab

    package = Path(lab.__file__).parent
    files = (Path(str(one.__file__)) for one in list(sys.modules.values()) if getattr(one, "__file__", None))
    return sorted(str(file.relative_to(package)) for file in files if file.is_relative_to(package))


def _unflushed(fd: Any) -> None:
    """In place of a flush to disk."""
    del fd


def _limit(seconds: int) -> None:
    """Bound what a fault may use up, should whoever started us be gone before it ends."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _failed(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
