"""One list of measures: whoever scores, compares or draws looks there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.measures.catalogue import ALIASES, CATALOGUE, MEASURES, RANKED, canonical, direction, is_better, listed
from lab.measures.score import score_run
from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay

UNITS = {"probe", "turn", "conversation"}


@pytest.fixture(scope="module")
def scored(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """By stem of a measure, the places that have a value, by cutoff.

    The arms are some of which everything is told: one has a digest, and one writes.
    """
    given = ReplayRequest(str(operators), "lab", ("hybrid", "seed_full"), limit=1, embedder="hashing", hard_rules=1)
    captured = ReplayRequest(str(operators), "lab", ("verbatim",), limit=1, embedder="hashing", source="captured")
    folder = tmp_path_factory.mktemp("catalogue")
    found: dict[str, dict[str, set[str]]] = {}
    for name, asked in (("given", given), ("captured", captured)):
        for one in score_run(run_replay(asked, folder / name).run):
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
    assert {one.name for one in CATALOGUE if one.source in ("trec_eval", "ir_measures")} == set(RANKED) - {"AllGold"}
    assert not {one.name for one in CATALOGUE if one.graded} - set(RANKED)


def test_a_change_is_for_the_better_by_its_direction() -> None:
    assert [is_better("R@6", *interval) for interval in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1), (0, 0.1))] == [
        *(True, False, None, None)
    ]
    assert [is_better("Forbidden@6", *interval) for interval in ((0.1, 0.2), (-0.2, -0.1))] == [False, True]
    assert is_better("RepeatRate(probes)", -0.2, -0.1) is True
    assert is_better("InjectedChars", -20, -10) is None
    assert direction("stranger") == "neither"


def test_a_measure_may_be_called_by_its_other_names() -> None:
    assert [canonical(name) for name in ("hit@5", "MRR", "recall@7", "nDCG@3", "stranger@2")] == [
        *("Success@5", "RR", "R@7", "nDCG@3", "stranger@2")
    ]
    assert {one: ALIASES[one] for one in ("hit", "recall", "precision", "ndcg", "mrr", "map")} == ALIASES


def test_measures_are_listed_by_unit_and_then_in_a_fixed_order() -> None:
    assert [one.unit for one in MEASURES] == sorted(
        (one.unit for one in MEASURES), key=["probe", "turn", "conversation"].index
    )
    assert [one.name for one in MEASURES][:3] == ["Success", "R", "AllGold"]
    assert len({(one.unit, one.order) for one in MEASURES}) == len(MEASURES), "two stand at one place"


def test_a_file_is_a_measure_by_being_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_file_that_is_no_measure_or_has_a_taken_name_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    from lab.measures import definitions

    monkeypatch.setattr(definitions, "__path__", [*definitions.__path__, str(tmp_path)])
    (tmp_path / f"wrong_here_{len(text)}.py").write_text(text)
    with pytest.raises(TypeError, match=message):
        listed()


@pytest.mark.process
def test_listing_measures_loads_no_numpy() -> None:
    work = "import sys, lab.measures.catalogue; print({'numpy', 'pyarrow', 'pandas'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
