"""The doctor passes on an intact machine, and names each fault without a traceback."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from lab.embedding import embedder
from lab.replay import doctor
from lab.replay.doctor import PINNED, Check, examine
from lab.retrieval import tokens

NAMES = ["python", *PINNED, "embedder", "cache", "text index"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LAB_CACHE_DIR", str(folder))
    return folder


def failed(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if not check.ok}


def test_examine_this_machine_passes(cache: Path) -> None:
    checks = examine()
    assert failed(checks) == {}
    assert [check.name for check in checks] == NAMES
    details = {check.name: check.detail for check in checks}
    assert details["lancedb"] == PINNED["lancedb"]
    assert details["torch"].split("+")[0] == PINNED["torch"]
    assert details["embedder"] == "all-MiniLM-L6-v2, weights as published"
    assert details["cache"] == str(cache)
    assert details["text index"] == "stems words and drops stop words: roll, back, migrat"


def test_examine_leaves_no_files_and_restores_the_environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cache.parent)
    before = dict(os.environ)
    examine()
    assert {key: value for key, value in os.environ.items() if before.get(key) != value} == {}
    assert [str(path.relative_to(cache.parent)) for path in cache.parent.rglob("*")] == ["cache"]
    monkeypatch.delenv("LAB_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent / "xdg"))
    assert failed(examine()) == {}
    assert "LAB_CACHE_DIR" not in os.environ


@pytest.mark.parametrize("package", list(PINNED))
def test_examine_other_version_of_a_pinned_package_fails(
    cache: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(doctor, "version", lambda name: "9.9.9+cpu" if name == package else real(name))
    assert failed(examine()) == {package: f"9.9.9+cpu, figures were measured with {PINNED[package]}"}


@pytest.mark.parametrize("package", list(PINNED))
def test_examine_missing_package_fails(cache: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor, "version", version)
    assert failed(examine()) == {package: "not installed"}


def test_examine_build_tag_is_ignored(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: f"{PINNED[name]}+cpu")
    assert failed(examine()) == {}


def test_examine_altered_weights_fail(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = embedder.DEFAULT_WEIGHTS
    monkeypatch.setattr(embedder, "DEFAULT_WEIGHTS", "0" * 64)
    result = failed(examine())
    assert list(result) == ["embedder"]
    assert f"weights have sha256 {real}, but {'0' * 64} was published" in result["embedder"]


def test_examine_missing_weights_fail(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "DEFAULT_PACKAGE", "no_such_package_of_weights")
    assert failed(examine()) == {
        "embedder": "the default embedder is missing; install the package no-such-package-of-weights"
    }


@pytest.mark.parametrize("below", ["", "deeper"])
def test_examine_read_only_cache_fails(cache: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    cache.write_text("in the way")
    monkeypatch.setenv("LAB_CACHE_DIR", str(cache / below))
    result = failed(examine())
    assert list(result) == ["cache"]
    assert str(cache) in result["cache"]


def test_examine_other_tokenisation_fails(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without stemming, text search uses other words than the published figures."""
    real = tokens.TextSettings
    monkeypatch.setattr(doctor, "TextSettings", lambda: real(stem=False))
    assert failed(examine()) == {
        "text index": "finds rolling, back, migrations in 'Rolling back the migrations', expected roll, back, migrat"
    }


def test_examine_failing_text_index_restores_the_environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no tokenizer named icu")

    monkeypatch.setattr(tokens, "table_with_index", broken)
    assert failed(examine()) == {"text index": "RuntimeError: no tokenizer named icu"}
    assert os.environ["LAB_CACHE_DIR"] == str(cache)
