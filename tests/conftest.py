"""What many tests need: the public recordings and vectors where they are at hand, and a cache of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
SIX = ("harbor-release", "juniper-clinic", "lantern-shop", "orchid-lab", "tea-mountain", "two-desks")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Vectors and tokens of the tests go to a folder of their own, unless ``LAB_CACHE_DIR`` names one to reuse.

    The workers of one test run fill it together: the cache is made for that.
    """
    if "LAB_CACHE_DIR" not in os.environ:
        own = tmp_path_factory.getbasetemp()
        shared_by_all = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
        os.environ["LAB_CACHE_DIR"] = str(shared_by_all / "cache")
        yield
        del os.environ["LAB_CACHE_DIR"]
    else:
        yield


def _shared(*parts: str) -> Path:
    """A file or folder of the public data beside the project; the test is skipped where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"public data {'/'.join(parts)} is not at hand beside the project")
    return path


@pytest.fixture(scope="session")
def shared() -> Callable[..., Path]:
    """Finds public data by its path below the shared folder, or skips."""
    return _shared


@pytest.fixture(scope="session")
def realmem() -> Path:
    """Four personas of RealMem."""
    return _shared("data", "realmem")


@pytest.fixture(scope="session")
def locomo() -> Path:
    """Five conversations of LoCoMo."""
    return _shared("data", "locomo", "locomo5_dev.json")


@pytest.fixture(scope="session")
def vectors() -> Path:
    """Inputs and outputs observed from the public engine."""
    return _shared("parity", "visible")


@pytest.fixture(scope="session")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six of the shipped recordings with their gold, beside each other as in the project.

    What must hold of all of them is tested in test_shipped_sets.py; the rest is quicker over six.
    """
    own = tmp_path_factory.mktemp("shipped")
    for kind in ("datasets", "golden"):
        folder = own / kind / "operators"
        folder.mkdir(parents=True)
        for name in SIX:
            shutil.copyfile(ROOT / kind / "operators" / f"{name}.jsonl", folder / f"{name}.jsonl")
    return own / "datasets" / "operators"
