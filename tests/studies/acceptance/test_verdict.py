"""`lab acceptance` on recordings: what is replayed, the files, the exit codes, and the messages for bad input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lab.base.errors import UnusableInput
from lab.base.set_registry import DEMO, shipped
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.report.acceptance import write_page
from lab.runs.directory import open_run
from lab.runs.request import ReplayRequest
from lab.studies.acceptance import verdict as verdict_module
from lab.studies.acceptance.arms import cast_of, saturated
from lab.studies.acceptance.evidence import Measured
from lab.studies.acceptance.readings import READINGS, Floor
from lab.studies.acceptance.verdict import (
    SCHEMA,
    Acceptance,
    accept_run,
    accept_set,
    gate_verdicts,
    headline,
    readings_table,
    write_files,
)

IDS = ["1", "2", "3", "4", "5"]
FLOOR = Floor(0.3, "the cosine of a test")


@pytest.fixture(scope="module", autouse=True)
def floored() -> Iterator[None]:
    """No set calibrates a floor for the hashing embedder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict_module, "floor_for", lambda *_: FLOOR)
        yield


@pytest.fixture(scope="module")
def request_(operators: Path) -> ReplayRequest:
    return ReplayRequest(str(operators), "lab", (), embedder="hashing", hard_rules=1, haystack=0, limit=4)


@pytest.fixture(scope="module")
def judged(request_: ReplayRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Acceptance]:
    out = tmp_path_factory.mktemp("acceptance")
    # The old policy under another name: the criteria must not accept it.
    disguised = out / "old.json"
    disguised.write_text('{"lab": {"arm": "tier_first_v1"}}', "utf-8")
    return out, accept_set(request_, out, candidates=("seed_full", f"disguised={disguised}"), readings=True)


def named(*candidates: str) -> list[str]:
    """Return candidates with the arms of their other readings; the first reading is their own."""
    return [name for own in candidates for name in (own, *(f"{own}-{reading.name}" for reading in READINGS[1:]))]


def test_acceptance_judges_every_criterion_for_every_candidate(judged: tuple[Path, Acceptance]) -> None:
    out, verdict = judged
    judged_arms = [result.arm for result in verdict.results]
    assert list(dict.fromkeys(judged_arms)) == [*named("seed_full", "disguised"), "hybrid"]
    assert [result.criterion for result in verdict.of("seed_full")] == IDS
    assert [result.criterion for result in verdict.of("hybrid")] == ["M1"]
    assert {result.status for result in verdict.results} <= {"pass", "fail", "inconclusive"}
    assert all(result.settles or result.status != "inconclusive" for result in verdict.results if result.applies)
    assert [result.arm for result in verdict.results if not result.applies] == named("disguised")
    assert "disguised " in headline(verdict)
    assert "1 not applicable" in headline(verdict)
    plain, large = (open_run(Path(run)) for run in verdict.runs)
    assert (plain.path, large.path) == (out / "run", out / "saturated")
    assert large.manifest.resolved.labels.mode == "distractors"
    assert set(plain.arms) == set(large.arms) >= {"tier_first_v1", "hybrid", "vector", "seed_full-no-dedupe"}


def test_acceptance_does_not_accept_the_old_policy(judged: tuple[Path, Acceptance]) -> None:
    _, verdict = judged
    by = {result.criterion: result for result in verdict.of("disguised")}
    assert by["1"].status != "pass"
    assert by["2"].status != "pass"
    # It has no Working Set, and injects no hard rule that is not found.
    assert (by["3"].status, by["4"].status) == ("inconclusive", "fail")
    assert {result.criterion: result.status for result in verdict.of("seed_full")}["4"] == "pass"
    assert (verdict.status, verdict.exit_code) == ("fail", 1)


def test_acceptance_other_readings_do_not_decide(judged: tuple[Path, Acceptance]) -> None:
    _, verdict = judged
    assert verdict.readings["seed_full-best"] == "seed_full, reading best"
    only = [replace(result, status="pass") for result in verdict.results if result.arm not in verdict.readings]
    other = [result for result in verdict.results if result.arm in verdict.readings]
    assert replace(verdict, results=(*only, *other)).status == "pass"
    assert any(result.status == "fail" for result in other)


def test_acceptance_compares_the_policies_under_each_reading(judged: tuple[Path, Acceptance]) -> None:
    _, verdict = judged
    table = {tuple(row[:2]): row[2:] for row in readings_table(verdict)}
    assert list(table) == [(own, reading.name) for own in ("seed_full", "disguised") for reading in READINGS]
    for (own, reading), row in table.items():
        arm = own if reading == "strict" else f"{own}-{reading}"
        words = {"inconclusive": "open"}
        expected = [words.get(result.status, result.status) if result.applies else "–" for result in verdict.of(arm)]
        assert row[:5] == expected
    # The readings are not the same recall, and the old policy has none.
    assert len({row[-1] for (own, _), row in table.items() if own == "seed_full"}) > 1
    assert len({tuple(row) for (own, _), row in table.items() if own == "disguised"}) == 1
    data = verdict.as_json()
    assert data["floor"] == {"value": 0.3, "origin": "the cosine of a test"}
    assert [(row["of"], row["reading"]) for row in data["compared"]] == list(table)
    assert all(row["rollout"] in ("pass", "fail", "inconclusive") for row in data["compared"])


