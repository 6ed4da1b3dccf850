"""Roles: queries and documents may have different prompts; roles with equal prompts share their vectors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import UnusableInput
from lab.embedding.cache import cache_folder
from lab.embedding.embedder import (
    HashingEmbedder,
    Prompts,
    Role,
    SentenceTransformerEmbedder,
    embedder_key,
    role_key,
    roles_of,
    verified_default_folder,
)
from lab.embedding.vectors import Vectors, embedder_named
from lab.replay.run import run_replay
from lab.retrieval.contract import Filter
from lab.retrieval.exact import ExactStore
from lab.retrieval.retrievers import StoreRetriever
from lab.retrieval.tokens import ScanWords
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.openclaw.memory import normal_row

# Cache keys of the default and the hashing embedder before roles existed. Caches of that time must stay readable.
DEFAULT_KEY, HASHING_KEY = "15b669994bcf9b76", "0f495968a87e7337"


class Prompted(HashingEmbedder):
    """The hashing embedder with prompts; it records what it embeds."""

    def __init__(self, query: str = "ask ", document: str = "keep ") -> None:
        self.prompts = Prompts(query, document)
        self.seen: list[tuple[Role, str]] = []

    def identity(self) -> dict[str, Any]:
        return {"kind": "prompted", "model": "m", **self.prompts.identity()}

    def encode(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
        self.seen += [(role, text) for text in texts]
        return super().encode([self.prompts.of(role) + text for text in texts])


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def test_role_key_without_prompts_is_unchanged() -> None:
    if SentenceTransformerEmbedder().identity()["torch"] == "2.13.0+cpu":
        assert embedder_key(SentenceTransformerEmbedder()) == DEFAULT_KEY
    assert embedder_key(HashingEmbedder()) == HASHING_KEY
    for one in (SentenceTransformerEmbedder(), HashingEmbedder()):
        assert role_key(one, "query") == role_key(one, "document") == embedder_key(one)
        assert roles_of(one) == ("document",)


def test_roles_with_equal_prompts_share_vectors() -> None:
    for embedder, made in ((Prompted("same ", "same "), 1), (Prompted(), 2)):
        vectors = Vectors(embedder)
        assert vectors.prepare(["port"], role="query") + vectors.prepare(["port"], role="document") == made
        equal = vectors.of(["port"], "query").tobytes() == vectors.of(["port"], "document").tobytes()
        assert equal == (made == 1)
    other = Vectors(Prompted("another ", "keep "))
    assert other.prepare(["port"], role="document") == 0, "a document does not depend on the query's prompt"


def test_retriever_embeds_memories_and_prompts_in_their_roles() -> None:
    embedder = Prompted()
    vectors = Vectors(embedder)
    for role in ("query", "document"):
        vectors.prepare(["port"], role=role)
    row = normal_row("k", "port", "port", 0, category="fact", label="nice_to_have", scope="global")
    with closing(StoreRetriever(ExactStore(64), vectors, ScanWords())) as retriever:
        retriever.add([row])
        view = retriever.retrieve("port").view
    (hit,) = view.search(Filter(), 1).vec
    query, document = (vectors.of(["port"], role)[0] for role in ("query", "document"))
    assert hit.distance == pytest.approx(float(((query - document) ** 2).sum()), abs=1e-5)
    assert hit.distance > 0.1


def test_replay_embeds_turns_and_memories_in_their_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Prompted] = []

    def named(_: str) -> Prompted:
        made.append(Prompted())
        return made[-1]

    monkeypatch.setattr("lab.replay.plan.embedder_named", named)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Ports\n\nThe gateway listens on port 9001.\n")
    config = tmp_path / "docs.json"
    cold = {"enabled": True, "sourceRoots": [str(tmp_path / "docs")], "scopeMappingStrategy": "none", "minHotItems": 5}
    config.write_text(json.dumps({"docsColdLane": cold}))
    path = tmp_path / "recordings" / "c.jsonl"
    path.parent.mkdir()
    lines = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": "c", "language": "en"},
        {"kind": "session", "session": "s1", "time": "2026-03-01T09:00:00+00:00", "scope": "global"},
        {"kind": "turn", "turn": "t1", "role": "user", "text": "Host 1 has port 9001."},
        {"kind": "memory", "text": "Port of host 1: 9001."},
        {"kind": "turn", "turn": "t2", "role": "user", "text": "Which port has host 1?"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    asked = ReplayRequest(str(path.parent), "lab", ("hybrid", f"engine={config}"), embedder="prompted")
    outcome = run_replay(asked, tmp_path / "run")
    assert outcome.failures == ()
    seen = [one for embedder in made for one in embedder.seen]
    assert {text for role, text in seen if role == "query"} == {"Host 1 has port 9001.", "Which port has host 1?"}
    documents = {text for role, text in seen if role == "document"}
    assert documents == {"Port of host 1: 9001.", next(text for text in documents if "gateway" in text)}
    several = run_replay(replace(asked), tmp_path / "two", jobs=2, use_cache=False)
    (one,), (two,) = ([read_table(run.receipts("c")).to_pylist()] for run in (outcome.run, several.run))
    assert one == two
    # The index of documents is built for each run, so that no damaged one is believed.
    assert not [*cache_folder().rglob("*.sqlite")]


@pytest.fixture
def folder_with(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a folder with the default model and a configuration of prompts."""

    def made(config: dict[str, Any], **pooling: Any) -> Path:
        published, folder = verified_default_folder(), tmp_path / "my-model"
        shutil.copytree(published, folder, ignore=shutil.ignore_patterns("*.safetensors"))
        (folder / "model.safetensors").symlink_to(published / "model.safetensors")
        (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
        path = folder / "1_Pooling" / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | pooling))
        return folder

    return made


def test_model_folder_prompts_can_be_overridden(
    folder_with: Callable[..., Path], model: SentenceTransformerEmbedder
) -> None:
    folder = folder_with({"prompts": {"query": "query: ", "passage": "passage: "}})
    for name in (str(folder), f"st:{folder}"):
        own = embedder_named(name)
        assert own.identity()["prompts"] == {"query": "query: ", "document": "passage: "}
    assert own.encode(["port"], "query").tobytes() == model.encode(["query: port"]).tobytes()
    assert own.encode(["port"], "document").tobytes() == model.encode(["passage: port"]).tobytes()
    changed = embedder_named(f"st:{folder}?query_prompt=Find%3A &document_prompt=")
    assert changed.identity()["prompts"] == {"query": "Find: ", "document": ""}
    none = embedder_named(f"st:{folder}?query_prompt=&document_prompt=")
    assert (none.identity()["prompt"], roles_of(none)) == ("", ("document",))


def test_model_folder_with_pooling_without_prompts_is_refused(folder_with: Callable[..., Path]) -> None:
    folder = folder_with({"prompts": {"a": "Ask: "}, "default_prompt_name": "a"}, include_prompt=False)
    with pytest.raises(UnusableInput, match="its pooling excludes prompts, which the lab does not support; st:"):
        embedder_named(f"st:{folder}")
