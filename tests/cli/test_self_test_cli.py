"""``lab gate self-test`` as a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lab.cli.self_test import _sentences
from lab.gate.selftest.faults import shipped_faults
from lab.gate.selftest.run import Draws, Effects, Report, Swapped, Trial

Lab = Callable[..., "CompletedProcess[str]"]
PATCH = """--- a/lab/retrieval/fusion.py
+++ b/lab/retrieval/fusion.py
@@ -14 +14 @@
-K = {old}
+K = {new}
"""


def test_list_shows_faults_with_their_files(lab: Lab, tmp_path: Path) -> None:
    done = lab("gate", "self-test", "--list", "--json", "--fault", "rrf-k-10", "--fault", "time-leak", cwd=tmp_path)
    assert done.returncode == 0
    found = json.loads(done.stdout)["faults"]
    assert [(one["fault"], one["files"]) for one in found] == [
        ("rrf-k-10", ["retrieval/fusion.py"]),
        ("time-leak", ["replay/timeline.py"]),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("59", "10", "hunk 1 of retrieval/fusion.py does not apply"), ("60", "10 +", "is no longer valid Python")],
)
def test_unusable_patch_is_refused_in_one_line(lab: Lab, tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.diff"
    path.write_text(PATCH.format(old=old, new=new), "utf-8")
    done = lab("gate", "self-test", "--patch", path, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("changed", "draws", "failed", "ending"),
    [
        (3, 0, 0, "; caught (policy nightly)"),
        (0, 0, 0, "; NOT CAUGHT (policy nightly)"),
        (3, 5, 1, "; caught, and 1 A/A DRAWS FAILED (policy nightly)"),
    ],
)
def test_self_test_of_one_fault_says_whether_it_is_caught(changed: int, draws: int, failed: int, ending: str) -> None:
    trial = Trial(shipped_faults()[0], None, Effects(changed=changed), 1.0)
    judged = Draws(draws, {Swapped("set", "one", "other"): {"fail": failed} if draws else {}}, {})
    said = _sentences(Report("nightly", (trial,), judged, 10, 1.0, 2.0))
    assert said[-1].endswith(ending)
    # What was not drawn has no line.
    assert any(one.startswith("A/A") for one in said) == bool(draws)
