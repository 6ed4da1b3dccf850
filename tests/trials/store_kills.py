"""Kill checkouts of a table of memories at random moments, and check that the table is the old one or the new one.

    python tests/trials/store_kills.py --kills 100 [--seed N] [--without-exchange]

Two tables, of 300 and 200 memories, have a tag each. A checkout of the one that is not there runs in a process
of its own and is killed with SIGKILL; then the table must be one of the two, byte for byte, or, where the system cannot
exchange folders, absent and put back by the next checkout. All the while another process looks for the table, as a
gateway that starts would. Every tenth checkout, and the last, is not killed: then the new table is there byte for byte,
nothing temporary is left, and no backup that was complete is gone or damaged.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

State = dict[str, bytes]
SIZES = {"many": 300, "few": 200}
READ = """
import sys
from pathlib import Path
table = Path(sys.argv[1]) / "memories.lance" / "_versions"
absent = looks = 0
print("ready", flush=True)
try:
    while True:
        looks += 1
        absent += not table.exists()
except KeyboardInterrupt:
    print(absent, looks)
"""


def make(folder: Path, count: int) -> None:
    """Write a table with so many memories."""
    from lab.retrieval.row import Row
    from lab.systems.openclaw.tools.lance_table import LanceTable
    from lab.systems.openclaw.tools.table import Entry

    rows = [Row(f"{n:08d}", f"{n:08d}", f"memory {n}", f"memory {n}", 1 + n, scope="global") for n in range(count)]
    with LanceTable(folder, create=64) as table:
        for start in range(0, count, 20):
            table.add([Entry(row, [1.0] + [0.0] * 63, "tool", "trial", "en") for row in rows[start : start + 20]])


def work(folder: Path, root: Path, tag: str, *, exchange: bool) -> None:
    """Restore a tag."""
    from lab.retrieval.quiet import import_lancedb
    from lab.systems.openclaw.store import swap
    from lab.systems.openclaw.store.checkout import check_out

    import_lancedb()
    if not exchange:
        swap.exchange = lambda *_: False  # type: ignore[assignment]
    print("ready", flush=True)
    check_out(folder, root / tag, root, now=datetime.now(UTC), write=True)
    print("done", flush=True)


def state(folder: Path) -> State:
    """Return the files of the table."""
    paths = [path for path in (folder / "memories.lance").rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """Start a process, and return when it is ready."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        sys.exit(f"a worker did not start: {process.communicate()[1].decode()}")
    return process


def main() -> None:
    """Kill, check, and print counts."""
    from lab.systems.openclaw.store.manifest import BACKUPS
    from lab.systems.openclaw.store.tags import create_tag, list_tags

    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-exchange", action="store_true")
    parser.add_argument("--worker", nargs=3, metavar=("FOLDER", "ROOT", "TAG"))
    given = parser.parse_args()
    if given.worker:
        folder, root, tag = given.worker
        work(Path(folder), Path(root), tag, exchange=not given.without_exchange)
        return
    draw, counts = random.Random(given.seed), Counter[str]()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="store-kills-") as home:
        folder, root = Path(home) / "lancedb", Path(home) / "tags"
        tables: dict[str, State] = {}
        for tag, count in SIZES.items():
            make(Path(home) / tag, count)
            create_tag(Path(home) / tag, tag, root, now=datetime.now(UTC))
            tables[tag] = state(Path(home) / tag)
        words = [__file__, *(["--without-exchange"] if given.without_exchange else [])]
        seconds, tag, kills, tries, before = 0.0, "few", 0, 0, 0
        reader: subprocess.Popen[bytes] | None = None
        whole = True
        while kills < given.kills or not whole:
            # The first two make the table, and tell how long a checkout takes.
            whole = tries < 2 or tries % 10 == 0 or kills >= given.kills
            tries += 1
            tag = "few" if state(folder) == tables["many"] else "many"
            process = start([*words, "--worker", str(folder), str(root), tag])
            begun = time.monotonic()
            killer = threading.Timer(
                900 if whole else draw.uniform(0.0, seconds), process.send_signal, (signal.SIGKILL,)
            )
            killer.start()
            assert process.stdout is not None
            process.stdout.readline()
            # A process takes its time to end.
            took = time.monotonic() - begun
            _, errors = process.communicate()
            killer.cancel()
            if process.returncode == -signal.SIGKILL:
                kills += 1
                found = state(folder)
                names = [name for name, table in tables.items() if table == found]
                if not names and not (given.without_exchange and not found):
                    sys.exit(f"after kill {kills} the table is neither the old one nor the new one")
                counts[f"killed with the {('new' if names[0] == tag else 'old') if names else 'no'} table there"] += 1
                counts["killed with something temporary there"] += any(folder.glob(".checkout.*"))
                continue
            if process.returncode:
                sys.exit(f"a checkout ended with {process.returncode}: {errors.decode()}")
            seconds = took
            if state(folder) != tables[tag]:
                sys.exit(f"checkout {tries}: the table is not the one that was restored")
            if left := [path.name for path in folder.iterdir() if path.name.startswith(".checkout")]:
                sys.exit(f"checkout {tries}: {left} is left")
            if left := [path.name for path in (root / BACKUPS).glob(".*")]:
                sys.exit(f"checkout {tries}: {left} is left among the backups")
            backups = list_tags(root, backups=True, check=True)
            if wrong := [backup.problem for backup in backups if backup.manifest is None]:
                sys.exit(f"checkout {tries}: {wrong[0]}")
            if len(backups) < before:
                sys.exit(f"checkout {tries}: a backup is gone")
            before = len(backups)
            if reader is None and not given.without_exchange:
                reader = start(["-c", READ, str(folder)])
        if reader is not None:
            reader.send_signal(signal.SIGINT)
            absent, looks = map(int, reader.communicate()[0].split())
            if absent:
                sys.exit(f"a reader found no table {absent} times of {looks}")
            counts["looks of another process, each of which found a table"] = looks
        counts["backups, all undamaged"] = len(list((root / BACKUPS).glob("*/manifest.json")))
    print(
        f"{kills} kills in {tries} checkouts and {time.monotonic() - started:.0f} s "
        f"(load {os.getloadavg()[0]:.1f}, a checkout takes {seconds:.2f} s): "
        "every table was the old one or the new one, byte for byte"
    )
    for name, count in sorted(counts.items()):
        print(f"  {name}: {count}")


if __name__ == "__main__":
    main()