def test_acceptance_without_readings_judges_the_candidates_alone(judged: tuple[Path, Acceptance]) -> None:
    out, _ = judged
    verdict = accept_run(open_run(out / "run"), candidates=("seed_full",))
    assert list(dict.fromkeys(result.arm for result in verdict.results)) == ["seed_full", "hybrid"]
    assert not {"floor", "compared"} & set(verdict.as_json())


def test_acceptance_passes_though_a_criterion_does_not_apply(judged: tuple[Path, Acceptance]) -> None:
    _, verdict = judged
    passing = tuple(replace(result, status="pass") if result.applies else result for result in verdict.results)
    assert replace(verdict, results=passing).exit_code == 0
    statuses = {one.candidate: one.status for one in gate_verdicts(replace(verdict, results=passing))}
    assert statuses["disguised"] == "pass"


def test_smaller_haystack_leaves_about_so_many_must_memories(judged: tuple[Path, Acceptance], tmp_path: Path) -> None:
    out, _ = judged
    assert Measured(open_run(out / "run")).smaller_haystack("hybrid", 24.0) is None
    request = ReplayRequest.of_manifest(open_run(out / "run").manifest.asked)
    request = replace(request, arms=("hybrid",), haystack=40, conversation=("two-desks",))
    measured = Measured(run_replay(request, tmp_path / "run").run)
    pool = measured.must_pool("hybrid")
    size = measured.smaller_haystack("hybrid", pool * 0.8)
    assert size is not None
    smaller = Measured(run_replay(replace(request, haystack=size), tmp_path / "smaller").run).must_pool("hybrid")
    assert 0.6 * pool < smaller < pool
    # The conversation's own memories are already more than so few.
    assert measured.smaller_haystack("hybrid", 0.0) is None


def test_acceptance_files_are_a_verdict_junit_and_a_page(judged: tuple[Path, Acceptance], tmp_path: Path) -> None:
    _, verdict = judged
    files = write_files(verdict, tmp_path)
    assert [file.name for file in files] == ["verdict.json", "verdict.xml"]
    value = json.loads(files[0].read_bytes())
    assert (value["schema"], value["status"]) == (SCHEMA, "fail")
    assert len(value["criteria"]) == len(verdict.results)
    test = value["criteria"][0]["tests"][0]
    assert {"about", "is_check", "low", "high", "n", "conversations", "reason"} <= set(test)
    suites = ElementTree.fromstring(files[1].read_text("utf-8"))
    assert [suite.get("name") for suite in suites] == [
        f"gate acceptance {arm}" for arm in dict.fromkeys(result.arm for result in verdict.results)
    ]
    assert int(suites.get("failures", 0)) == sum(
        line.status == "fail" and line.critical for one in gate_verdicts(verdict) for line in one.lines
    )
    page = write_page(verdict, tmp_path).read_text("utf-8")
    assert headline(verdict) in page
    # M1 has no candidate, so the table of the candidates does not show it.
    table = page[page.index('aria-label="Criteria"') : page.index("</table>")]
    assert ("criterion-5" in table, "criterion-M1" in table) == (True, False)
    assert all(f'id="criterion-{name}"' in page for name in (*IDS, "M1"))
    # A second verdict replaces the first; a verdict of the gate is not replaced.
    assert write_files(verdict, tmp_path) == files
    files[0].write_text('{"schema": "lab.verdict.v1"}', "utf-8")
    with pytest.raises(UnusableInput, match="is not a verdict of `lab acceptance`; choose another --out"):
        write_files(verdict, tmp_path)


def test_acceptance_of_a_set_is_resumed(request_: ReplayRequest, judged: tuple[Path, Acceptance]) -> None:
    out, verdict = judged
    said: list[str] = []
    candidates = ("seed_full", f"disguised={out / 'old.json'}")
    again = accept_set(request_, out, candidates=candidates, readings=True, announce=said.append)
    assert again == verdict
    assert not any(": done" in text for text in said)


def test_acceptance_of_a_run_equals_that_of_the_set_but_for_the_large_pool(judged: tuple[Path, Acceptance]) -> None:
    out, verdict = judged
    again = accept_run(open_run(out / "run"), candidates=("seed_full", "disguised"), readings=True)
    assert again.readings == verdict.readings
    assert again.compared == verdict.compared
    for criterion in ("3", "5"):
        ours, theirs = ([result for result in one.results if result.criterion == criterion] for one in (again, verdict))
        assert ours == theirs
    assert again.results[-1] == verdict.results[-1]
    assert again.large == "as recorded"


