"""One list of measures: whoever scores, compares or draws looks there."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.measures.catalogue import CATALOGUE, direction, is_better
from lab.measures.ranking import KNOWN
from lab.measures.score import score_run
from lab.replay.plan import Asked
from lab.replay.run import run_replay

UNITS = {"probe", "turn", "conversation"}


@pytest.fixture(scope="module")
def scored(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """By stem of a measure, the places that have a value, by cutoff: of an arm that has a digest, too."""
    asked = Asked(str(operators), "lab", ("hybrid", "seed_full"), limit=1, embedder="hashing", hard_rules=1)
    run = run_replay(asked, tmp_path_factory.mktemp("catalogue") / "run").run
    found: dict[str, dict[str, set[str]]] = {}
    for one in score_run(run):
        stem, _, cutoff = one.measure.partition("@")
        found.setdefault(stem, {}).setdefault(cutoff, set()).add(one.at)
    return found


def test_what_is_scored_is_in_the_catalogue_and_the_other_way_round(scored: dict[str, dict[str, set[str]]]) -> None:
    assert set(scored) == {one.name for one in CATALOGUE}
    assert len(CATALOGUE) == len(scored)
    assert {stem for stem, by in scored.items() if "" not in by} == {one.name for one in CATALOGUE if one.cut}
    assert all(len(by) == 1 for by in scored.values() if "" in by)


def test_the_unit_is_what_has_values(scored: dict[str, dict[str, set[str]]]) -> None:
    probes = next(iter(scored["Success"].values()))
    for one in CATALOGUE:
        assert one.unit in UNITS
        places = set().union(*scored[one.name].values())
        slashes = {place.count("/") for place in places}
        # A probe is a turn that is judged; a conversation is named alone.
        assert slashes == ({0} if one.unit == "conversation" else {2}), one.name
        assert places.isdisjoint(probes) == (one.unit == "conversation" or one.name.startswith("False")), one.name
        if one.unit == "turn":
            assert len(places) > len(probes)


def test_rank_measures_have_the_names_that_files_are_scored_by() -> None:
    assert {one.name for one in CATALOGUE if one.source in ("trec_eval", "ir_measures")} == set(KNOWN) - {"AllGold"}
    assert not {one.name for one in CATALOGUE if one.graded} - set(KNOWN)


def test_a_change_is_for_the_better_by_its_direction() -> None:
    assert [is_better("R@6", *interval) for interval in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1), (0, 0.1))] == [
        *(True, False, None, None)
    ]
    assert [is_better("Forbidden@6", *interval) for interval in ((0.1, 0.2), (-0.2, -0.1))] == [False, True]
    assert is_better("RepeatRate(probes)", -0.2, -0.1) is True
    assert is_better("InjectedChars", -20, -10) is None
    assert direction("stranger") == "neither"
