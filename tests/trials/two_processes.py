"""How much faster two processes are than one: ``python tests/trials/two_processes.py LOCOMO.json [COPIES [ROUNDS]]``.

LoCoMo is replayed at every turn through the arms of the ablation, each conversation as often as COPIES says under other
names, so that one process takes a minute or more. The ways are measured in turns, in one go; BLAS has one thread. The
first, unmeasured replay fills the cache. Receipts of all ways must be the same bytes. The load of the machine stands
beside each time: ratios mean something where nothing else runs. CPU seconds, all processes together, mean something
anywhere.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARMS = ("tier_first_v1", "tier_quota_v1", "quota_flow", "quota_repeat", "quota_backbone", "quota_score", "seed_full")
WAYS = {
    "one process": [],
    "two processes": ["--jobs", "2"],
    "Dask, two local workers": ["--dask", "local", "--jobs", "2"],
}


def replay(data: Path, out: Path, *words: str) -> tuple[float, float, dict[str, bytes]]:
    """Return seconds, CPU seconds, and the receipts."""
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    command = [sys.executable, "-m", "lab", "replay", data, "--format", "locomo", "--recall-turns", "all", *arms]
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [*command, "--out", out, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env
    )
    spent, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, cpu, {path.name: path.read_bytes() for path in sorted((out / "receipts").iterdir())}


def main(source: str, copies: str = "4", rounds: str = "3") -> None:
    """Measure and print."""
    samples = json.loads(Path(source).read_text("utf-8"))
    many = [{**one, "sample_id": f"{one['sample_id']}-{copy}"} for copy in range(int(copies)) for one in samples]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "many.json"
        data.write_text(json.dumps(many), "utf-8")
        few = Path(folder) / "few.json"
        few.write_text(json.dumps(samples), "utf-8")
        replay(few, Path(folder) / "warm")
        spent: dict[str, list[float]] = {way: [] for way in WAYS}
        for number in range(int(rounds)):
            seen = []
            for way, words in WAYS.items():
                seconds, cpu, receipts = replay(data, Path(folder) / f"{number} {way}", *words)
                spent[way].append(seconds)
                seen.append(receipts)
                load = os.getloadavg()[0]
                print(
                    f"round {number + 1}: {way:<24} {seconds:6.1f} s, CPU {cpu:6.1f} s   (load {load:.1f})", flush=True
                )
            assert all(one == seen[0] for one in seen), "receipts differ"
    one = spent["one process"]
    for way, seconds in spent.items():
        ratios = [first / mine for first, mine in zip(one, seconds, strict=True)]
        print(f"{way:<24} median {statistics.median(seconds):6.1f} s, ratios {', '.join(f'{r:.2f}' for r in ratios)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
