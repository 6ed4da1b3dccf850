"""Kill ``lab memory observe`` at random times, and check that no observation is lost or doubled.

    python tests/trials/observe_kills.py --kills 100 [--turns 4000] [--seed N]

The recording grows in steps, as that of a live agent does. At each step the process group of the command is killed at a
random time after its first write, three times at most, before it may end by itself. After each kill, the complete part
of each log, up to its last mark, must be one that an unbroken run had; at the end the logs must be those of an unbroken
run, byte for byte.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
from pathlib import Path

from lab.base.files import sha256_bytes
from lab.base.formatting import counted
from lab.recordings.readers import read_library
from lab.systems.baselines.long_context import ROLES
from lab.systems.observations.log import lines_of
from lab.systems.observations.log_file import MARK, entries_of
from lab.systems.observations.observer import observe
from lab.systems.observations.window import Sizes, Window
from tests.trials.kills import arguments, kills_of, run_after_write

WORDS = ("basil", "choir", "gateway", "decided", "never", "prefer", "thanks", "must", "by 2027-01-31", "決定", "fixed")
CONVERSATIONS, STEPS, TOKENS, BUFFER = 2, 3, 8000, 0.05
# A step is killed so often at most.
KILLS_A_STEP = 3


def write(folder: Path, turns: int) -> Path:
    """Write conversations of so many turns; fewer turns are the start of more."""
    folder.mkdir()
    for name in (f"c{number}" for number in range(CONVERSATIONS)):
        draw = random.Random(name)
        lines: list[dict[str, object]] = [
            {"kind": "recording", "schema": "lab.recording.v1", "conversation": name},
            {"kind": "session", "session": "s", "time": "2026-11-02T10:00:00Z"},
        ]
        for number in range(turns):
            text = f"{number}. " + " ".join(draw.choices(WORDS, k=draw.randint(1, 30)))
            lines.append({"kind": "turn", "turn": f"t{number}", "role": draw.choice(ROLES), "text": text})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def words(recording: Path, out: Path) -> list[str]:
    """Return the command."""
    options = ["--format", "lab", "--out", str(out), "--tokens", str(TOKENS), "--buffer", str(BUFFER)]
    return ["memory", "observe", str(recording), *options]


def states(recording: Path) -> dict[str, dict[int, str]]:
    """Return the lines of each log after each run of the observer, by the number of entries read, if none is killed."""
    found: dict[str, dict[int, str]] = {}
    for conversation in read_library(recording, "lab").recordings:
        window = Window(Sizes(TOKENS, int(TOKENS * BUFFER)), observe)
        after, count = {0: ""}, 0
        for entry in entries_of(conversation, ROLES):
            change = window.add(entry)
            if change.observed:
                count += len(change.observed)
                after[count] = sha256_bytes(lines_of(window.log).encode())
        found[conversation.conversation] = after
    return found


def check(out: Path, expected: dict[str, dict[int, str]]) -> int:
    """Exit unless each log, up to its last mark, is as an unbroken run had it; return how many entries were read."""
    total = 0
    for log in out.glob("*.log"):
        text = log.read_text()
        finished = text[: text.rfind("\n") + 1]
        begin = finished.rfind(f"\n{MARK}") + 1
        mark = finished[begin:].split("\n")[0]
        count = int(mark.removeprefix(MARK).split()[0])
        lines = "".join(f"{line}\n" for line in finished[:begin].splitlines() if not line.startswith("#"))
        if (sha256_bytes(lines.encode()) if count else lines) != expected[log.stem][count]:
            sys.exit(f"{log.stem}: after {count} turns, the log is not that of an unbroken run")
        total += count
    return total


def main() -> None:
    """Kill, count, and print."""
    options = arguments(__doc__, turns=4000)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="observe-kills-") as name:
        home = Path(name)
        sources = [write(home / f"in{step}", options.turns * step // STEPS) for step in range(1, STEPS + 1)]
        expected = states(sources[-1])
        unbroken = home / "unbroken"
        seconds = [run_after_write(words(source, unbroken), unbroken, math.inf)[1] for source in sources]
        end = {log.name: log.read_bytes() for log in unbroken.glob("*.log")}
        read = check(unbroken, expected)
        kills = rounds = midway = 0
        while kills < options.kills:
            rounds += 1
            out = home / f"out{rounds}"
            commands = [words(source, out) for source in sources]
            for _ in kills_of(commands, seconds, out, draw, options.kills - kills, tries=KILLS_A_STEP):
                kills += 1
                midway += 0 < check(out, expected) < read
            if {log.name: log.read_bytes() for log in out.glob("*.log")} != end:
                sys.exit(f"round {rounds}: the logs are not those of an unbroken run")
        print(
            f"{counted(kills, 'kill')} after a first write, {midway} of them with a log begun and not complete, in "
            f"{counted(rounds, 'round')} of {read} observed turns: nothing lost or doubled, every end is "
            "that of an unbroken run"
        )


if __name__ == "__main__":
    main()
