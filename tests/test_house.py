"""The figures of ``python -m tests.house``."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests import house


def test_size_counts_statements_and_no_docstring() -> None:
    text = '"""A module."""\n\nx = 1; y = 2\n\n\ndef f() -> int:\n    """Return 1."""\n    return x\n'
    assert house.size_of([text, ""]) == (2, 8, 4)


def test_sizes_are_by_package(tmp_path: Path) -> None:
    (tmp_path / "lab" / "gate" / "deep").mkdir(parents=True)
    for name in ("top.py", "gate/a.py", "gate/deep/b.py"):
        (tmp_path / "lab" / name).write_text("x = 1\n")
    assert house.sizes(tmp_path) == {"(top)": (1, 1, 1), "gate": (2, 2, 2)}


def test_duplicates_ignore_names_only_by_shape() -> None:
    block = [f"    value_{at} = read(source, {at})" for at in range(house.WINDOW)]
    same = {Path("a"): "\n".join(block), Path("b"): "\n".join(block)}
    assert house.duplicates(same) == (1, 1)
    renamed = {Path("a"): "\n".join(block), Path("b"): "\n".join(block).replace("source", "other")}
    assert house.duplicates(renamed) == (0, 1)


def test_words_leave_out_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "README.md").write_text("one two")
    (tmp_path / "CHANGELOG.md").write_text("left out")
    (tmp_path / "docs" / "deep" / "page.md").write_text("three")
    assert house.words(tmp_path) == 3


def test_short_module_with_one_importer_is_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (
        ("lab.a", "lab.short"),
        ("lab.a", "lab.long"),
        ("lab.a", "lab.both"),
        ("lab.b", "lab.both"),
    ):
        graph.add_import(importer=importer, imported=imported)
    texts = {"lab.short": "x\n", "lab.long": "x\n" * 40, "lab.both": "x\n", "lab.a": "x\n", "lab.b": "x\n"}
    assert house.with_one_importer(graph, texts) == ["lab.short"]


@pytest.mark.slow
def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("lab", exclude_type_checking_imports=False, cache_dir=None)
    # Raises CycleError, which names the circle. Imports inside functions and for types count.
    TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()


@pytest.mark.slow
def test_modules_on_the_way_hold_the_turn_loop_and_no_ledger() -> None:
    graph = grimp.build_graph("lab", exclude_type_checking_imports=False, cache_dir=None)
    way = house.on_the_way(graph)
    assert {"lab.replay.loop", "lab.gate.verdict", "lab.report.build"} <= way
    assert "lab.memory.store.tags" not in way
