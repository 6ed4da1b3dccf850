"""Run the replay commands of docs/canary.md on a small OpenClaw home."""

from __future__ import annotations

import json
import re
import shlex
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.systems.openclaw.recall.block import CLOSE, HEAD
from tests.commands import run_here
from tests.embedding.conftest import Endpoint, model, running  # noqa: F401 - fixtures

SESSION = "6f0c7a5e-0000-4000-8000-000000000002"
GATEWAY = {
    "gateway": {"mode": "local"},
    "plugins": {
        "slots": {"memory": "openclaw-mem-engine"},
        "entries": {
            "openclaw-mem-engine": {
                "hooks": {"allowConversationAccess": True},
                "config": {"autoRecall": {"selectionMode": "tier_quota_v1", "maxItems": 3}},
            }
        },
    },
}
MEMORIES = (
    ("kiln", "The kiln is fired on Thursdays", "must_remember"),
    ("kiln", "Blue glaze needs two hours in the kiln", "nice_to_have"),
    ("boat", "The boat lies at the kiln's landing stage", "must_remember"),
)


def _message(entry: str, parent: str | None, minute: int, text: str) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    at = f"2026-04-02T01:{minute:02}:00Z"
    return {"type": "message", "id": entry, "parentId": parent, "timestamp": at, "message": message}


def _replays(page: str) -> list[list[str]]:
    """Return the words of every replay command on a page."""
    commands = re.findall(r"^    (lab replay (?:[^\n]*\\\n)*[^\n]*)$", page, re.MULTILINE)
    return [shlex.split(command.replace("\\\n", " ")) for command in commands]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    lines = [
        {"type": "session", "version": 3, "id": SESSION, "timestamp": "2026-04-02T01:00:00Z", "cwd": "/srv"},
        _message("a1", None, 0, "[SCOPE: kiln]\nOn which day is the kiln fired?"),
        _message("a2", "a1", 1, "Where does the boat lie, by the way?"),
    ]
    sessions = folder / ".openclaw/agents/main/sessions"
    sessions.mkdir(parents=True)
    (sessions / f"{SESSION}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    vectors = SentenceTransformerEmbedder().encode([text for _, text, _ in MEMORIES])
    rows = [
        {
            "id": f"0b0e9a3c-1111-4000-8000-{number:012}",
            "text": text,
            "vector": vectors[number].tolist(),
            "category": "fact",
            "createdAt": 1.7e12 + number,
            "importance": 0.5,
            "importance_label": label,
            "scope": scope,
            "trust_tier": "user",
        }
        for number, (scope, text, label) in enumerate(MEMORIES)
    ]
    with quiet_lance():
        import_lancedb().connect(str(folder / ".openclaw/memory/lancedb")).create_table("memories", rows)
    (folder / "openclaw.json").write_text(json.dumps(GATEWAY), "utf-8")
    changed = json.loads(json.dumps(GATEWAY))
    section = changed["plugins"]["entries"]["openclaw-mem-engine"]["config"]
    section |= {"autoRecall": {"selectionMode": "tier_first_v1", "maxItems": 1}}
    (folder / "new.json").write_text(json.dumps(changed), "utf-8")
    return folder


def _run(words: list[str], home: Path, endpoint: Endpoint) -> list[dict[str, Any]]:
    """Run a replay in an OpenClaw home with ``endpoint`` as the provider; return its receipts."""
    home_words = [word.replace("~/", f"{home}/", 1) if word.startswith("~/") else word for word in words[1:]]
    home_words = [word.replace("https://api.openai.com/v1", endpoint.url) for word in home_words]
    done = run_here(*home_words, cwd=home)
    assert done.returncode == 0, done.stderr
    (receipts,) = (home / words[words.index("--out") + 1] / "receipts").iterdir()
    rows: list[dict[str, Any]] = pq.read_table(receipts).to_pylist()
    return rows


def _block(*lines: str) -> str:
    return sha256("\n".join((HEAD, *lines, CLOSE)).encode()).hexdigest()[:16]


@pytest.mark.process
@pytest.mark.model
def test_replay_on_the_canary_page_matches_the_live_plugin(
    pages: dict[str, str],
    home: Path,
    running: Endpoint,  # noqa: F811 - the fixture, by its name
) -> None:
    words = _replays(pages["canary.md"])[0]
    assert words[words.index("--vectors") + 1] == "stored"
    tagged, plain = _run(words, home, running)
    assert (tagged["arm"], tagged["scope"], plain["scope"]) == ("engine", "kiln", "global")
    first, second = (f"{number}. [fact|{label}] {text}" for number, (_, text, label) in enumerate(MEMORIES[:2], 1))
    assert tagged["block"] == _block(first, second)
    # A turn without a tag has scope global, in which nothing is stored.
    assert (plain["injected"], plain["chars"]) == (0, 0)
    receipt = json.loads(tagged["receipt"])
    assert (receipt["selectionMode"], receipt["quota"]["mustMax"]) == ("tier_quota_v1", 2)
    assert re.search(r'"(score|distance)":-?\d+\.0[,}]', tagged["receipt"]) is None


@pytest.mark.process
@pytest.mark.model
def test_a_changed_copy_of_the_hosts_file_runs_beside_it(
    pages: dict[str, str],
    home: Path,
    running: Endpoint,  # noqa: F811 - the fixture, by its name
) -> None:
    words = [*_replays(pages["canary.md"])[0], "--arm", "new=new.json"]
    words[words.index("--out") + 1] = "reports/runs/change"
    rows = {(row["arm"], row["scope"]): row for row in _run(words, home, running)}
    assert set(rows) == {(arm, scope) for arm in ("engine", "new") for scope in ("kiln", "global")}
    assert [rows[arm, "kiln"]["injected"] for arm in ("engine", "new")] == [2, 1]
    assert json.loads(rows["new", "kiln"]["receipt"])["selectionMode"] == "tier_first_v1"


@pytest.mark.parametrize("name", ["canary.md", "golden.md", "replay.md", "index.md"])
def test_replays_of_an_openclaw_home_use_its_configuration(pages: dict[str, str], name: str) -> None:
    replays = [words for words in _replays(pages[name]) if "--memories-from" in words]
    assert replays
    for words in replays:
        assert "engine=openclaw.json" in words
        assert [words[words.index(option) + 1] for option in ("--profile", "--scope")] == ["upstream", "tags"]
