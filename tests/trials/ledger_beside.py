"""Ingest and search a large ledger with the lab and with the public sidecar, in one run.

    python tests/trials/ledger_beside.py --observations 1000000 --sidecar VENV/bin/python --folder FOLDER

VENV holds openclaw-context-pack 2.0.0. Both programs ingest the same log of made-up observations (words by Zipf's law,
a tenth with Chinese), with grades; then the same queries are asked of both, in an open process each, of the ledger that
the program wrote. Printed are rows a second, bytes, and the median and 95th percentile of a search; times of the wall
clock, and of the processor, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import time
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

from lab.memory.ledger.ingest import ingest
from lab.memory.ledger.ledger import open_ledger
from lab.memory.ledger.search import search
from lab.systems.sidecar import grade_observation

START = datetime(2026, 1, 1, tzinfo=UTC)
HAN = "決定採用陶盆種羅勒合唱團星期四在舊磨坊偏好計畫問題修正花園會議備份資料庫索引查詢"
TOOLS = ("memory_store", "exec", "read", "chat", "cron.list")
# Run by the sidecar's interpreter: queries on stdin; milliseconds, those of processor time, and ids on stdout.
DRIVER = """
import json, sys, time
from openclaw_mem.core.db import _connect
from openclaw_mem.core.search import lexical_search_with_receipt
connection = _connect(sys.argv[1])
for line in sys.stdin:
    began, used = time.perf_counter(), time.process_time()
    found = lexical_search_with_receipt(connection, json.loads(line), limit=20, scoring_profile="composite")
    taken = [1000 * (time.perf_counter() - began), 1000 * (time.process_time() - used)]
    print(json.dumps([taken, [row["id"] for row in found["results"]]]), flush=True)
"""


def write_log(path: Path, observations: int, words: list[str], draw: random.Random) -> None:
    """Write the log."""
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    with path.open("w", encoding="utf-8") as file:
        for number in range(observations):
            text = " ".join(draw.choices(words, cum_weights=weights, k=draw.randint(6, 24)))
            if number % 10 == 0:
                text = "".join(draw.choices(HAN, k=draw.randint(4, 12))) + " " + text
            observation = {
                "ts": (START + timedelta(seconds=20 * number)).isoformat(),
                "kind": draw.choice(("tool", "note", "decision", "fact", "event")),
                "tool_name": draw.choice(TOOLS),
                "summary": text,
                "detail": {"ref": f"session{number // 500}#{number}", "scope": f"scope{number % 20}"},
            }
            file.write(json.dumps(observation, ensure_ascii=False) + "\n")


def queries(words: list[str], draw: random.Random, number: int) -> list[str]:
    """Return queries of one to three words, a fifth of them with Chinese, a tenth with a word that no row has."""
    made = []
    for index in range(number):
        query = " ".join(draw.choices(words[20:], k=draw.randint(1, 3)))
        if index % 5 == 0:
            query = "".join(draw.choices(HAN, k=3)) + ("" if index % 2 else f" {query}")
        elif index % 10 == 1:
            query = f"absent{index}"
        made.append(query)
    return made


def quantiles(values: list[float]) -> str:
    """Return the median, the 95th percentile and the maximum of milliseconds."""
    ordered = sorted(values)
    median, high = ordered[len(ordered) // 2], ordered[int(0.95 * len(ordered))]
    return f"p50 {median:.1f} ms, p95 {high:.1f} ms, max {ordered[-1]:.0f} ms"


def clocks() -> tuple[float, float]:
    """Return the time and the processor time of this process and of its ended children, in seconds."""
    used = os.times()
    return time.perf_counter(), used.user + used.system + used.children_user + used.children_system


def since(began: tuple[float, float], rows: int) -> str:
    """Return the time since then, and rows a second."""
    seconds, processor = (now - before for now, before in zip(clocks(), began, strict=True))
    return (
        f"ingested in {seconds:.1f} s, {rows / seconds:.0f} rows/s; {processor:.1f} s of processor time, "
        f"{rows / processor:.0f} rows/s"
    )


def size(path: Path) -> float:
    """Return the size of a database with its log, in MB."""
    return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*")) / 1e6


def main() -> None:
    """Ingest, search and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--observations", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--sidecar", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(20)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 10))) for _ in range(20_000)]
    log, ours, theirs = (options.folder / name for name in ("log.jsonl", "ours.sqlite", "theirs.sqlite"))
    if not log.exists():
        write_log(log, options.observations, words, draw)
    asked = queries(words, random.Random(21), options.queries)
    print(f"log: {options.observations} observations, {size(log):.0f} MB")
    if not ours.exists():
        began = clocks()
        ingest(ours, log, scorer=grade_observation, upstream=True)
        print(f"lab: {since(began, options.observations)}, {size(ours):.0f} MB", flush=True)
    program = None
    if options.sidecar and not theirs.exists():
        began = clocks()
        command = [str(options.sidecar.with_name("openclaw-mem")), "--db", str(theirs), "ingest", "--file", str(log)]
        subprocess.run([*command, "--importance-scorer", "heuristic-v1", "--json"], check=True, stdout=subprocess.PIPE)
        print(f"sidecar: {since(began, options.observations)}, {size(theirs):.0f} MB", flush=True)
    if options.sidecar:
        program = subprocess.Popen(
            [str(options.sidecar), "-c", DRIVER, str(theirs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    times: dict[str, list[list[float]]] = {"lab, seed": [], "lab, upstream": [], "sidecar": []}
    same = {"lab, seed": 0, "lab, upstream": 0}
    with open_ledger(ours) as connection:
        assert connection.execute("SELECT count(*) FROM observations").fetchone()[0] == options.observations
        # The first query warms each of them up.
        for number, query in enumerate([asked[0], *asked]):
            answers = {}
            for name in same:
                began, used = time.perf_counter(), time.process_time()
                found = search(connection, query, now=datetime.now(UTC), upstream=name.endswith("upstream"))
                taken = [1000 * (time.perf_counter() - began), 1000 * (time.process_time() - used)]
                times[name] += [taken] * (number > 0)
                answers[name] = [hit.row.id for hit in found.hits]
            if program is not None and program.stdin and program.stdout:
                program.stdin.write(json.dumps(query) + "\n")
                program.stdin.flush()
                taken, ids = json.loads(program.stdout.readline())
                times["sidecar"] += [taken] * (number > 0)
                for name in same:
                    same[name] += (answers[name] == ids) * (number > 0)
    for name, pairs in times.items():
        if pairs:
            wall, processor = (quantiles(list(values)) for values in zip(*pairs, strict=True))
            agreed = f"; same results as the sidecar: {same[name]} of {len(pairs)}" if name in same and program else ""
            print(f"search, {name}: {wall}; of processor time {processor}{agreed}")
    if program is not None and program.stdin:
        program.stdin.close()
        program.wait()


if __name__ == "__main__":
    main()
