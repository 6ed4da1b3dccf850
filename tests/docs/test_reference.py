"""The pages that say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import typer

from lab.cli.main import app
from lab.measures.catalogue import CATALOGUE
from lab.systems.openclaw.seed.flow import STAGES as SEED
from lab.systems.openclaw.upstream.flow import STAGES as UPSTREAM

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "measures.md", "knobs.md"])
def test_a_page_of_the_reference_says_what_the_code_says(
    generate: ModuleType, pages: dict[str, str], name: str
) -> None:
    assert set(generate.PAGES) == {"cli.md", "measures.md", "knobs.md"}
    assert pages[f"reference/{name}"] == generate.PAGES[name](), "run: python docs/generate.py"


def test_every_verb_has_a_section_with_its_options_and_its_help(pages: dict[str, str]) -> None:
    sections = dict(re.findall(r"^## lab (.+?)\n(.*?)(?=^## |\Z)", pages["reference/cli.md"], re.MULTILINE | re.DOTALL))
    waiting = [("", typer.main.get_command(app))]
    found = 0
    while waiting:
        name, command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is not None:
            waiting += [(f"{name} {word}".strip(), one) for word, one in inner.items()]
            continue
        found += 1
        text = sections.pop(name)
        for parameter in command.params:
            for option in parameter.opts:
                assert option in text or str(parameter.metavar) in text, (name, option)
        assert "| `--json` |" in text, name
    assert found > 30
    assert sections == {}


def test_every_exit_code_is_told(pages: dict[str, str]) -> None:
    text = pages["reference/cli.md"]
    assert [code for code in (0, 1, 2, 3, 4, 130) if f"\n| {code} | " not in text] == []


def test_every_measure_is_told_with_its_better_side(pages: dict[str, str]) -> None:
    for one in CATALOGUE:
        side = {"higher": "high", "lower": "low", "neither": "–"}[one.better]
        assert f"| `{one.title}` | {side} |" in pages["reference/measures.md"]


def test_a_knob_shows_its_range_and_both_defaults(pages: dict[str, str]) -> None:
    text = pages["reference/knobs.md"]
    for row in (
        "| `autoRecall.maxItems` | whole number 1 … 5 (6 in seed) | 4 | 6 |",
        "| `autoRecall.repeatPenalty` | number 0 … 1 | seed alone | 0.35 |",
        "| `lab.textLane.lane` | `scan`, `index` | `scan` | `index` |",
        "| `workingSet.enabled` | true or false | false | false |",
        "| `lab.phases.score.recency` | true or false | seed alone | true |",
    ):
        assert row in text


def test_the_page_of_the_engine_has_every_stage(pages: dict[str, str]) -> None:
    stages = [name for name, _ in (*SEED, *UPSTREAM)]
    assert [name for name in stages if f"\n| `{name}` | " not in pages["engine.md"]] == []
