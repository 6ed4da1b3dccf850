"""The reference pages agree with the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import typer

from lab.cli.main import app
from lab.measures.catalogue import CATALOGUE
from lab.systems.external.protocol import ANSWERS, REQUESTS, TIMEOUTS
from lab.systems.openclaw.seed.stages import STAGES as SEED
from lab.systems.openclaw.upstream.stages import STAGES as UPSTREAM

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """Return the text of each reference page by its name."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: page() for name, page in module.PAGES.items()}


def test_every_command_has_a_section_with_its_options(reference: dict[str, str]) -> None:
    sections = dict(re.findall(r"^## lab (.+?)\n(.*?)(?=^## |\Z)", reference["cli"], re.MULTILINE | re.DOTALL))
    waiting = [("", typer.main.get_command(app))]
    commands = 0
    while waiting:
        name, command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is not None:
            waiting += [
                (f"{name} {word}".strip(), subcommand) for word, subcommand in inner.items() if not subcommand.hidden
            ]
            continue
        commands += 1
        text = sections.pop(name)
        for parameter in command.params:
            for option in parameter.opts:
                assert option in text or str(parameter.metavar) in text, (name, option)
        assert "| `--json` |" in text, name
    assert commands > 30
    assert sections == {}


def test_every_exit_code_is_listed(reference: dict[str, str]) -> None:
    text = reference["cli"]
    assert [code for code in (0, 1, 2, 3, 4, 130) if f"\n| {code} | " not in text] == []


def test_every_measure_is_listed_with_its_better_direction(reference: dict[str, str]) -> None:
    for measure in CATALOGUE:
        direction = {"higher": "high", "lower": "low", "neither": "–"}[measure.better]
        assert f"| `{measure.title}` | {direction} |" in reference["measures"]


def test_knobs_are_listed_with_range_and_both_defaults(reference: dict[str, str]) -> None:
    text = reference["knobs"]
    for row in (
        "| `autoRecall.maxItems` | whole number 1 … 5 (6 in seed) | 4 | 6 |",
        "| `autoRecall.repeatPenalty` | number 0 … 1 | seed alone | 0.35 |",
        "| `lab.textLane.lane` | `scan`, `index` | `scan` | `index` |",
        "| `workingSet.enabled` | true or false | false | false |",
        "| `lab.phases.score.recency` | true or false | seed alone | true |",
    ):
        assert row in text


def test_engine_page_lists_every_stage(pages: dict[str, str]) -> None:
    stages = [name for name, _ in (*SEED, *UPSTREAM)]
    assert [name for name in stages if f"\n| `{name}` | " not in pages["engine.md"]] == []


def test_protocol_lists_every_field_of_every_operation(reference: dict[str, str]) -> None:
    text = reference["protocol"]
    assert {*REQUESTS} == {*ANSWERS} == {*TIMEOUTS}
    for op in REQUESTS:
        section = text.partition(f"\n## {op}\n")[2].partition("\n## ")[0]
        assert [name for name in (*REQUESTS[op], *ANSWERS[op]) if f"\n| `{name}` | " not in section] == [], op
    for row in (
        "| `cutoff` | integer, 1 or more | required | number of items that it intends to inject |",
        '| `status` | "ok" or "skipped" or "degraded" | `"ok"` | whether it chose silence, or lost a part |',
        "| `sources` | list of string | – | keys of the turns or memories that it came from |",
    ):
        assert row in text
