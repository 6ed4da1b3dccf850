"""The guard of the markers: a test without any can start no process and load no model."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder


def test_unmarked_test_that_starts_a_process_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"needs @pytest\.mark\.process: .*'-V'"):
        subprocess.run([sys.executable, "-V"], check=True)
    with pytest.raises(pytest.fail.Exception, match=r"needs @pytest\.mark\.process"):
        multiprocessing.get_context("spawn").Process(target=print).start()


def test_unmarked_test_that_loads_the_model_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"needs @pytest\.mark\.model"):
        SentenceTransformerEmbedder().encode(["kiln"])


@pytest.mark.process
def test_marked_test_starts_a_process() -> None:
    assert subprocess.run([sys.executable, "-V"], check=True).returncode == 0
