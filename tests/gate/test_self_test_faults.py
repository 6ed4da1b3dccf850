"""Fault files and patches: shipped faults apply, and invalid ones give a reason."""

from __future__ import annotations

import ast
import difflib
import re
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.gate.selftest.faults import PACKAGE, Fault, apply, change, edited, read_faults, shipped_faults
from lab.gate.selftest.patch import read_patch

FUSE = "retrieval/fusion.py"
FUSION = "lab.retrieval.fusion"
FAULT = f"[[fault]]\nname = 'a'\nabout = 'a'\nin = '{FUSION}'\nchange = 'K ='\nto = '1'\n"


def test_shipped_faults_apply_and_compile() -> None:
    stale = {}
    for fault in shipped_faults():
        try:
            for name, text in edited(PACKAGE, fault).items():
                compile(text, name, "exec")
        except (UnusableInput, SyntaxError) as error:
            stale[fault.name] = str(error)
    assert stale == {}


def test_shipped_faults_are_distinct_and_cover_recall() -> None:
    faults = shipped_faults()
    assert len({fault.name for fault in faults}) == len(faults) >= 40
    touched = {Path(file).name for fault in faults for file in fault.files}
    assert touched >= {
        *("policies.py", "outcome.py", "memory.py", "fusion.py", "exact.py", "lance.py"),
        *("hot_lane.py", "exact_hit.py", "score.py", "working_set.py", "near_duplicate.py"),
        *("trivial.py", "scope.py", "block.py", "loop.py", "working_set.py", "retrieve.py"),
    }


def test_apply_edits_a_copy_only(tmp_path: Path) -> None:
    copy = tmp_path / FUSE
    copy.parent.mkdir(parents=True)
    copy.write_text((PACKAGE / FUSE).read_text("utf-8"), "utf-8")
    before = (PACKAGE / FUSE).read_bytes()
    fault = Fault("k", "k", (change(FUSION, "K =", "10"),))
    apply(tmp_path, fault)
    assert "K = 10" in copy.read_text("utf-8")
    assert (PACKAGE / FUSE).read_bytes() == before
    with pytest.raises(UnusableInput, match="copies only"):
        apply(PACKAGE, fault)


SOURCE = """
LOW, HIGH = 1, 2
class Scale:
    top: int = 3
    def at(self, place):
        'Docs.'
        step = place + 1
        def inner(one):
            return (place  +  1) * one
        if place > 9: return step
        # The name of a parameter does not count as an occurrence.
        self.place = inner(place + 1)
"""


@pytest.mark.parametrize(
    ("within", "what", "to", "old", "new"),
    [
        ("", "LOW,HIGH =", "it[::-1]", "LOW, HIGH = 1, 2", "LOW, HIGH = (1, 2)[::-1]"),
        (":Scale", "top =", "it + it", "top: int = 3", "top: int = 3 + 3"),
        (":Scale.at", "step =", "0", "step = place + 1", "step = 0"),
        (":Scale.at", "self.place =", "None", "self.place = inner(place + 1)", "self.place = None"),
        (":Scale.at", "return", "-it", "return step", "return -step"),
        (":Scale.at", "start", "place -= 1", "'Docs.'", "place -= 1; 'Docs.'"),
        (":Scale.at.inner", "( place + 1 )", "it - one", "place  +  1", "place + 1 - one"),
        (":Scale.at", "place > 9", "not it", "place > 9", "not place > 9"),
    ],
)
def test_change_edits_only_the_named_target(within: str, what: str, to: str, old: str, new: str) -> None:
    assert SOURCE.count(old) == 1
    found = change(f"lab.any{within}", what, to).change(SOURCE)
    assert found == ast.unparse(ast.parse(SOURCE.replace(old, new)))


