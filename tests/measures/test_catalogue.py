"""The catalogue is the only list of measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.base.files import read_json_lines
from lab.base.set_registry import golden_at, recordings_at
from lab.measures.catalogue import (
    ALIASES,
    BY_NAME,
    CATALOGUE,
    MEASURES,
    RANKED,
    canonical,
    direction,
    is_better,
    listed,
)
from lab.measures.model import LAST
from lab.measures.score import score_run
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest

UNITS = {"probe", "turn", "conversation"}


@pytest.fixture(scope="module")
def scored(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Return the units with a value, by name of the measure and cutoff.

    The arms have values of all measures: one has a Working Set, and one writes.
    """
    folder = tmp_path_factory.mktemp("catalogue")
    # The shipped set has no answers.
    judged = [line for _, line in read_json_lines(golden_at("shipped:harms") / "allotment-board.jsonl")]
    golden = [json.dumps(line | {"answer": "never"}) for line in judged]
    (folder / "answered.jsonl").write_text("\n".join(golden), "utf-8")
    given = ReplayRequest(
        str(recordings_at("shipped:harms")),
        "lab",
        ("hybrid", "seed_full"),
        golden=str(folder / "answered.jsonl"),
        conversation=("allotment-board",),
        haystack=0,
        embedder="hashing",
        hard_rules=1,
    )
    captured = ReplayRequest(str(operators), "lab", ("verbatim",), limit=1, embedder="hashing", source="captured")
    result: dict[str, dict[str, set[str]]] = {}
    for name, asked in (("given", given), ("captured", captured)):
        for one in score_run(run_replay(asked, folder / name).run):
            stem, _, cutoff = (one.measure, "", "") if one.measure in BY_NAME else one.measure.partition("@")
            result.setdefault(stem, {}).setdefault(cutoff, set()).add(one.at)
    return result


def test_catalogue_lists_exactly_the_scored_measures(scored: dict[str, dict[str, set[str]]]) -> None:
    assert set(scored) == {one.name for one in CATALOGUE}
    assert len(CATALOGUE) == len(scored)
    assert {stem for stem, by in scored.items() if "" not in by} == {one.name for one in CATALOGUE if one.cut}
    assert all(len(by) == 1 for by in scored.values() if "" in by)


def test_catalogue_units_are_those_with_values(scored: dict[str, dict[str, set[str]]]) -> None:
    probes = next(iter(scored["Success"].values()))
    for one in CATALOGUE:
        assert one.unit in UNITS
        places = set().union(*scored[one.name].values())
        slashes = {place.count("/") for place in places}
        # Probes are judged turns; conversations have a name of their own.
        assert slashes == ({0} if one.unit == "conversation" else {2}), one.name
        assert places.isdisjoint(probes) == (one.unit == "conversation" or one.name.startswith("False")), one.name
        if one.unit == "turn":
            assert len(places) > len(probes)


def test_catalogue_rank_measures_parse_in_files() -> None:
    assert {one.name for one in CATALOGUE if one.source in ("trec_eval", "ir_measures")} == set(RANKED) - {"AllGold"}
    assert not {one.name for one in CATALOGUE if one.graded} - set(RANKED)


def test_is_better_follows_the_direction() -> None:
    assert [is_better("R@6", *interval) for interval in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1), (0, 0.1))] == [
        *(True, False, None, None)
    ]
    assert [is_better("Forbidden@6", *interval) for interval in ((0.1, 0.2), (-0.2, -0.1))] == [False, True]
    assert is_better("RepeatRate(probes)", -0.2, -0.1) is True
    assert is_better("InjectedChars", -20, -10) is None
    assert direction("stranger") == "neither"


def test_canonical_accepts_aliases() -> None:
    assert [canonical(name) for name in ("hit@5", "MRR", "recall@7", "nDCG@3", "stranger@2")] == [
        *("Success@5", "RR", "R@7", "nDCG@3", "stranger@2")
    ]
    assert {one: ALIASES[one] for one in ("hit", "recall", "precision", "ndcg", "mrr", "map")} == ALIASES


def test_catalogue_is_sorted_by_unit_and_order() -> None:
    assert [measure.unit for measure in MEASURES] == sorted(
        (measure.unit for measure in MEASURES), key=["probe", "turn", "conversation"].index
    )
    assert [measure.name for measure in MEASURES][:3] == ["Success", "R", "AllGold"]
    # Measures without an order of their own are last and sorted by name.
    ordered = [measure for measure in MEASURES if measure.order != LAST]
    assert len({(measure.unit, measure.order) for measure in ordered}) == len(ordered), "two measures with one order"


def test_catalogue_sorts_measures_without_order_last_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.measures import definitions

    monkeypatch.setattr(definitions, "__path__", [*definitions.__path__, str(tmp_path)])
    text = Path(definitions.__path__[0], "duplicates.py").read_text("utf-8")
    for name in ("Zebra", "Ant"):
        copy = text.replace('name="Duplicates"', f'name="{name}"').replace("order=120,", "")
        (tmp_path / f"last_{name.lower()}.py").write_text(copy)
    names = [measure.name for measure in listed() if measure.unit == "turn"]
    assert names[-2:] == ["Ant", "Zebra"]


def test_catalogue_lists_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.measures import definitions

    monkeypatch.setattr(definitions, "__path__", [*definitions.__path__, str(tmp_path)])
    text = Path(definitions.__path__[0], "duplicates.py").read_text("utf-8")
    (tmp_path / "added_here.py").write_text(
        text.replace('name="Duplicates"', 'name="Added"').replace("order=120", "order=121")
    )
    names = [one.name for one in listed()]
    assert names[names.index("Added") - 1] == "Duplicates"
    assert len(names) == len(MEASURES) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"wrong_here_\d+: a file of this package defines MEASURE"),
        ("from lab.measures.definitions.duplicates import MEASURE\n", "two measures are called 'duplicates'"),
    ],
)
def test_catalogue_bad_file_or_taken_name_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    from lab.measures import definitions

    monkeypatch.setattr(definitions, "__path__", [*definitions.__path__, str(tmp_path)])
    (tmp_path / f"wrong_here_{len(text)}.py").write_text(text)
    with pytest.raises(TypeError, match=message):
        listed()
