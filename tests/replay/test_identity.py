"""The identity of a run: citable documents, and scopes named by tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import OtherArguments
from lab.measures.score import score_run

# Messages shorten the differing hashes.
ANOTHER = (
    r"was made with different arguments: arms \(engine: inputs\.local:pears\.md "
    r'"[0-9a-f]{31}… -> "[0-9a-f]{31}…\); choose another --out'
)


def test_run_key_other_documents_differs(desk: Any, tmp_path: Path) -> None:
    desk.say("cited", ("shop", [("user", "how many pears are there", "pears in crate one")] * 3))
    # Two files with one name, outside a repository.
    (tmp_path / "docs" / "old").mkdir(parents=True)
    (tmp_path / "docs" / "old" / "pears.md").write_text("# Pears\n\nPears were not counted.\n", encoding="utf-8")
    (tmp_path / "docs" / "pears.md").write_text("# Pears\n\nPears are counted on Monday.\n", encoding="utf-8")
    lane = {"enabled": True, "sourceRoots": [str(tmp_path / "docs")], "scopeMappingStrategy": "none", "minHotItems": 5}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"autoRecall": {"selectionMode": "tier_quota_v1"}, "docsColdLane": lane}))
    run = desk.run("engine", config=str(config)).run
    rows = desk.rows(desk.run("engine", config=str(config)))
    assert json.loads(rows[-1]["receipt"])["coldLane"]["returned"] == 2
    assert list(run.manifest.resolved.arms[0].inputs) == ["local:old/pears.md", "local:pears.md"]
    # In profile upstream, the later one replaces the earlier; both are inputs.
    outcome = desk.run("engine", out="upstream", config=str(config), profile="upstream")
    assert list(outcome.run.manifest.resolved.arms[0].inputs) == ["local:pears.md", "local:pears.md~2"]
    (tmp_path / "docs" / "pears.md").write_text("# Pears\n\nPears are counted on Friday.\n", encoding="utf-8")
    with pytest.raises(OtherArguments, match=ANOTHER):
        desk.run("engine", config=str(config))


def test_replay_scope_tags_uses_the_scope_in_the_text(desk: Any) -> None:
    memory = ("pears in crate one", {"scope": "farm", "importance_label": "nice_to_have"})
    desk.say("tagged", ("shop", [("user", "[SCOPE: farm]\nhow many pears", memory)] * 3))
    outcome = desk.run("tier_quota_v1", scope="tags")
    assert {row["scope"] for row in desk.rows(outcome)} == {"farm"}
    wrong = [score.value for score in score_run(outcome.run) if score.measure == "WrongScope"]
    assert [value for value in wrong if value is not None] == [0.0, 0.0]
