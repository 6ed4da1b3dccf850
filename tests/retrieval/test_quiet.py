"""What LanceDB logs does not reach a command's standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SEARCH = """
import sys
from lab.retrieval.quiet import import_lancedb
table = import_lancedb().connect(sys.argv[1]).create_table("t", [{"id": "a", "vector": [1.0, 2.0]}])
# LanceDB warns of a search that does not select the distance.
table.search([1.0, 2.0]).select(["id"]).to_list()
"""


@pytest.mark.process
@pytest.mark.parametrize("level", [None, "warn"])
def test_lancedb_logs_warnings_only_if_asked_to(tmp_path: Path, level: str | None) -> None:
    named = {name: value for name, value in os.environ.items() if name != "LANCEDB_LOG"}
    named |= {} if level is None else {"LANCEDB_LOG": level}
    done = subprocess.run([sys.executable, "-c", SEARCH, str(tmp_path)], env=named, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("WARN" in done.stderr) is (level == "warn")
