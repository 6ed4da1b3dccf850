"""The shipped sets match their cards."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from lab.golden.files import read_golden
from lab.golden.lint import lint
from lab.golden.model import ABSENT, CONDITIONS, NOTHING
from lab.recordings.readers import read_library, with_golden

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS, GOLDEN = ROOT / "datasets" / "operators", ROOT / "golden" / "operators"
of_each_set = pytest.mark.parametrize("name", ["harms", "operators", "traps"])


@of_each_set
def test_golden_set_fits_its_recordings(name: str) -> None:
    found = lint(read_golden(ROOT / "golden" / name), read_library(ROOT / "datasets" / name, "lab").recordings)
    assert found.errors == ()
    assert [warning for warning in found.warnings if "reason" in warning or "quotes" in warning] == []


@of_each_set
def test_card_counts_match_the_recordings(name: str) -> None:
    recordings = ROOT / "datasets" / name
    library = with_golden(read_library(recordings, "lab"), read_golden(ROOT / "golden" / name))
    counted = {
        one.conversation: [
            len(one.sessions),
            len(one.turns),
            len(one.memories),
            len(library.golden.of(one.conversation)),
        ]
        for one in library.recordings
    }
    rows = re.findall(r"^\| ([\w-]+) \| [^|]+ \| [^|]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", card(recordings), re.M)
    assert {name: [int(value) for value in values] for name, *values in rows} == counted


@of_each_set
def test_golden_card_counts_match_the_golden_set(name: str) -> None:
    golden = read_golden(ROOT / "golden" / name)
    judgements = sum(len(probe.relevant) + len(probe.forbidden) for probe in golden.probes)
    silent = sum(not probe.relevant for probe in golden.probes)
    text = card(ROOT / "golden" / name)
    assert f"{len(golden.probes)} probes" in text
    absent = sum(probe.slices.get("condition") == ABSENT for probe in golden.probes)
    nothing = f"{silent - absent} need nothing" + (f", {absent} ask for what is not stored" if absent else "")
    assert f"{len(golden.probes) - silent} need memory, {nothing}. {judgements} judgements" in " ".join(text.split())


@of_each_set
@pytest.mark.parametrize("kind", ["datasets", "golden"])
def test_checksums_match_the_files(kind: str, name: str) -> None:
    folder = ROOT / kind / name
    stated = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert stated == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jsonl")}


def test_each_conversation_meets_the_design() -> None:
    """Must memories that fill six slots by themselves, more than one scope, updates that supersede, silent turns."""
    golden = read_golden(GOLDEN)
    for recording in read_library(RECORDINGS, "lab").recordings:
        must = Counter(memory.scope for memory in recording.memories if memory.label == "must_remember")
        probes = golden.of(recording.conversation)
        assert must.most_common(1)[0][1] > 6, recording.conversation
        assert len({turn.scope for turn in recording.turns}) >= 3, recording.conversation
        assert sum(bool(memory.supersedes) for memory in recording.memories) >= 4, recording.conversation
        assert sum(not probe.relevant for probe in probes) >= 3, recording.conversation


def test_each_condition_is_planted_often_in_both_languages() -> None:
    golden = read_golden(GOLDEN)
    language = {recording.conversation: recording.language for recording in read_library(RECORDINGS, "lab").recordings}
    planted = Counter(
        (probe.slices["condition"], language[probe.conversation])
        for probe in golden.probes
        if "condition" in probe.slices
    )
    for condition in CONDITIONS:
        assert sum(count for (name, _), count in planted.items() if name == condition) >= 32, condition
        assert planted[condition, "en"] >= 8 <= planted[condition, "zh-Hant"], condition
    needs_nothing = [probe for probe in golden.probes if probe.slices["type"] == NOTHING]
    assert len(golden.probes) >= 560
    assert len(needs_nothing) >= 125
    assert not any("condition" in probe.slices for probe in needs_nothing)


@pytest.mark.parametrize("name", ["harms", "operators"])
def test_every_probe_has_two_more_judges_and_settled_conflicts(name: str) -> None:
    gold = ROOT / "golden" / name
    golden = {probe.turn: probe for probe in read_golden(gold).probes}
    judges = gold / "judges"
    votes = [{probe.turn: probe for probe in read_golden(judges / one).probes} for one in ("second", "third")]
    assert all(vote.keys() == golden.keys() for vote in votes)
    settled = [json.loads(line) for line in (judges / "settled.jsonl").read_text("utf-8").splitlines()]
    decided = {(one["turn"], one["memory"]): one["settled"] for one in settled if one["what"] == "relevant"}
    assert all(golden[turn].grades.get(memory, 0) == grade for (turn, memory), grade in decided.items())
    assert f"All {len(settled)} disagreements ({len(decided)} on what is relevant" in " ".join(card(gold).split())
    for turn, probe in golden.items():
        for memory in {*probe.grades, *votes[0][turn].grades, *votes[1][turn].grades} - {
            m for t, m in decided if t == turn
        }:
            assert probe.grades.get(memory) == votes[0][turn].grades.get(memory) == votes[1][turn].grades.get(memory)


def test_each_family_of_harm_is_planted_in_each_conversation_and_the_halves_are_drawn() -> None:
    golden = read_golden(ROOT / "golden" / "harms")
    names = sorted({probe.conversation for probe in golden.probes})
    families = {probe.slices["family"] for probe in golden.probes}
    assert (len(names), len(families)) == (24, 14)
    for name in names:
        assert {probe.slices["family"] for probe in golden.of(name)} == families, name
    shuffled = names.copy()
    Random(20261129).shuffle(shuffled)
    choosing = {probe.conversation for probe in golden.probes if probe.slices["half"] == "choosing"}
    assert choosing == set(shuffled[:12])
    for language in ("en", "zh-Hant"):
        counts = Counter(probe.slices["family"] for probe in golden.probes if probe.slices["language"] == language)
        assert min(counts[family] for family in families) >= 8, language


def card(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")
