"""Kill checkouts of a table of memories at random moments, and check that the table is the old one or the new one.

    python tests/trials/store_kills.py --kills 100 [--seed N] [--seconds S] [--without-exchange]

Two tables, of 300 and 200 memories, have a tag each. A worker restores the one and the other in turns, and deletes all
but the last three backups, until it is killed with SIGKILL, at a moment drawn from the first S seconds. Then the table
must be one of the two, byte for byte, and the one that was restored last if nothing was under way; where the system
cannot exchange folders it may be absent, and is put back by the next checkout. No tag and no backup may be damaged, and
not one backup of a checkout that ended may be missing but those deleted. All the while another process looks for the
table, as a gateway that starts would. At the end one checkout is not killed: nothing temporary is left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

State = dict[str, bytes]
SIZES = {"many": 300, "few": 200}
KEPT = 3
READ = """
import signal, sys, time
from pathlib import Path
# A shell starts what it puts into the background with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
table = Path(sys.argv[1]) / "memories.lance" / "_versions"
absent = looks = 0
print("ready", flush=True)
try:
    while True:
        looks += 1
        absent += not table.exists()
        time.sleep(0.001)
except KeyboardInterrupt:
    print(absent, looks)
"""


def make(folder: Path, count: int) -> None:
    """Write a table with so many memories."""
    from lab.memory.table.lance_table import LanceTable
    from lab.retrieval.contract import Row
    from lab.systems.openclaw.table.schema import Entry

    rows = [Row(f"{n:08d}", f"{n:08d}", f"memory {n}", f"memory {n}", 1 + n, scope="global") for n in range(count)]
    with LanceTable(folder, create=64) as table:
        for start in range(0, count, 20):
            table.add([Entry(row, [1.0] + [0.0] * 63, "tool", "trial", "en") for row in rows[start : start + 20]])


def work(folder: Path, root: Path, tag: str, *, exchange: bool, once: bool) -> None:
    """Restore the two tags in turns, beginning with ``tag``, and print what begins and ends."""
    from lab.memory.store import checkout
    from lab.memory.store.checkout import check_out
    from lab.memory.store.tags import BACKUPS, delete_tag, list_tags
    from lab.retrieval.quiet import import_lancedb

    import_lancedb()
    if not exchange:
        checkout.exchange = lambda *_: False  # type: ignore[assignment]  # a system that cannot exchange folders
    print("ready", flush=True)
    while True:
        print(f"try {tag}", flush=True)
        done = check_out(folder, root / tag, root, now=datetime.now(UTC), write=True)
        print(f"ok {tag} {done.backup or '-'}", flush=True)
        if once:
            return
        for backup in list_tags(root, backups=True)[KEPT:]:
            print(f"delete {backup.tag}", flush=True)
            delete_tag(root / BACKUPS / backup.tag, None)
        tag = next(other for other in SIZES if other != tag)


def state(folder: Path) -> State:
    """Return the files of the table."""
    paths = [path for path in (folder / "memories.lance").rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def start(words: list[str], out: Path) -> subprocess.Popen[bytes]:
    """Start a process that prints to a file, and return when it is ready."""
    with out.open("wb") as file, out.with_suffix(".err").open("wb") as errors:
        process = subprocess.Popen([sys.executable, *words], stdout=file, stderr=errors)
    while not out.stat().st_size:
        if process.poll() is not None:
            sys.exit(f"a worker did not start: {out.with_suffix('.err').read_text()}")
        time.sleep(0.01)
    return process


class Trial:
    """Two tagged tables, a folder, and what is known of its state."""

    def __init__(self, home: Path, *, exchange: bool) -> None:
        from lab.memory.store.tags import create_tag

        self.home, self.folder, self.root, self.exchange = home, home / "lancedb", home / "tags", exchange
        self.tables: dict[str, State] = {}
        for tag, count in SIZES.items():
            make(home / tag, count)
            create_tag(home / tag, tag, self.root, now=datetime.now(UTC))
            self.tables[tag] = state(home / tag)
        self.counts, self.present, self.backups = Counter[str](), "few", set[str]()

    def run(self, *, kill_after: float | None) -> None:
        """Run a worker, killed or once to its end, and check what it leaves."""
        tag = next(other for other in SIZES if other != self.present)
        words = [__file__, "--worker", str(self.folder), str(self.root), tag]
        words += [] if self.exchange else ["--without-exchange"]
        out = self.home / "out.txt"
        process = start([*words, *(["--once"] if kill_after is None else [])], out)
        if kill_after is not None:
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        if process.wait(900) != (0 if kill_after is None else -signal.SIGKILL):
            sys.exit(f"a worker ended with {process.returncode}: {out.with_suffix('.err').read_text()}")
        data = out.read_text()
        self.check([line.split() for line in data[: data.rfind("\n")].splitlines()[1:]])

    def check(self, said: list[list[str]]) -> None:
        """Compare the folder with what a worker said; exit with the difference."""
        from lab.memory.store.tags import list_tags

        before, gone = self.present, set[str]()
        for word, name, *more in said:
            if word == "ok":
                before = name
                self.backups |= {*more} - {"-"}
                self.counts["checkouts that ended"] += 1
            elif word == "delete":
                gone.add(name)
        under_way = said[-1] if said else ["nothing"]
        found = state(self.folder)
        present = next((name for name, table in self.tables.items() if table == found), "")
        if not present and (found or self.exchange) and self.counts["checkouts that ended"]:
            sys.exit("the table is neither the old one nor the new one")
        if present and present != before and under_way != ["try", present]:
            sys.exit(f"the table is {present}, after {said}")
        if present:
            self.present = present
        left = any(self.folder.glob(".checkout.*"))
        self.counts[f"ended during {'a checkout' if under_way[0] == 'try' else under_way[0]}"] += 1
        self.counts["ended with something temporary there"] += left
        if under_way[0] == "try":
            table = "no" if not present else "the new" if present != before else "the old"
            self.counts[f"ended during a checkout, {table} table there"] += 1
        lists = list_tags(self.root, check=True), list_tags(self.root, backups=True, check=True)
        if wrong := [one.problem for part in lists for one in part if one.manifest is None]:
            sys.exit(wrong[0])
        names = {one.tag for one in lists[1]}
        if lost := self.backups - names - gone:
            sys.exit(f"a backup is gone: {lost}")
        self.backups = names


def main() -> None:
    """Kill, check, and print counts."""
    from lab.memory.store.tags import BACKUPS

    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--without-exchange", action="store_true")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--worker", nargs=3, metavar=("FOLDER", "ROOT", "TAG"))
    given = parser.parse_args()
    exchange = not given.without_exchange
    if given.worker:
        folder, root, tag = given.worker
        work(Path(folder), Path(root), tag, exchange=exchange, once=given.once)
        return
    draw, started = random.Random(given.seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="store-kills-") as home:
        trial = Trial(Path(home), exchange=exchange)
        trial.run(kill_after=None)
        reader = start(["-c", READ, str(trial.folder)], Path(home) / "reader.txt")
        for _ in range(given.kills):
            trial.run(kill_after=draw.uniform(0.0, given.seconds))
        trial.run(kill_after=None)
        reader.send_signal(signal.SIGINT)
        reader.wait()
        absent, looks = map(int, (Path(home) / "reader.txt").read_text().split()[1:])
        if absent and exchange:
            sys.exit(f"another process found no table {absent} times of {looks}")
        for place, pattern in ((trial.folder, ".checkout*"), (trial.root, ".*"), (trial.root / BACKUPS, ".*")):
            if left := [path.name for path in place.glob(pattern)]:
                sys.exit(f"{place}: {left} is left")
    print(
        f"{given.kills} kills in {time.monotonic() - started:.0f} s (load {os.getloadavg()[0]:.1f}): "
        "every table was the old one or the new one, byte for byte, and no backup was lost or damaged"
    )
    print(f"  looks of another process: {looks}, without a table: {absent}")
    for name, count in sorted(trial.counts.items()):
        print(f"  {name}: {count}")


if __name__ == "__main__":
    main()