def test_acceptance_run_without_an_arm_says_how_to_add_it(request_: ReplayRequest, tmp_path: Path) -> None:
    request = replace(request_, arms=("tier_first_v1", "tier_quota_v1"), conversation=("two-desks",))
    run = run_replay(request, tmp_path / "run").run
    with pytest.raises(UnusableInput) as caught:
        accept_run(run, candidates=("tier_quota_v1",))
    message = str(caught.value)
    assert "has no arm 'hybrid', 'vector', which acceptance needs; add it with: lab replay" in message
    assert "--arm tier_first_v1 --arm tier_quota_v1 --arm hybrid --arm vector" in message
    assert message.endswith("--out NEW")


def test_acceptance_message_on_a_missing_arm_is_short_for_the_demo(tmp_path: Path) -> None:
    run = run_replay(
        ReplayRequest(
            str(shipped("datasets", "operators")), "lab", ("none",), embedder="hashing", conversation=DEMO, haystack=0
        ),
        tmp_path,
    ).run
    with pytest.raises(UnusableInput) as caught:
        accept_run(run, candidates=("tier_quota_v1",))
    message = str(caught.value).replace(str(tmp_path), "DIR")
    assert "lab replay shipped:operators " in message
    assert message.endswith("--out NEW (it replays all conversations; this run has 24, chosen with --conversation)")
    assert len(message) < 400


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ("tier_first_v1", "--candidate tier_first_v1: is what the candidates are compared with"),
        ("quota", "unknown arm 'quota'; known: "),
        ("missing=no.json", r"no\.json"),
    ],
)
def test_acceptance_unusable_candidate_is_named(
    request_: ReplayRequest, tmp_path: Path, candidate: str, message: str
) -> None:
    with pytest.raises(UnusableInput, match=message):
        accept_set(request_, tmp_path, candidates=(candidate,))
    assert not (tmp_path / "run").exists()


def test_cast_of_a_selection_has_no_working_set(request_: ReplayRequest, tmp_path: Path) -> None:
    cast = cast_of(request_, ("tier_quota_v1", "recommended"), tmp_path)
    assert cast.plain == {"recommended": "recommended-no-dedupe"}
    assert cast.readings == ()
    written = json.loads((tmp_path / "recommended-no-dedupe.json").read_bytes())
    assert written == {"autoRecall": {"dedupeBackbone": False}, "lab": {"arm": "recommended"}}


def test_saturated_takes_the_largest_share_that_the_set_reaches(request_: ReplayRequest) -> None:
    request = replace(request_, arms=("tier_first_v1",), conversation=("two-desks",))
    large = saturated(request, make_plan(request))
    assert large is not None
    assert (large.labels, large.must_share) in [("distractors", share) for share in (0.2, 0.3, 0.45, 0.6)]


@pytest.fixture
def cli(operators: Path) -> Callable[..., Any]:
    from tests.commands import run_here

    return lambda *arguments, cwd: run_here("acceptance", *arguments, cwd=cwd)


def test_acceptance_command_prints_lines_and_exit_code(
    cli: Callable[..., Any], judged: tuple[Path, Acceptance], tmp_path: Path
) -> None:
    out, _ = judged
    one = ("--candidate", "seed_full", "--out", tmp_path / "verdict")
    done = cli(out / "run", "--readings", *one, cwd=tmp_path)
    expected = accept_run(open_run(out / "run"), candidates=("seed_full",), readings=True)
    assert done.returncode == expected.exit_code, done.stderr
    for name in (*IDS, "M1"):
        assert f" {name}. " in done.stdout
    assert "no memories of other conversations added" in " ".join(done.stdout.split())
    assert ": reported, does not decide)" in " ".join(done.stdout.split())
    assert "floor 0.3: the cosine of a test" in done.stdout
    assert 'id="readings"' in (tmp_path / "verdict" / "acceptance.html").read_text("utf-8")
    alone = cli(out / "run", "--floor-from", "shipped:traps", *one, cwd=tmp_path)
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert "--floor-from: calibrates the floor of --readings; add --readings" in alone.stderr
    advice = [line for line in done.stdout.splitlines() if line.lstrip().startswith("What would settle it: ")]
    assert len(advice) == sum(bool(result.settles) for result in expected.results)
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80
    assert sorted(path.name for path in (tmp_path / "verdict").iterdir()) == [
        *("acceptance.html", "verdict.json", "verdict.xml")
    ]
    no_out = cli("shipped:operators", cwd=tmp_path)
    assert (no_out.returncode, "--out: is required for a set" in no_out.stderr) == (2, True)
