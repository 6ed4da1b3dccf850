"""How time and memory grow with the input: ``python tests/benchmarks/growth.py --out FILE [--chart FOLDER]``.

Each command runs in a process of its own over inputs of several sizes: conversations of about 85 turns, resampled from
the shipped recordings with a third of their words replaced, and logs, spools and claims of as many lines; at last one
conversation with many memories. Texts are embedded with ``hashing``, so that the lab's own work is measured.

Processor time and the largest resident memory of the process and its children are kept. The exponent is the slope of
log(cost - base) over log(size - size of the base), by least squares, where the base is the smallest size: what a
command takes of any input is left out, and a cost in proportion to the size has exactly the exponent 1. A size at
which a cost is not yet half as much again as the base says nothing of growth, and is left out as well; with fewer than
two sizes left, the cost counts as flat. Nothing fails on a time. FILE has every measurement, and a later call adds to
it, or replaces those of the same command and size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.files import dump_json, write_atomically

PROJECT = Path(__file__).resolve().parents[2]
TURNS, MEMORIES = (100, 1_000, 10_000, 100_000), (1_000, 10_000, 100_000, 1_000_000)
ARMS = ("--arm", "tier_first_v1", "--arm", "tier_quota_v1", "--arm", "hybrid", "--embedder", "hashing")
# One in so many words is replaced by another of the shipped recordings.
EVERY = 3
# A Chinese sign, a word, or what is between words.
PIECES = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|\W+|.")
# Cost over the base from which a size counts.
GROWN = 1.5
SPOOL = "openclaw-mem.episodes.spool.v0"


class Cost(NamedTuple):
    """Processor seconds, and the largest resident memory of one process in MB."""

    seconds: float
    megabytes: float


class Desk:
    """The inputs of one size in a folder, and the commands that run over them."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size
        self.run = folder / "run"

    def lab(self, *words: str | Path) -> Cost:
        """Run a command of the lab; raise :class:`CannotMeasure` if it fails."""
        started = self._start(*words)
        return self._ended(started, " ".join(map(str, words[:3])), (0, 1, 3))

    def view(self) -> Cost:
        """Start the viewer, read its first page and the first three that this one links to, and end it."""
        server = self._start("view", self.run, "--port", "0")
        address = next(iter(re.findall(r"http://[\w.:]+/?", self._waited(lambda: self._said("out"), "http://"))))
        page = urllib.request.urlopen(address, timeout=600).read().decode()
        for link in list(dict.fromkeys(re.findall(r'href="(/?[\w][^"#:]*)"', page)))[:3]:
            urllib.request.urlopen(f"{address.rstrip('/')}/{link.lstrip('/')}", timeout=600).read()
        server.send_signal(signal.SIGINT)
        return self._ended(server, "view", (0, 130, -signal.SIGINT))

    def _start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        known = os.environ | {"PYTHONPATH": str(PROJECT), "LAB_CACHE_DIR": str(self.folder / "cache")}
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen([sys.executable, "-m", "lab", *words], stdout=out, stderr=err, env=known)

    def _ended(self, process: subprocess.Popen[bytes], what: str, codes: Sequence[int]) -> Cost:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            raise CannotMeasure(f"{what} of {self.size}: exit code {process.returncode}: {self._said('err')[-300:]}")
        return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def _said(self, name: str) -> str:
        return (self.folder / name).read_text("utf-8", "replace")

    def _waited(self, read: Callable[[], str], expected: str) -> str:
        for _ in range(6_000):
            if expected in (text := read()):
                return text
            time.sleep(0.1)
        raise CannotMeasure(f"view of {self.size}: {expected!r} was not printed within ten minutes")


