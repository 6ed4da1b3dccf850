"""External systems in a league: one that works is ranked, those that do not what they are named for are refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lab.systems.external import host
from tests.playing import OPERATORS
from tests.studies.league.conftest import BUDGETS, run

pytestmark = pytest.mark.slow
OBJECTS = """
class Keeps:
    about = {"name": "keeps", "version": "1", "cutoff": 8, "at_most": 8, "writes": False}

    def __init__(self, hello):
        self.texts, self.hooks = {}, 0

    def remember(self, memories):
        self.texts |= {memory["key"]: memory["text"] for memory in memories}

    def forget(self, keys):
        self.texts = {key: text for key, text in self.texts.items() if key not in keys}

    def recall(self, request):
        words = set(request["text"].lower().split())
        keys = sorted(self.texts, key=lambda key: (-len(words & set(self.texts[key].lower().split())), key))
        return [{"id": key, "text": self.texts[key]} for key in keys[:8]]

    def prove(self):
        return {"stored": len(self.texts), "hooks": {"before_prompt_build": self.hooks}}


class Hooked(Keeps):
    about = Keeps.about | {"name": "hooked", "claims": ["relevant", "hook:before_prompt_build"]}


class Forgets(Keeps):
    about = Keeps.about | {"name": "forgets", "claims": ["stored"]}

    def remember(self, memories):
        pass


class Silent(Keeps):
    about = Keeps.about | {"name": "silent", "needs": ["embedder"]}


class Thinks(Keeps):
    about = Keeps.about | {"name": "thinks", "needs": ["model"]}
"""


def test_external_arms_are_ranked_or_refused_by_their_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "objects.py").write_text(OBJECTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    names = ("Keeps", "Hooked", "Forgets", "Silent", "Thinks")
    arms = [f"{name.lower()}=exec:{sys.executable} {host.__file__} objects:{name}" for name in names]
    league = run(tmp_path / "out", [f"one={OPERATORS}/harbor-release.jsonl:lab"], ("bm25", *arms))
    status = {one.arm: (one.status, one.reason.partition(":")[0]) for one in league.standings}
    assert status == {
        "bm25": ("ranked", ""),
        "keeps": ("ranked", ""),
        "hooked": ("refused", "hook"),
        "forgets": ("refused", "stored"),
        "silent": ("refused", "embedder"),
        "thinks": ("needs a model", "it needs a language model, and is given none"),
    }
    cells = {row.budget: row.cells for row in league.rows if row.arm == "keeps"}
    for budget in BUDGETS:
        assert 0 < cells[budget]["tokens"].mean <= budget
    assert cells[BUDGETS[0]]["items"].mean < cells[BUDGETS[1]]["items"].mean <= 8
    # One run of a process serves all budgets, and it is admitted as `lab replay` admits it.
    proofs = json.loads((tmp_path / "out" / "runs" / "one" / "keeps" / "admission.json").read_text())
    assert [arm["passed"] for arm in proofs["arms"]] == [True] * (1 + len(BUDGETS))
