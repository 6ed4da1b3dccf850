"""Generate and audit a log of a gigabyte: lines per second and peak memory of the audit.

python tests/trials/big_log.py --megabytes 1000 FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Final, LaneHit, lifecycle_receipt
from lab.systems.openclaw.select.outcome import Quota, TierCount

OTHERS = 5
LABELS = ("must_remember", "nice_to_have", "unknown")
TIERS = ("must", "nice", "unknown")


def main() -> None:
    """Write the log, audit it in its own process, and print time and memory."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--megabytes", type=int, default=1000)
    given = asked.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    log = given.folder / "gateway.log"
    lines, receipts = write_log(log, given.megabytes * 1_000_000)
    command = [sys.executable, "-m", "lab", "canary", "audit", str(log), "--json"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = json.loads(process.stdout.read())
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    assert (status, found["lines"], found["recalls"]["receipts"]) == (0, lines, receipts), found["damage"]
    size = log.stat().st_size
    print(f"{size / 1e6:.0f} MB, {lines} lines, {receipts} receipts, {seconds:.1f} s wall, {used.ru_utime:.1f} s user")
    print(f"{lines / seconds:.0f} lines/s, {receipts / seconds:.0f} receipts/s, {size / seconds / 1e6:.0f} MB/s")
    print(f"{used.ru_maxrss / 1024:.0f} MB of memory at most; load {os.getloadavg()[0]:.1f}")


def write_log(path: Path, size: int) -> tuple[int, int]:
    """Write a log of at least ``size`` bytes; return its lines and the receipts among them."""
    made = _lines()
    written = lines = receipts = 0
    with path.open("wb") as file:
        while written < size:
            for line in next(made):
                written += file.write(line)
                lines += 1
            receipts += 1
    return lines, receipts


def _lines() -> Iterator[list[bytes]]:
    """Return a receipt with time and session between unrelated lines; every third is wrapped in JSON."""
    draw = random.Random(7)
    pool = [f"{draw.getrandbits(128):032x}" for _ in range(600)]
    number = 0
    while True:
        chosen = [draw.choice(pool[tier * 200 : tier * 200 + 200]) for tier in (0, 1, 2)]
        chosen += draw.sample([one for one in pool[:60] if one not in chosen], 1)
        tiers = [0, 1, 2, 0]
        receipt = lifecycle_receipt(
            ReceiptSettings(True, "high", 6),
            scope=f"project-{number % 7}",
            scope_mode="inferred",
            mode="tier_quota_v1",
            rejected=["budget_cap"],
            quota=Quota(1, 1, 1, 1),
            tier_counts=[TierCount(TIERS[tier], (LABELS[tier],), 8, tiers.count(tier)) for tier in range(3)],
            fts=[LaneHit(one, draw.random(), 0.0) for one in draw.sample(pool, 6)],
            vec=[LaneHit(one, draw.random(), 1.0) for one in chosen],
            final=[Final(one, LABELS[tier], f"project-{number % 7}") for one, tier in zip(chosen, tiers, strict=True)],
            injected=4,
        )
        seconds, session = number % 86400, f"s{number % 500}"
        text = f"openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt, separators=(',', ':'))}"
        at = (
            f"2026-03-{1 + number // 86400 % 28:02}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000Z"
        )
        whole = (
            json.dumps({"time": at, "session": session, "msg": text}) if number % 3 == 0 else f"{at} {session} {text}"
        )
        others = [f"{at} [http] GET /v1/chat 200 {draw.getrandbits(64):x}\n".encode() for _ in range(OTHERS)]
        yield [f"{whole}\n".encode(), *others]
        number += 1


if __name__ == "__main__":
    main()
