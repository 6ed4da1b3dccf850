"""The guard of the markers: a test without any can start no process and load no model."""

from __future__ import annotations

import multiprocessing
import re
import signal
import subprocess
import sys

import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder
from tests.durations import differs, marks


def test_unmarked_test_that_starts_a_process_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"needs @pytest\.mark\.process: .*'-V'"):
        subprocess.run([sys.executable, "-V"], check=True)
    with pytest.raises(pytest.fail.Exception, match=r"needs @pytest\.mark\.process"):
        multiprocessing.get_context("spawn").Process(target=print).start()


def test_unmarked_test_that_loads_the_model_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"needs @pytest\.mark\.model"):
        SentenceTransformerEmbedder().encode(["kiln"])


def test_test_that_hangs_in_a_regular_expression_fails() -> None:
    signal.setitimer(signal.ITIMER_PROF, 0.05)
    with pytest.raises(pytest.fail.Exception, match="hung: it takes more than 60 seconds of processor time"):
        re.match("(a+)+b", "a" * 40)


def test_markers_follow_the_list() -> None:
    assert set(marks().values()) == {"slow", "full"}
    assert [differs(*pair) for pair in ((0.5, None), (0.7, None), (2, 5.9), (2, 6.1), (2, 0.6))] == [
        *(False, True, False, True, True)
    ]


@pytest.mark.process
def test_marked_test_starts_a_process() -> None:
    assert subprocess.run([sys.executable, "-V"], check=True).returncode == 0
