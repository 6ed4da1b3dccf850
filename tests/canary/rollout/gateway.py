"""A gateway as a canary sees it: a process that reads openclaw.json when it starts, and logs a receipt for each recall.

    python gateway.py HOME

It ends with 1 for a configuration that is no JSON5, or that names a slot in ``HOME/broken``. ``HOME/running.json`` says
what it runs with. Receipts are the lines of ``HOME/receipts-POLICY.txt`` of its policy, over and over, each of another
session; while ``HOME/hours`` exists, without a session and half an hour apart by their times. While ``HOME/failing``
exists, every recall fails; while ``HOME/silent`` exists, there is none.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import json5

ENTRY = "openclaw-mem-engine"
PAUSE = 0.01


def main(home: Path) -> None:
    """Run until killed."""
    config = json5.loads((home / "openclaw.json").read_text("utf-8"))
    plugins = config["plugins"]
    slot = plugins.get("slots", {}).get("memory", "memory-core")
    recall = plugins.get("entries", {}).get(ENTRY, {}).get("config", {}).get("autoRecall", {})
    mode = recall.get("selectionMode", "tier_first_v1")
    broken = home / "broken"
    if broken.exists() and slot in broken.read_text("utf-8").split():
        sys.exit(f"plugin {slot} cannot be loaded")
    part = home / f"running.{os.getpid()}"
    part.write_text(json.dumps({"slot": slot, "mode": mode, "pid": os.getpid()}), "utf-8")
    part.replace(home / "running.json")
    lines = (home / f"receipts-{mode}.txt").read_text("utf-8").splitlines()
    number = 0
    with (home / "gateway.log").open("a", encoding="utf-8", buffering=1) as log:
        log.write(f"gateway ready, memory slot {slot}\n")
        while (home / "openclaw.json").parent.exists():
            if slot == ENTRY and (home / "failing").exists():
                log.write(f"{ENTRY}: autoRecall failed: no store\n")
            elif slot == ENTRY and lines and not (home / "silent").exists():
                receipt = lines[number % len(lines)]
                # Real milliseconds: logs of two processes that begin alike are taken for copies of one.
                hours = (home / "hours").exists()
                time_said = datetime.now(UTC) + timedelta(minutes=31 * number if hours else 0)
                moment = time_said.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                session = "" if hours else f"session={os.getpid()}-{number} "
                log.write(f"{moment} [plugins] {session}{ENTRY}:autoRecall.receipt {receipt}\n")
                number += 1
            time.sleep(PAUSE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
