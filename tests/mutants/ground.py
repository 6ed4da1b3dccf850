"""A folder with every kind of file that the lab reads, and the commands that read them."""

from __future__ import annotations

import gzip
import json
import runpy
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ("aider", "beam", "hermes", "ikat", "locomo", "madial", "openclaw", "realmem", "realtalk")
REPLAY = "--embedder hashing --arm tier_first_v1 --arm tier_quota_v1"
TRAPS = f"replay datasets/traps --format lab --scope recorded {REPLAY} --out"
LINT = "golden lint golden/traps --recordings datasets/traps"
SWEEP = "study sweep datasets/traps --format lab --limit 1 --grid grid.json --embedder hashing --out"
PLAN = """name = "trial"
about = "one small set"
policy = "policy.toml"
[[set]]
name = "small"
recordings = "datasets/traps"
format = "lab"
arms = ["tier_first_v1", "tier_quota_v1"]
embedder = "hashing"
scope = "recorded"
limit = 1
hard_rules = 1
golden = "golden/traps"
must_share = 0.2
labels = "sampled"
[[set.compare]]
baseline = "tier_first_v1"
candidate = "tier_quota_v1"
policy = "policy.toml"
critical = false
"""
POLICY = """name = "trial"
about = "what must hold of a trial"
minimum_conversations = 3
[comparison]
baseline = "tier_first_v1"
candidate = "tier_quota_v1"
[[guard]]
measure = "Success@6"
margin = 0.5
[[improve]]
measure = "GoldNice@6"
by = 0.0
critical = false
[[limit]]
measure = "Future"
at_most = 0
[[limit]]
measure = "WrongScope"
at_most = 0
must_have_data = false
only_where = { scope = "recorded" }
[[latency]]
stage = "total"
quantile = 0.5
at_most_ms = 100000
critical = false
must_have_data = false
"""
AUDIT = """name = "logs"
about = "what must hold of a log"
minimum_receipts = 2
[[receipts]]
measure = "errors.rate"
of = "errors.attempts"
at_most = 0.9
[[receipts]]
measure = "damage.rate"
of = "damage.of"
at_most = 0.9
[[receipts]]
measure = "repeat.rate"
at_most = 1
[[receipts]]
measure = "quota.nice_floor_met"
at_least = 0
must_have_data = false
"""
GRID = {
    "arm": "quota_repeat",
    "config": {"autoRecall": {"maxItems": 4}},
    "grid": {"autoRecall.repeatPenalty": [0, 0.35]},
}
ARM = {
    "autoRecall": {"maxItems": 4, "quotas": {"mustMax": 2, "niceMin": 2, "unknownMax": 1}, "repeatPenalty": 0.35},
    "budget": {"enabled": True, "maxChars": 1800},
    "scopePolicy": {"enabled": True, "defaultScope": "global"},
}
HOST = {"meta": {"lastTouchedVersion": "2026.3.2"}, "plugins": {"entries": {"openclaw-mem-engine": {"config": ARM}}}}
VECTORS = (
    {
        "id": "a",
        "input": {"prompt": "hello", "cfg": {"skipTrivialPrompts": True, "trivialMinChars": 8}},
        "output": True,
    },
    {
        "id": "b",
        "input": {"prompt": "why?", "cfg": {"skipTrivialPrompts": True, "trivialMinChars": 8}},
        "output": False,
    },
)


@dataclass(frozen=True)
class Target:
    """A kind of file: patterns of its files, their form, and the commands that read them.

    ``{}`` in a command stands for the file; ``weight`` is the relative frequency of the kind.
    """

    kind: str
    files: str
    form: str
    commands: tuple[str, ...]
    weight: int = 2

    def paths(self) -> list[Path]:
        """Return the files below the current folder; ``files`` holds patterns separated by blanks."""
        return sorted(path for pattern in self.files.split() for path in Path().glob(pattern) if path.is_file())


