"""Kill a command at random times, repeatedly, and check that nothing is lost.

    python tests/trials/kills.py --kills 100 [--seed N] -- lab replay PATH --format lab --arm hybrid --out OUT

Any command will do that makes a folder and goes on where it was. ``OUT`` in it stands for that folder. It is run once
unbroken. Then it is started in a folder of its own, and its whole group of processes killed at a random moment, until
it comes to its end by itself; then the next folder, until there were so many kills. Each begins with an empty cache.

After each kill, every file there must be one of the unbroken state, byte for byte, and none that was there may be gone.
At the end the state must be the unbroken one. Timings, their digests and the environment of a manifest are no part of
a state, and what an unfinished manifest says of its status and its files is not compared before the end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

State = dict[str, bytes]
# A command that is not killed gets this many seconds, which is more than it needs.
PATIENCE = 900


def start(command: list[str], out: Path, cache: Path) -> subprocess.Popen[bytes]:
    """Start the command in its own process group."""
    words = [str(out) if word == "OUT" else word for word in command]
    env = os.environ | {"LAB_CACHE_DIR": str(cache)}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=env)


def ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Return whether it ended within so many seconds; if not, kill it and its child processes."""
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False
    if process.returncode:
        sys.exit(f"{process.args!r} ended with {process.returncode}: {said.decode()}")
    return True


def signature(folder: Path) -> set[tuple[str, int, int]]:
    """Return name, size and time of every file in a folder. Temporary files may go while they are listed."""
    files = set()
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            files.add((str(path), status.st_size, status.st_mtime_ns))
    return files


def run_after_write(words: Sequence[str], folder: Path, delay: float) -> tuple[bool, float]:
    """Run ``lab`` with some words, and kill it ``delay`` seconds after it first writes in the folder.

    Return whether it ended by itself, and the seconds from its first write to its end.
    """
    before, wrote = signature(folder), None
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while process.poll() is None:
        if wrote is None and signature(folder) != before:
            wrote = time.monotonic()
        if wrote is not None and time.monotonic() - wrote >= delay:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False, delay
        time.sleep(0.001)
    _, errors = process.communicate()
    if process.returncode:
        sys.exit(f"lab {' '.join(words)} ended with {process.returncode}: {errors.decode()}")
    return True, time.monotonic() - (wrote or time.monotonic())


def kills_of(
    commands: Iterable[Sequence[str]],
    seconds: Iterable[float],
    folder: Path,
    draw: random.Random,
    most: int,
    tries: int = 2,
) -> Iterator[None]:
    """Run the commands of a round in turn; yield after each kill.

    Each is killed ``tries`` times at most, all of them ``most`` times, at a random time after its first write, within
    the ``seconds`` that it writes for. Then it may end by itself.
    """
    for words, unbroken in zip(commands, seconds, strict=True):
        for _ in range(tries):
            if most <= 0 or run_after_write(words, folder, draw.uniform(0, unbroken))[0]:
                break
            most -= 1
            yield
        run_after_write(words, folder, math.inf)


def arguments(about: str | None, **sizes: int) -> argparse.Namespace:
    """Return the arguments of a trial: ``kills``, ``seed``, and sizes with their defaults."""
    parser = argparse.ArgumentParser(usage=about)
    for name, default in {"kills": 20, **sizes, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def state(out: Path, *, whole: bool) -> State:
    """Return the relevant content of a folder."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.is_dir() or name.startswith("latency/"):
            continue
        # Removed at the end of a run: part files, and the digests that move into the manifest.
        if not whole and (path.suffix == ".part" or name.startswith("digests/")):
            continue
        data = path.read_bytes()
        if path.name == "manifest.json":
            manifest = json.loads(data)
            # It counts what it names, the digests of timings among it.
            for key in ("environment", "sha256"):
                manifest.pop(key, None)
            if isinstance(files := manifest.get("files"), dict):
                manifest["files"] = {key: one for key, one in files.items() if not key.startswith("latency/")}
            if not whole:
                for key in ("status", "files", "failed"):
                    manifest.pop(key, None)
            data = json.dumps(manifest).encode()
        found[name] = data
    return found


def compare(found: State, expected: State, *, before: State | None = None) -> None:
    """Exit with the problem."""
    for name, data in found.items():
        if expected.get(name) != data:
            sys.exit(f"{name}: is not what an unbroken run holds")
    for name in expected if before is None else before:
        if name not in found:
            sys.exit(f"{name}: is gone")


def main() -> None:
    """Kill, count, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        home = Path(folder)
        started = time.monotonic()
        ended(start(asked.command, home / "unbroken", home / "cache"), PATIENCE)
        seconds = time.monotonic() - started
        end, partly = (state(home / "unbroken", whole=whole) for whole in (True, False))
        kills = rounds = after_something = 0
        while kills < asked.kills:
            rounds += 1
            out, cache, before = home / f"run{rounds}", home / f"cache{rounds}", State()
            while True:
                # The last attempt is not killed.
                wait = draw.uniform(0.0, 0.8 * seconds) if kills < asked.kills else PATIENCE
                if ended(start(asked.command, out, cache), wait):
                    break
                kills += 1
                found = state(out, whole=False)
                compare(found, partly, before=before)
                after_something += bool(found)
                before = found
            compare(state(out, whole=True), end)
        print(
            f"{kills} kills in {rounds} runs, {after_something} of them with something there to lose; "
            f"nothing was lost, every end state is the unbroken one ({len(end)} files, {seconds:.1f} s unbroken)"
        )


if __name__ == "__main__":
    main()