def written(path: Path, lines: Iterable[str | dict[str, Any]]) -> Path:
    """Write lines, those that are objects as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(f"{line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)}\n")
    return path


class Shipped:
    """The shipped recordings and judgements as texts of lines, and texts like theirs."""

    def __init__(self) -> None:
        paths = sorted((PROJECT / "datasets" / "operators").glob("*.jsonl"))
        self.conversations = {path.stem: path.read_text("utf-8").splitlines() for path in paths}
        texts = [json.loads(line).get("text", "") for lines in self.conversations.values() for line in lines]
        pieces = [piece for text in texts for piece in PIECES.findall(text) if piece.isalnum()]
        self._signs = [piece for piece in pieces if piece >= "\u3400"]
        self._words = [piece for piece in pieces if piece < "\u3400"]
        self.texts = [text for text in texts if text]

    def like(self, text: str, draw: random.Random) -> str:
        """Return a text with one in :data:`EVERY` words, or Chinese signs, replaced."""
        return "".join(
            draw.choice(self._signs if piece >= "\u3400" else self._words)
            if piece.isalnum() and draw.randrange(EVERY) == 0
            else piece
            for piece in PIECES.findall(text)
        )

    def recordings(self, turns: int, folder: Path) -> int:
        """Write conversations with about so many turns, and their judgements; return the number of turns."""
        draw, names, done = random.Random(turns), list(self.conversations), 0
        for number in range(turns):
            if done >= turns - 50:
                break
            name = names[number % len(names)]
            new = f"{name}-{number}"
            lines = [json.loads(line) for line in renamed(self.conversations[name], name, new)]
            for line in lines:
                if "text" in line:
                    line["text"] = self.like(line["text"], draw)
                done += line["kind"] == "turn"
            written(folder / "set" / f"{new}.jsonl", lines)
            written(folder / "golden" / f"{new}.jsonl", self._judged(name, new))
        return done

    def _judged(self, name: str, new: str) -> Iterator[dict[str, Any]]:
        """Yield the judgements of a copy. Memories of haystacks are in no recording, so they are left out."""
        path = PROJECT / "golden" / "operators" / f"{name}.jsonl"
        for line in map(json.loads, renamed(path.read_text("utf-8").splitlines(), name, new)):
            yield {key: _present(value) if isinstance(value, list) else value for key, value in line.items()}

    def memories(self, count: int, folder: Path) -> int:
        """Write one conversation whose first turn makes so many memories; return their number."""
        draw, name = random.Random(count), next(iter(self.conversations))
        lines = [json.loads(line) for line in self.conversations[name]]
        lines = [line for line in lines if line["kind"] != "memory"]
        first = next(index for index, line in enumerate(lines) if line["kind"] == "turn") + 1
        labels = ("must_remember", "nice_to_have", "ignore")
        texts = (self.like(draw.choice(self.texts), draw) for _ in range(count))
        made = ({"kind": "memory", "text": text, "importance_label": draw.choice(labels)} for text in texts)
        written(folder / "set" / "one.jsonl", (line for some in (lines[:first], made, lines[first:]) for line in some))
        return count

    def lines(self, count: int, folder: Path) -> int:
        """Write a log of observations, a spool of events without times, and claims on one subject, so many each."""
        draw = random.Random(count)

        def text(number: int) -> str:
            return f"{number} {self.like(draw.choice(self.texts), draw)}"

        written(folder / "log.jsonl", ({"summary": text(n), "ts": "2026-01-01T00:00:00Z"} for n in range(count)))
        event = {"schema": SPOOL, "type": "conversation.user", "session_id": "one", "agent_id": "main"}
        said = ((n, text(n)) for n in range(count))
        spool = (event | {"event_id": f"e{n}", "summary": some, "payload": {"text": some}} for n, some in said)
        written(folder / "spool.jsonl", spool)
        written(
            folder / "claims.jsonl",
            (
                {"subject": "entity:one", "predicate": "status", "object": f"value {n}"}
                | {"valid_from": time_of(n), "valid_to": time_of(n + 1), "assertion_ref": "note:x"}
                | {"source_refs": [f"obs:{n % 1000 + 1}"]}
                for n in range(count)
            ),
        )
        return count


def renamed(lines: Iterable[str], name: str, new: str) -> Iterator[str]:
    """Yield lines of JSON in which a conversation has another name, also in the keys of its turns and memories."""
    for line in lines:
        yield line.replace(f'"{name}/', f'"{new}/').replace(f'"{name}"', f'"{new}"')


def _present(values: list[Any]) -> list[Any]:
    return [value for value in values if "haystack:" not in json.dumps(value)]


def time_of(number: int) -> str:
    """Return a time that is so many hours after the beginning of 2000."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(946_684_800 + 3_600 * number))


class Series(NamedTuple):
    """Commands over the same inputs: what is counted, the sizes, what makes an input, and the commands in order."""

    counted: str
    sizes: Sequence[int]
    make: Callable[[Shipped, int, Path], int]
    commands: dict[str, Callable[[Desk], Cost]]


def replay(desk: Desk, *words: str | Path) -> Cost:
    """Replay both policies and ``hybrid``, which the gate needs."""
    return desk.lab("replay", desk.folder / "set", "--format", "lab", *ARMS, *words, "--out", desk.run)


