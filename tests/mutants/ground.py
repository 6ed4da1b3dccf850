"""A folder with one of everything that the lab reads, and the commands that read it."""

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
REPLAY = ("--embedder", "hashing", "--arm", "tier_first_v1", "--arm", "tier_quota_v1")
TRAPS = ("replay", "datasets/traps", "--format", "lab", "--scope", "recorded", *REPLAY)
LINT = ("golden", "lint", "golden/traps", "--recordings", "datasets/traps")
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
GRID = {"arm": "quota_repeat", "config": {"autoRecall": {"maxItems": 4}}, "grid": {"autoRecall.repeatPenalty": [0, 0.35]}}
ARM = {
    "autoRecall": {"maxItems": 4, "quotas": {"mustMax": 2, "niceMin": 2, "unknownMax": 1}, "repeatPenalty": 0.35},
    "budget": {"enabled": True, "maxChars": 1800},
    "scopePolicy": {"enabled": True, "defaultScope": "global"},
}
HOST = {"meta": {"lastTouchedVersion": "2026.3.2"}, "plugins": {"entries": {"openclaw-mem-engine": {"config": ARM}}}}
VECTORS = (
    {"id": "a", "input": {"prompt": "hello", "cfg": {"skipTrivialPrompts": True, "trivialMinChars": 8}}, "output": True},
    {"id": "b", "input": {"prompt": "why is it so?", "cfg": {"skipTrivialPrompts": True}}, "output": False},
)


@dataclass(frozen=True)
class Target:
    """A kind of file: which files of the ground, of which form, and the commands that read them.

    ``finds`` are the commands, by their first words, whose exit code 1 says that the input has faults. ``weight`` is
    how often it is drawn.
    """

    kind: str
    files: tuple[str, ...]
    form: str
    commands: tuple[tuple[str, ...], ...]
    weight: int = 2


def _run_files(*commands: tuple[str, ...]) -> list[Target]:
    verdicts = (
        ("score", "run", "--slices"),
        ("compare", "run", "--all"),
        ("gate", "run", "--policy", "policy.toml"),
        ("gate", "run", "--policy", "nightly", "--against", "other"),
    )
    others = (
        ("explain", "run", "kiln-room/s02/t01"),
        ("diff", "run", "other"),
        ("export", "run", "--format", "trec", "--out", "made"),
        ("runs", "list", "."),
        ("baseline", "bless", "run", "--name", "again"),
        ("golden", "lint", "golden/traps", "--recordings", "datasets/traps", "--run", "run"),
        (*TRAPS, "--out", "run"),
    )
    every = (*verdicts, *verdicts, *others)
    return [
        Target("run manifest", ("run/manifest.json",), "json", every, 6),
        Target("run golden", ("run/golden.jsonl",), "jsonl", every, 4),
        Target("run receipts", ("run/receipts/*.parquet",), "parquet", every, 6),
        Target("run scores", ("run/scores.parquet",), "parquet", every),
        Target("run latency", ("run/latency/*.parquet",), "parquet", (*verdicts, others[6]), 3),
        Target("run failures", ("run/failures.jsonl",), "jsonl", every),
        Target("run verdict", ("run/verdict.json",), "json", (verdicts[2], *others[:4]), 2),
        Target("run report", ("run/receipts/*.parquet", "run/golden.jsonl"), "binary", (("report", "run"),), 1),
        Target("shards", ("shard*/manifest.json", "shard*/golden.jsonl"), "json", (("merge", "made", "shard1", "shard2"),)),
    ]


