"""Time an operator's way from the home of a host to a verdict: each command, its exit code and its seconds.

    python tests/trials/host_path.py HOME FOLDER [--embedder NAME] [--turns N]

Runs, in the new folder: ``lab init HOME``; a judge who finds the first memory of each turn relevant, in place of the
person at ``lab golden judge``; ``lab init HOME`` again; two nightly runs, the first of which is approved.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

OUT = Path("reports/init")


def run(folder: Path, *words: str) -> dict[str, object]:
    """Run a command of the lab; return its words, exit code and seconds."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "lab", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = round(time.perf_counter() - begin, 1)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"lab {' '.join(words)}: {done.stderr}")
    return {"command": f"lab {' '.join(words)}", "exit code": done.returncode, "seconds": seconds}


def judge(folder: Path) -> int:
    """Judge the pool; return the number of turns."""
    pool = (folder / OUT / "pool.jsonl").read_text("utf-8").splitlines()[1:]
    lines = []
    for turn in map(json.loads, pool):
        relevant = [{"memory": turn["items"][0]["memory"], "grade": 2, "reason": "judged"}]
        others = [item["memory"] for item in turn["items"][1:]]
        probe = {"kind": "probe", "turn": turn["turn"], "type": "decision", "reason": "judged"}
        lines.append(json.dumps(probe | {"relevant": relevant, "irrelevant": others}) + "\n")
    (folder / OUT / "golden.jsonl").write_text("".join(lines), "utf-8")
    return len(lines)


def main() -> None:
    """Print one line of JSON for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    parser.add_argument("--turns", default="60")
    given = parser.parse_args()
    given.folder.mkdir()
    words = ("init", str(given.home.resolve()), "--embedder", given.embedder, "--turns", given.turns)
    plan = ("nightly", "run", "--plan", str(OUT / "plan.toml"), "--date")
    print(json.dumps(run(given.folder, *words)))
    if not (given.folder / OUT / "pool.jsonl").exists():
        sys.exit("lab init made no pool to judge: its output says what the home lacks")
    print(json.dumps({"judged": judge(given.folder)}))
    print(json.dumps(run(given.folder, *words)))
    print(json.dumps(run(given.folder, *plan, "2026-01-01")))
    (night,) = (given.folder / "reports" / "nightly").iterdir()
    print(json.dumps(run(given.folder, "nightly", "baseline", "approve", str(night.relative_to(given.folder)))))
    print(json.dumps(run(given.folder, *plan, "2026-01-02")))


if __name__ == "__main__":
    main()