SERIES = (
    Series(
        "turns",
        TURNS,
        Shipped.recordings,
        {
            "recordings validate": lambda desk: desk.lab(
                "recordings", "validate", desk.folder / "set", "--format", "lab"
            ),
            "recordings convert": lambda desk: desk.lab(
                *("recordings", "convert", desk.folder / "set", "--format", "lab"), "--out", desk.folder / "converted"
            ),
            "replay": lambda desk: replay(desk, "--golden", desk.folder / "golden"),
            "score": lambda desk: desk.lab("score", desk.run),
            "compare": lambda desk: desk.lab("compare", desk.run),
            "gate": lambda desk: desk.lab("gate", "judge", desk.run),
            "missed": lambda desk: desk.lab("missed", desk.run),
            "report": lambda desk: desk.lab("report", desk.run),
            "view": Desk.view,
        },
    ),
    Series(
        "lines",
        TURNS,
        Shipped.lines,
        {
            "ledger ingest": lambda desk: desk.lab(
                *("memory", "ledger", "ingest", desk.folder / "ledger", desk.folder / "log.jsonl", "--write")
            ),
            "facts import": lambda desk: desk.lab(
                *("memory", "facts", "import", desk.folder / "facts.jsonl", desk.folder / "claims.jsonl"),
                *("--ledger", desk.folder / "ledger", "--write"),
            ),
            "facts lint": lambda desk: desk.lab(
                *("memory", "facts", "lint", desk.folder / "facts.jsonl", "--ledger", desk.folder / "ledger")
            ),
            "episodes ingest": lambda desk: desk.lab(
                *("memory", "episodes", "ingest", desk.folder / "spool.jsonl", "--format", "spool"),
                *("--ledger", desk.folder / "episodes", "--write"),
            ),
        },
    ),
    Series("memories", MEMORIES, Shipped.memories, {"replay of memories": replay}),
)


def exponent(costs: Sequence[tuple[float, float]]) -> float | None:
    """Return the exponent of costs by size, smallest first, as the module says; None if they are flat."""
    (least, base), *rest = costs
    points = [(math.log(size - least), math.log(cost - base)) for size, cost in rest if cost > base * GROWN]
    if len(points) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return above / sum((x - mean_x) ** 2 for x, _ in points)


def shown(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return by command what is counted, its measurements by size, and the exponents."""
    table = {}
    for name in dict.fromkeys(one["command"] for one in found["measured"]):
        rows = sorted((one for one in found["measured"] if one["command"] == name), key=lambda one: one["count"])
        fits = {
            key: exponent([(one["count"], one[key]) for one in rows]) if len(rows) > 2 else None for key in Cost._fields
        }
        table[name] = {"counted": rows[0]["counted"], "rows": rows, "exponents": fits}
    return table


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure, and write the result after each command."""
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {"measured": []}
    shipped = Shipped()
    for series in SERIES:
        for size in series.sizes:
            if not given.least <= size <= given.most or given.only not in (None, series.counted):
                continue
            with tempfile.TemporaryDirectory(prefix="lab-growth-", dir=given.folder) as folder:
                desk = Desk(Path(folder), size)
                count = series.make(shipped, size, desk.folder)
                for name, work in series.commands.items():
                    cost = work(desk)
                    sys.stdout.write(
                        f"{name}, {count:,} {series.counted}: {cost.seconds:.1f} s, {cost.megabytes:.0f} MB\n"
                    )
                    sys.stdout.flush()
                    row = {"command": name, "counted": series.counted, "size": size, "count": count, **cost._asdict()}
                    same = ("command", "size")
                    kept = [one for one in found["measured"] if any(one[key] != row[key] for key in same)]
                    found = {"measured": [*kept, row]}
                    found["exponents"] = {name: of["exponents"] for name, of in shown(found).items()}
                    write_atomically(given.out, dump_json(found))
    return found


def chart(found: dict[str, Any], folder: Path) -> None:
    """Draw time and memory by size into ``growth.png`` and ``growth.svg``."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(14, 6.5), layout="constrained")
    for axis, key, title in zip(axes, Cost._fields, ("processor time, s", "largest memory, MB"), strict=True):
        for number, (name, of) in enumerate(shown(found).items()):
            slope = of["exponents"][key]
            label = f"{name}: {'flat' if slope is None else f'{slope:.2f}'}"
            points = [(one["count"], one[key]) for one in of["rows"]]
            axis.plot(*zip(*points, strict=True), marker="osD^vx"[number % 6], color=f"C{number % 10}", label=label)
        axis.set(xscale="log", yscale="log", title=title, xlabel="turns, lines or memories")
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize=8, title="exponent")
    for kind in ("png", "svg"):
        figure.savefig(folder / f"growth.{kind}", dpi=150)
    plt.close(figure)


def tell(found: dict[str, Any]) -> None:
    """Print the exponents."""
    for name, of in shown(found).items():
        fits = ", ".join(
            f"{key} {'flat' if slope is None else f'{slope:.2f}'}" for key, slope in of["exponents"].items()
        )
        sys.stdout.write(f"{name} by {of['counted']}: {fits}\n")


def main(words: Sequence[str]) -> None:
    """Parse arguments, measure, print and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--chart", type=Path, metavar="FOLDER")
    parser.add_argument("--only", choices=[series.counted for series in SERIES])
    parser.add_argument("--least", type=int, default=0, metavar="N", help="the smallest size")
    parser.add_argument("--most", type=int, default=max(MEMORIES), metavar="N", help="the largest size")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="where inputs are written for a while")
    given = parser.parse_args(words)
    found = measure(given)
    tell(found)
    if given.chart:
        chart(found, given.chart)


if __name__ == "__main__":
    main(sys.argv[1:])
