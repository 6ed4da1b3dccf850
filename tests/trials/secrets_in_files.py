"""Replay 5,000 generated secrets as a recording, score, report and judge it, and search every file written for them.

Run with ``python tests/trials/secrets_in_files.py [SEED]``. The searched files are the run, the cache and what the
commands printed; columns of Parquet files are read, because the files are compressed. A secret is found if it, or 8
characters of it in a row, are in a file in any case of letters. Profile ``seed`` must leave none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

import lab.gate
from tests.trials.secret_lines import Case, Maker

NUMBER = 5000
# Turns of a made-up conversation; with a reply after each.
TURNS = 50
SIZE = 8
COMMANDS = (
    "replay {data} --format lab --source captured --arm engine --arm b={config} --embedder hashing --score --out {run}",
    "report {run} --baseline engine --candidate b",
    "gate {run} --policy {policy}",
)
CONFIG = {"autoCapture": {"captureTodo": True, "maxItemsPerTurn": 4, "maxTodoPerTurn": 3}, "lab": {"arm": "engine"}}


def main(seed: int, number: int = NUMBER) -> int:
    """Print how many secrets are in which files; return 1 if any is."""
    maker = Maker(seed)
    cases = [maker.risky() for _ in range(number)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        codes = record(folder, cases)
        files = [path for part in ("run", "cache", "printed") for path in (folder / part).rglob("*") if path.is_file()]
        found = leaked(cases, {path.relative_to(folder): text_of(path) for path in files})
        stored = sum(
            row["what"] == "created"
            for path in (folder / "run" / "writes").glob("*.parquet")
            for row in parquet.read_table(path).to_pylist()
        )
    print(
        f"seed {seed}: {len(found)} of {len(cases)} secrets in {len(files)} files of {stored} stored memories "
        f"(exit codes {codes})"
    )
    for place, count in Counter(str(place) for _, place in found.values()).most_common(9):
        print(f"{place}: {count}, such as {next(case.text for case, at in found.values() if str(at) == place)!r}")
    return int(bool(found))


def record(folder: Path, cases: Sequence[Case]) -> list[int]:
    """Write the recordings, run the commands with a cache of their own, and return their exit codes."""
    data = folder / "data"
    for part in (data, folder / "cache", folder / "printed"):
        part.mkdir()
    for at in range(0, len(cases), TURNS):
        name = f"made-up-{at // TURNS}"
        lines = list(_recording(name, cases[at : at + TURNS]))
        (data / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    config = folder / "other.json"
    config.write_text(json.dumps(CONFIG), "utf-8")
    policy = folder / "capture.toml"
    rules = (Path(lab.gate.__file__).parent / "policies" / "capture.toml").read_text("utf-8")
    policy.write_text(rules.replace('baseline = "verbatim"', 'baseline = "b"'), "utf-8")
    codes = []
    environment = os.environ | {"LAB_CACHE_DIR": str(folder / "cache")}
    for number, command in enumerate(COMMANDS):
        words = [word.format(data=data, config=config, run=folder / "run", policy=policy) for word in command.split()]
        done = subprocess.run([sys.executable, "-m", "lab", *words], env=environment, capture_output=True, check=False)
        (folder / "printed" / f"{number}.txt").write_bytes(done.stdout + done.stderr)
        codes.append(done.returncode)
    return codes


def _recording(name: str, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    yield {"kind": "recording", "schema": "lab.recording.v1", "conversation": name, "language": "en", "title": name}
    yield {"kind": "session", "session": "s01", "time": "2026-03-03T02:41:00+00:00"}
    for number, case in enumerate(cases):
        yield {"kind": "turn", "turn": f"t{2 * number}", "role": "user", "text": case.text}
        yield {"kind": "turn", "turn": f"t{2 * number + 1}", "role": "assistant", "text": "Noted."}


def text_of(path: Path) -> str:
    """Return everything that a file holds as text."""
    if path.suffix == ".parquet":
        return repr(parquet.read_table(path).to_pylist())
    return path.read_bytes().decode("utf-8", "replace")


def leaked(cases: Sequence[Case], texts: dict[Path, str]) -> dict[str, tuple[Case, Path]]:
    """Return the secrets of which a text holds ``SIZE`` characters in a row, with the first such file."""
    parts: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        size = min(SIZE, len(case.secret))
        for at in range(len(case.secret) - size + 1):
            part = case.secret[at : at + size]
            # Letters of a password, such as "template" or "erSearch", are in the page of every run.
            if case.secret.isalpha() or not part.isalpha():
                parts[part].append(case)
    sizes = sorted({len(part) for part in parts})
    # Words of the text lane are in lower case, and split at signs.
    folded = {run: case for case in cases for run in re.findall(r"[a-z0-9]{8,}", case.secret.lower()) if is_mixed(run)}
    found: dict[str, tuple[Case, Path]] = {}
    for path, text in texts.items():
        for run in set(re.findall(r"[a-z0-9]{8,}", text.lower())) & folded.keys():
            found.setdefault(folded[run].secret, (folded[run], path))
        for size in sizes:
            for at in range(len(text) - size + 1):
                for case in parts.get(text[at : at + size], ()):
                    found.setdefault(case.secret, (case, path))
    return found


def is_mixed(run: str) -> bool:
    """Return whether a run has letters and digits, so that it is no word of the files themselves."""
    return not run.isalpha() and not run.isdigit()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