def _readers() -> list[Target]:
    forms = {"aider": "text", "hermes": "jsonl", "madial": "jsonl", "openclaw": "jsonl"}
    return [
        Target(
            f"recording {name}",
            f"formats/{name}/**/*",
            forms.get(name, "json"),
            (
                f"recordings validate formats/{name} --format {name}",
                f"recordings convert formats/{name} --format {name} --out made",
                f"replay formats/{name} --format {name} --out made {REPLAY}",
            ),
            3,
        )
        for name in FORMATS
    ]


def _run_files() -> list[Target]:
    verdicts = (
        *("score run --slices", "compare run --all"),
        *("gate run --policy policy.toml", "gate run --policy nightly --against other"),
    )
    others = (
        *("explain run kiln-room/s02/t01", "diff run other", "runs export run --format trec --out made", "runs list ."),
        *("nightly baseline approve run --name again", f"{LINT} --run run", f"{TRAPS} run"),
    )
    every = (*verdicts, *verdicts, *others)
    return [
        Target("run manifest", "run/manifest.json", "json", every, 6),
        Target("run golden", "run/golden.jsonl", "jsonl", every, 4),
        Target("run receipts", "run/receipts/*.parquet", "parquet", every, 6),
        Target("run scores", "run/scores.parquet", "parquet", every),
        Target("run latency", "run/latency/*.parquet", "parquet", (*verdicts, f"{TRAPS} run"), 3),
        Target("run failures", "run/failures.jsonl", "jsonl", every),
        Target("run verdict", "run/verdict.json", "json", (verdicts[2], *others[:4])),
        Target("run report", "run/receipts/*.parquet run/golden.jsonl", "binary", ("report run",), 1),
        Target("shards", "shard*/manifest.json shard*/golden.jsonl", "json", ("runs merge made shard1 shard2",)),
    ]


def targets() -> list[Target]:
    """Return every kind of file with the commands that read it."""
    home = ("recordings validate home --format openclaw-archived",)
    own = ("recordings validate datasets/traps --format lab", f"{TRAPS} made", LINT)
    gold = (
        *(LINT, LINT, f"{TRAPS} made", "golden diff golden/traps golden/second"),
        *("golden split golden/traps --out made", "golden agree golden/traps golden/second"),
    )
    config = ("config check {}", "config show {}", f"{TRAPS} made --config {{}}")
    stored = (f"replay formats/aider --format aider {REPLAY} --memories-from {{}} --out made",)
    changes = ("list", "show first", "approve run --name first", "rm first")
    kept = tuple(f"nightly baseline {change} --baselines kept" for change in changes)
    return [
        Target("recording lab", "datasets/traps/*.jsonl", "jsonl", own, 8),
        *_readers(),
        Target("openclaw database", "home/**/*.sqlite", "binary", home),
        Target("openclaw archive", "home/**/*.reset.* home/**/sessions.json", "jsonl", home),
        Target("golden set", "golden/traps/*.jsonl", "jsonl", gold, 8),
        Target("pool", "pool.jsonl", "jsonl", ("golden judge pool.jsonl --out made.jsonl --json",)),
        Target("gate policy", "policy.toml", "toml", ("gate run --policy policy.toml",), 8),
        Target("nightly plan", "plan.toml", "toml", ("nightly run --plan plan.toml --out made",)),
        Target("grid", "grid.json", "json", (f"{SWEEP} made",), 1),
        Target("gateway log", "gateway.log", "log", ("canary audit gateway.log --out made.json",), 8),
        Target("packed log", "gateway.log.gz", "binary", ("canary audit gateway.log.gz --strict",)),
        Target("audit", "audit.json", "json", ("gate audit.json --policy audit.toml",), 4),
        Target("configuration", "arm.json host.json", "json", config, 6),
        Target("exported memories", "store.jsonl", "jsonl", stored, 3),
        Target("exported memories, JSON", "store.json", "json", stored),
        Target("TREC", "trec/*", "text", ("runs import --qrels trec/qrels.txt --run trec/tier_first_v1.run",)),
        *_run_files(),
        Target("baseline", "kept/**/*.json", "json", kept, 3),
        Target(
            "night", "night/*.json", "json",
            ("nightly baseline approve night --baselines kept", "nightly run --plan plan.toml --out night"),
        ),
        Target("trend", "reports/trend/**/*.parquet", "parquet", ("nightly trend",)),
        Target("sweep", "swept/*.json swept/parts/*", "json", (f"{SWEEP} swept",), 1),
        Target("conformance", "vectors/*.jsonl", "jsonl", ("conformance vectors",)),
    ]  # fmt: skip


