"""Compare a few turns of the live engine with ``upstream``; needs Node and ``LAB_PLUGIN``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the modules of this folder importable, as for the program."""
    monkeypatch.syspath_prepend(HERE)


@pytest.mark.usefixtures("peers")
@pytest.mark.parametrize("number", range(8))
def test_upstream_answers_each_family_as_the_live_plugin(tmp_path: Path, number: int) -> None:
    from beside import compare
    from families import families
    from needs import Missing, find_node, find_plugin

    try:
        node, folder = find_node(), find_plugin(None)
    except Missing as missing:
        pytest.skip(str(missing))
    family = families(turns=12)[number]
    found = list(compare(node, folder, family, tmp_path, ["first-set", "quota-set-kept", "quota-receipt"]))
    assert [one.first for one in found] == ["", "", ""]
    assert [one.equal for one in found] == [12, 12, 12]
    # Long receipts may leave no room for a memory.
    assert all(one.injected for one in found[:2])


@pytest.mark.usefixtures("peers")
def test_needs_without_node_or_plugin_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from needs import Missing, find_node, find_plugin

    monkeypatch.delenv("LAB_PLUGIN", raising=False)
    with pytest.raises(Missing, match="no plugin: give the folder of openclaw-mem-engine, or name it in LAB_PLUGIN"):
        find_plugin(None)
    with pytest.raises(Missing, match=r"holds no index\.ts"):
        find_plugin(str(tmp_path))
    (tmp_path / "index.ts").write_text("")
    with pytest.raises(Missing, match="its packages are not installed"):
        find_plugin(str(tmp_path))
    monkeypatch.setenv("LAB_NODE", str(tmp_path / "node"))
    with pytest.raises(Missing, match="does not run"):
        find_node()
    monkeypatch.setenv("LAB_NODE", sys.executable)
    with pytest.raises(Missing, match=r"is Python .*, and 22\.15 or later is needed"):
        find_node()
    monkeypatch.delenv("LAB_NODE")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="no Node here"):
        find_node()