def test_change_replaces_every_occurrence_outside_nested_functions() -> None:
    found = change("lab.any:Scale.at", "place + 1", "it + 1").change(SOURCE)
    assert found.count("place + 1 + 1") == 2
    assert "(place + 1) * one" in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fault = 1", r"expected \[\[fault\]\] tables"),
        ("x = ", "not TOML"),
        (FAULT.replace("to = '1'", ""), "fault 1: to: expected text"),
        (FAULT.replace("change", "chang"), "unknown key 'chang'"),
        (FAULT.replace("K =", "K +"), "this is not Python: K +"),
        (FAULT.replace("'1'", "'1 +'"), "this is not Python"),
        (FAULT.replace("lab.retrieval.fusion", "../lab"), "expected lab.MODULE or lab.MODULE:FUNCTION"),
        (2 * FAULT, "two faults are named 'a'"),
    ],
)
def test_read_faults_invalid_file_says_why(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(UnusableInput, match=message):
        read_faults(path)


@pytest.mark.parametrize(
    ("within", "what", "message"),
    [
        (FUSION, "NOWHERE =", f"{FUSION} has 'NOWHERE =' 0 times"),
        (f"{FUSION}:fuse", "there_is_no_such_call()", "0 times; one or more are expected"),
        (f"{FUSION}:fuse", "return", f"{FUSION}:fuse has 'return' 3 times; one is expected"),
        (f"{FUSION}:melt", "return", f"there is no {FUSION}:melt"),
        ("lab.engine.nowhere", "K =", "there is no module lab.engine.nowhere"),
    ],
)
def test_change_that_does_not_apply_says_why(within: str, what: str, message: str) -> None:
    with pytest.raises(UnusableInput, match=f"fault 'mine' does not apply: .*{re.escape(message)}"):
        edited(PACKAGE, Fault("mine", "mine", (change(within, what, "1"),)))


def _patch(path: Path, change: str, *, name: str = f"lab/{FUSE}", context: int = 3) -> Path:
    old = (PACKAGE / FUSE).read_text("utf-8")
    new = old.replace("K = 60", change).replace("    fused.sort()", "    fused.sort(reverse=True)")
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}", n=context)
    path.write_text("".join(lines), "utf-8")
    return path


@pytest.mark.parametrize("context", [0, 1, 3])
def test_read_patch_reproduces_the_patched_file(tmp_path: Path, context: int) -> None:
    fault = read_patch(_patch(tmp_path / "two-places.diff", "K = 1", context=context), PACKAGE)
    old = (PACKAGE / FUSE).read_text("utf-8")
    new = old.replace("K = 60", "K = 1").replace("    fused.sort()", "    fused.sort(reverse=True)")
    assert fault.name == "two-places"
    assert edited(PACKAGE, fault) == {FUSE: new}


def test_read_patch_finds_moved_lines(tmp_path: Path) -> None:
    path = _patch(tmp_path / "moved.diff", "K = 1")
    text = path.read_text("utf-8")
    path.write_text(text.replace("@@ -", "@@ -3"), "utf-8")
    assert "K = 1\n" in edited(PACKAGE, read_patch(path, PACKAGE))[FUSE]


def test_read_patch_adds_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "new.diff"
    path.write_text("--- /dev/null\n+++ b/lab/systems/openclaw/odd.py\n@@ -0,0 +1,2 @@\n+ONE = 1\n+TWO = 2\n", "utf-8")
    assert edited(PACKAGE, read_patch(path, PACKAGE)) == {"systems/openclaw/odd.py": "ONE = 1\nTWO = 2\n"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("K = 60", "K = 59"), "hunk 1 of retrieval/fusion.py does not apply"),
        (("lab/retrieval/fusion.py", "lab/systems/openclaw/recall/gone.py"), "the package has no file"),
        (("lab/retrieval/fusion.py", "lab/../../etc/hosts"), "not a file of the package"),
        (("@@ -", "@@ "), "not the header of a hunk"),
        (("--- a/", "rename from a/"), "only changes of text"),
        (("+K = 1\n", ""), "do not match the counts|not the header|must begin with"),
    ],
)
def test_read_patch_that_does_not_apply_says_where(tmp_path: Path, wrong: tuple[str, str], message: str) -> None:
    path = _patch(tmp_path / "wrong.diff", "K = 1")
    path.write_text(path.read_text("utf-8").replace(*wrong), "utf-8")
    with pytest.raises(UnusableInput, match=message):
        read_patch(path, PACKAGE)


@pytest.mark.parametrize("text", ["", "just words\n", "--- a/lab/x.py\n+++ b/lab/x.py\n"])
def test_read_patch_of_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "words.diff"
    path.write_text(text, "utf-8")
    with pytest.raises(UnusableInput, match=r"no unified diff|no hunk"):
        read_patch(path, PACKAGE)
