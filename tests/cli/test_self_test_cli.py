"""``lab gate self-test`` as a process: what can be tried, and what cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Lab = Callable[..., "CompletedProcess[str]"]
PATCH = """--- a/lab/engine/recall/fuse.py
+++ b/lab/engine/recall/fuse.py
@@ -14 +14 @@
-K = {old}
+K = {new}
"""


def test_the_faults_are_listed_with_what_they_edit(lab: Lab, tmp_path: Path) -> None:
    done = lab("gate", "self-test", "--list", "--json", "--fault", "rrf-k-10", "--fault", "time-leak", cwd=tmp_path)
    assert done.returncode == 0
    found = json.loads(done.stdout)["faults"]
    assert [(one["fault"], one["files"]) for one in found] == [
        ("rrf-k-10", ["engine/recall/fuse.py"]),
        ("time-leak", ["replay/loop.py"]),
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [("59", "10", "hunk 1 of engine/recall/fuse.py does not apply"), ("60", "10 +", "is no Python any more")],
)
def test_a_patch_that_cannot_be_tried_is_told_in_one_line(
    lab: Lab, tmp_path: Path, old: str, new: str, told: str
) -> None:
    path = tmp_path / "mine.diff"
    path.write_text(PATCH.format(old=old, new=new), "utf-8")
    done = lab("gate", "self-test", "--patch", path, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