def targets() -> list[Target]:
    """Every kind of file, with the commands that read it."""
    readers = [
        Target(
            f"recording {name}",
            (f"formats/{name}/**/*",),
            {"aider": "text", "hermes": "jsonl", "madial": "jsonl", "openclaw": "jsonl"}.get(name, "json"),
            (
                ("recordings", "validate", f"formats/{name}", "--format", name),
                ("recordings", "convert", f"formats/{name}", "--format", name, "--out", "made"),
                ("replay", f"formats/{name}", "--format", name, "--out", "made", *REPLAY),
            ),
            3,
        )
        for name in FORMATS
    ]
    home = ("recordings", "validate", "home", "--format", "openclaw-archived")
    own = ("recordings", "validate", "datasets/traps", "--format", "lab")
    config = (("config", "check", "{}"), ("config", "show", "{}"), (*TRAPS[:4], *REPLAY, "--config", "{}", "--out", "made"))
    stored = ("--memories-from", "{}", "--out", "made")
    return [
        Target("recording lab", ("datasets/traps/*.jsonl",), "jsonl", (own, (*TRAPS, "--out", "made"), LINT), 8),
        *readers,
        Target("openclaw database", ("home/**/*.sqlite",), "binary", (home,)),
        Target("openclaw archive", ("home/**/*.reset.*", "home/**/sessions.json"), "jsonl", (home,)),
        Target("golden set", ("golden/traps/*.jsonl",), "jsonl", (
            *(LINT, LINT, (*TRAPS, "--out", "made"), ("golden", "diff", "golden/traps", "golden/second")),
            *(("golden", "split", "golden/traps", "--out", "made"), ("golden", "agree", "golden/traps", "golden/second")),
        ), 8),
        Target("pool", ("pool.jsonl",), "jsonl", (("golden", "judge", "pool.jsonl", "--out", "made.jsonl", "--json"),)),
        Target("gate policy", ("policy.toml",), "toml", (("gate", "run", "--policy", "policy.toml"),), 8),
        Target("nightly plan", ("plan.toml",), "toml", (("nightly", "--plan", "plan.toml", "--out", "made"),)),
        Target("grid", ("grid.json",), "json", (
            ("sweep", "datasets/traps", "--format", "lab", "--limit", "1", "--grid", "grid.json", "--embedder", "hashing", "--out", "made"),
        ), 1),
        Target("gateway log", ("gateway.log",), "log", (("receipts", "audit", "gateway.log", "--out", "made.json"),), 8),
        Target("packed log", ("gateway.log.gz",), "binary", (("receipts", "audit", "gateway.log.gz", "--strict"),)),
        Target("audit", ("audit.json",), "json", (("gate", "--receipts", "audit.json", "--policy", "stage-b"),), 4),
        Target("configuration", ("arm.json", "host.json"), "json", config, 6),
        Target("exported memories", ("store.jsonl",), "jsonl", ((*TRAPS, *stored),), 3),
        Target("exported memories, JSON", ("store.json",), "json", ((*TRAPS, *stored),)),
        Target("TREC", ("trec/*",), "text", (("import", "--qrels", "trec/qrels.txt", "--run", "trec/tier_first_v1.run"),)),
        *_run_files(),
        Target("baseline", ("kept/**/*.json",), "json", (
            *(("baseline", "list", "--baselines", "kept"), ("baseline", "show", "first", "--baselines", "kept")),
            *(("baseline", "bless", "run", "--name", "first", "--baselines", "kept"), ("baseline", "rm", "first", "--baselines", "kept")),
        ), 3),
        Target("night", ("night/*.json",), "json", (
            ("baseline", "bless", "night", "--baselines", "kept"), ("nightly", "--plan", "plan.toml", "--out", "night"),
        )),
        Target("trend", ("reports/trend/**/*.parquet",), "parquet", (("trend",),)),
        Target("sweep", ("swept/*.json", "swept/parts/*"), "json", (
            ("sweep", "datasets/traps", "--format", "lab", "--limit", "1", "--grid", "grid.json", "--embedder", "hashing", "--out", "swept"),
        ), 1),
        Target("conformance", ("vectors/*.jsonl",), "jsonl", (("conformance", "vectors"),)),
    ]  # fmt: skip


def prepare(place: Path, run: Callable[..., tuple[int, str]]) -> None:
    """Write and measure one of everything below ``place``, which is the current folder; ``run`` runs a command."""

    def done(*words: str, code: int = 0) -> None:
        found, said = run(*words)
        assert found == code, (words, found, said)

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
    (place / "vectors").mkdir()
    (place / "vectors/skip_prompt.jsonl").write_text("".join(json.dumps(one) + "\n" for one in VECTORS))
    rows = [
        {"id": f"m{number}", "text": f"the kiln fires at {number}00 degrees", "createdAt": 1_700_000_000_000 + number}
        | {"category": "fact", "importance_label": "must_remember", "scope": "pots", "importance": 0.9}
        for number in range(9)
    ]
    (place / "store.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (place / "store.json").write_text(json.dumps({"items": rows}))
    log = runpy.run_path(str(ROOT / "tests/cli/test_receipts_cli.py"))
    lines = [log["_line"](log["_receipt"](), second=number) for number in range(12)]
    (place / "gateway.log").write_bytes(b"\n".join([b"starting up", *lines, log["SOUND"][3], log["SOUND"][4]]) + b"\n")
    (place / "gateway.log.gz").write_bytes(gzip.compress((place / "gateway.log").read_bytes()))
    done("receipts", "audit", "gateway.log", "--out", "audit.json")
    for name in ("run", "other"):
        done(*TRAPS, "--out", name)
    for part in (1, 2):
        done(*TRAPS, "--shard", f"{part}/2", "--out", f"shard{part}")
    done("score", "run")
    done("gate", "run", "--policy", "policy.toml")
    done("baseline", "bless", "run", "--name", "first", "--baselines", "kept")
    done("export", "run", "--format", "trec", "--out", "trec")
    done("golden", "pool", "datasets/traps", "--format", "lab", "--turns", "5", "--embedder", "hashing", "--out", "pool.jsonl")
    done("nightly", "--plan", "plan.toml", "--out", "night", code=3)
    done("sweep", "datasets/traps", "--format", "lab", "--limit", "1", "--grid", "grid.json", "--embedder", "hashing", "--out", "swept")
    failure = {"conversation": "kiln-room", "error": "KeyError in a.py, line 3"}
    (place / "run/failures.jsonl").write_text(json.dumps(failure) + "\n")


def _home(place: Path) -> None:
    """A home of OpenClaw: a session in a database, one that was reset, and their index."""
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