def prepare(place: Path, run: Callable[..., tuple[int, str]]) -> None:
    """Create one file of every kind below ``place``, the current folder; ``run`` runs a command."""

    def done(command: str, code: int = 0) -> None:
        result, said = run(*command.split())
        assert result == code, (command, result, said)

    for kind in ("datasets", "golden"):
        shutil.copytree(ROOT / kind / "traps", place / kind / "traps")
    shutil.copytree(place / "golden/traps", place / "golden/second")
    samples = runpy.run_path(str(ROOT / "tests/recordings/conftest.py"))["SAMPLES"]
    for name in FORMATS:
        (place / "formats" / name).mkdir(parents=True)
        samples[name](place / "formats" / name)
    _home(place)
    for name, value in (("grid.json", GRID), ("arm.json", ARM), ("host.json", HOST)):
        (place / name).write_text(json.dumps(value, indent=1))
    (place / "policy.toml").write_text(POLICY)
    (place / "plan.toml").write_text(PLAN)
    (place / "audit.toml").write_text(AUDIT)
    (place / "vectors").mkdir()
    (place / "vectors/skip_prompt.jsonl").write_text("".join(json.dumps(vector) + "\n" for vector in VECTORS))
    rows = [
        {"id": f"m{number}", "text": f"the kiln fires at {number}00 degrees", "createdAt": 1_700_000_000_000 + number}
        | {"category": "fact", "importance_label": "must_remember", "scope": "pots", "importance": 0.9}
        for number in range(9)
    ]
    (place / "store.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "store.json").write_text(json.dumps({"items": rows}))
    log = runpy.run_path(str(ROOT / "tests/canary/cli/test_receipts_cli.py"))
    lines = [log["_line"](log["_receipt"](), second=5 * number) for number in range(12)]
    (place / "gateway.log").write_bytes(b"\n".join([b"starting up", *lines, log["SOUND"][4]]) + b"\n")
    (place / "gateway.log.gz").write_bytes(gzip.compress((place / "gateway.log").read_bytes()))
    for command in (
        *("canary audit gateway.log --out audit.json", f"{TRAPS} run", f"{TRAPS} other"),
        *(f"{TRAPS} shard1 --shard 1/2", f"{TRAPS} shard2 --shard 2/2", "score run", "gate run --policy policy.toml"),
        *("nightly baseline approve run --name first --baselines kept", "runs export run --format trec --out trec"),
        "golden pool datasets/traps --format lab --turns 5 --embedder hashing --out pool.jsonl",
        f"{SWEEP} swept",
    ):
        done(command)
    # Without a baseline a nightly run is inconclusive.
    done("nightly run --plan plan.toml --out night", code=3)
    failure = {"conversation": "kiln-room", "error": "KeyError in a.py, line 3"}
    (place / "run/failures.jsonl").write_text(json.dumps(failure) + "\n")


def _home(place: Path) -> None:
    """Create a home of OpenClaw: a session in a database, a reset one, and their index."""
    agent = place / "home/agents/main"
    (agent / "agent").mkdir(parents=True)
    (agent / "sessions").mkdir()
    lines = (place / "formats/openclaw/talk.jsonl").read_text()
    before, now = (f"6f0c7a5e-0000-4000-8000-00000000000{number}" for number in (1, 2))
    (agent / "sessions" / f"{before}.jsonl.reset.2026-09-01T09-00-00.000Z").write_text(lines.replace("talk", before))
    (agent / "sessions/sessions.json").write_text(json.dumps({"agent:main:x": {"sessionId": now, "updatedAt": 1}}))
    connection = sqlite3.connect(agent / "agent/openclaw-agent.sqlite")
    with connection:
        connection.execute("CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, event_utf8_bytes)")
        for seq, line in enumerate(lines.replace("talk", now).splitlines()):
            connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, NULL, NULL)", (now, seq, line))
        connection.execute("PRAGMA user_version = 23")
    connection.close()
