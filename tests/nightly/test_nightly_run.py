"""Nightly runs: pass without changes, fail with changes, and never pass without a baseline."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lab.runs.resume
from lab.base.errors import CannotMeasure, OtherArguments, UnusableInput
from lab.base.files import digest
from lab.base.formatting import is_short_for
from lab.cli.main import app
from lab.compare.changes import ArmChanges, Changed
from lab.gate.line import OF_NIGHTLY
from lab.gate.policy import Rule
from lab.gate.schema import verdict_schema
from lab.nightly.against import named
from lab.nightly.baselines import approve, get
from lab.nightly.nightly_folder import runs_of_nightly_run
from lab.nightly.nightly_run import NightlyRun, run_nightly, write_nightly
from lab.nightly.plan import NightlyPlan, Within, read_plan
from lab.nightly.trend import read_store
from lab.replay.candidates import Candidates, candidates_paths
from lab.replay.plan import make_plan
from lab.report.message import message_at
from lab.report.nightly import write_pages
from lab.retrieval.contract import Filter, Hit, Lanes
from lab.runs.directory import RunDirectory, open_run
from lab.runs.tables import read_table, write_table


def test_keys_of_a_host_are_short_where_a_change_is_named() -> None:
    """A host names a session by an id of 36 characters, which its keys hold twice."""
    session = "add43651-7525-421a-9d0a-019b9b02114f"
    keys = [f"{session}/{session}/{entry}-a28f-424d-a9ba-9d368be82486" for entry in ("47c050ee", "5074ce3a")]
    said = named(
        [ArmChanges("engine", 2, tuple(Changed(session, key, ("injected",)) for key in keys), {"injected": 2})]
    )
    shown = re.findall(r"(\S+) of engine", said)
    assert [len(key) <= 44 and is_short_for(key, whole) for key, whole in zip(shown, keys, strict=True)] == [True, True]
    assert "nightly/s01/t03 of engine" in named([ArmChanges("engine", 2, (Changed("a", "nightly/s01/t03", ()),), {})])


PLAN = """
name = "trial"
about = "<b>As it was</b> & no other."
policy = "nightly"
[[set]]
name = "small"
recordings = "RECORDINGS"
format = "lab"
arms = ["tier_first_v1", "tier_quota_v1"]
embedder = "hashing"
scope = "recorded"
limit = 1
"""
DAY = "2026-03-01"


def _plan_of(operators: Path) -> NightlyPlan:
    # One file: all recordings of a folder are read, and a nightly run reads them for each of its two replays.
    text = PLAN.replace("RECORDINGS", str(operators / "harbor-release.jsonl"))
    Path("plan.toml").write_text(text, encoding="utf-8")
    return read_plan("plan.toml")


@pytest.fixture
def plan(tmp_path: Path, operators: Path, monkeypatch: pytest.MonkeyPatch) -> NightlyPlan:
    """A small plan in its own folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return _plan_of(operators)


@pytest.fixture(scope="module")
def _first(tmp_path_factory: pytest.TempPathFactory, operators: Path) -> Path:
    """A folder with the plan and its first nightly run, approved."""
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _approve(_night(_plan_of(operators)))
    return folder


@pytest.fixture
def approved(plan: NightlyPlan, _first: Path) -> NightlyPlan:
    """The small plan after its first nightly run was approved."""
    shutil.copytree(_first, Path(), dirs_exist_ok=True)
    return plan


def _night(plan: NightlyPlan, date: str = DAY, out: str | None = None) -> NightlyRun:
    found = run_nightly(plan, Path(out or f"nights/{date}"), date=date, baselines=Path("kept"), store=Path("trend"))
    write_pages(found)
    write_nightly(found)
    # Every set's verdict has the schema of verdict.json, with the kinds of lines that a nightly run adds.
    for one in found.sets:
        jsonschema.validate(json.loads(json.dumps(one.verdict.as_json())), verdict_schema())
    return found


def _approve(nightly_run: NightlyRun, date: str = DAY) -> None:
    for one in nightly_run.sets:
        approve(Path("kept"), open_run(Path(str(one.verdict.run))), one.name, date=date)


def _lines(nightly_run: NightlyRun) -> dict[str, tuple[str, str]]:
    return {line.name: (line.status, line.reason) for line in nightly_run.sets[0].verdict.lines}


def test_nightly_needs_a_baseline_to_pass(plan: NightlyPlan) -> None:
    first = _night(plan)
    assert (first.status, first.exit_code) == ("inconclusive", 3)
    (line,) = [one for one in first.sets[0].verdict.lines if one.status != "pass"]
    assert line.settles == f"lab nightly baseline approve nights/{DAY}/sets/small/run --name small --baselines kept"
    _approve(first)
    again = _night(plan)
    assert (again.status, again.exit_code) == ("pass", 0)
    following = _night(plan, "2026-03-02")
    assert (following.status, following.sets[0].exact.changed if following.sets[0].exact else None) == ("pass", 0)
    lines = _lines(following)
    assert lines["a/a receipts"][0] == lines["exact tier_first_v1 receipts"][0] == "pass"
    # Without differences nothing is tested, but limits are still judged.
    assert not any(name.startswith("guard") for name in lines)
    assert lines["limit tier_quota_v1 WrongScope"][0] == "pass"


def test_verdict_schema_lists_the_kinds_of_nightly_lines(plan: NightlyPlan) -> None:
    first = _night(plan)
    kinds = {line.kind for line in first.sets[0].verdict.lines}
    assert kinds >= {"a/a", "baseline", "limit"}
    value = json.loads(json.dumps(first.sets[0].verdict.as_json()))
    assert {*OF_NIGHTLY} == {"a/a", "baseline", "set", "added"}
    for kind in OF_NIGHTLY:
        value["lines"][0]["kind"] = kind
        jsonschema.validate(value, verdict_schema())
    value["lines"][0]["kind"] = "another"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, verdict_schema())


def test_nightly_judges_limits_without_a_baseline(plan: NightlyPlan) -> None:
    # A run that violates a limit fails before approval; an arm with fallback scopes may recall other scopes.
    (one,) = plan.sets
    arms = ("tier_quota_v1", "hybrid", "fallback=fallback.json")
    Path("fallback.json").write_text(
        json.dumps({"scopePolicy": {"fallbackScopes": ["shared"]}, "lab": {"arm": "engine"}}), "utf-8"
    )
    plan = replace(plan, sets=(replace(one, asked=replace(one.asked, arms=arms)),))
    first = _night(plan)
    assert (first.status, first.exit_code) == ("inconclusive", 3)
    lines = _lines(first)
    assert lines["limit tier_quota_v1 WrongScope"][0] == lines["limit hybrid WrongScope"][0] == "pass"
    status, reason = lines["limit fallback WrongScope"]
    assert (status, reason) == (
        "skipped",
        "fallback: WrongScope: applies only if arm.config.scopePolicy.fallbackScopes is []; here it is ['shared']",
    )
    rules = tuple(replace(rule, at_most=-1.0) if rule.measure == "Future" else rule for rule in plan.policy.rules)
    red = _night(replace(plan, policy=replace(plan.policy, rules=rules)))
    assert (red.status, red.exit_code) == ("fail", 1)
    page = (red.folder / "nightly.md").read_text("utf-8")
    assert "A limit is violated." in page
    assert "Something changed" not in page


def test_approve_takes_all_sets_of_a_nightly_run_or_none(
    plan: NightlyPlan, resealed: Callable[[Path], RunDirectory]
) -> None:
    (one,) = plan.sets
    other = replace(one, name="other/set", baseline="another", asked=replace(one.asked, max_items=5))
    plan = replace(plan, sets=(one, other))
    first = _night(plan)
    assert first.approve_all == f"lab nightly baseline approve nights/{DAY} --baselines kept"
    assert f"`{first.approve_all}`" in (first.folder / "nightly.md").read_text("utf-8")
    command = [*first.approve_all.split()[1:], "--date", DAY]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert [entry["name"] for entry in json.loads(done.stdout)["approved"]] == ["small", "another"]
    again = _night(plan)
    assert (again.status, again.approve_all) == ("pass", None)
    assert CliRunner().invoke(app, command).stdout.count("; nothing changed") == 2
    said = str(CliRunner().invoke(app, [*command, "--name", "x"]).exception)
    assert "omit --name" in said
    told = json.loads((again.folder / "nightly.json").read_text("utf-8"))
    told["sets"][1]["reproduces"]["changed"] = 1
    (again.folder / "nightly.json").write_text(json.dumps(told), "utf-8")
    with pytest.raises(UnusableInput, match="set 'other/set' does not reproduce itself, so nothing was approved"):
        runs_of_nightly_run(again.folder)
    told["sets"][1]["reproduces"]["changed"] = 0
    (again.folder / "nightly.json").write_text(json.dumps(told), "utf-8")
    second = open_run(again.folder / "sets" / "other%2Fset" / "again")
    receipts = second.receipts(second.conversations[0])
    table = read_table(receipts)
    chars = pa.array([7] * table.num_rows, table["chars"].type)
    write_table(table.set_column(table.schema.get_field_index("chars"), "chars", chars), receipts)
    resealed(second.path)
    with pytest.raises(CannotMeasure, match="is stale: the two replays of set 'other/set' differ"):
        runs_of_nightly_run(again.folder)
    (again.folder / "nightly.json").unlink()
    with pytest.raises(UnusableInput, match="is not finished"):
        runs_of_nightly_run(again.folder)


def test_nightly_files_report_the_result(approved: NightlyPlan) -> None:
    nightly_run = _night(approved)
    folder = nightly_run.folder
    page = (folder / "nightly.html").read_text("utf-8")
    assert "&lt;b&gt;As it was&lt;/b&gt; &amp; no other." in page
    assert "<b>" not in page
    assert "://" not in page
    twin = (folder / "nightly.md").read_text("utf-8")
    assert "| small | pass | 0 of" in twin
    assert "* the plan requires: &lt;b&gt;As it was&lt;/b&gt; &amp; no other." in twin
    assert "<b>" not in twin
    told = json.loads((folder / "nightly.json").read_text("utf-8"))
    assert (told["schema"], told["status"], told["date"], [one["name"] for one in told["sets"]]) == (
        "lab.nightly.v1",
        "pass",
        DAY,
        ["small"],
    )
    suite = ElementTree.parse(folder / "nightly.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert int(suite.get("tests", "0")) == len(nightly_run.sets[0].verdict.lines)
    metrics = (folder / "nightly.prom").read_text("utf-8")
    assert 'lab_gate_verdict{policy="trial/small",lab_gate_verdict="pass"} 1' in metrics
    assert metrics.endswith("# EOF\n")


def test_nightly_names_another_embedder_in_every_output(approved: NightlyPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    note = "embedder: the configuration of arm engine names small; this run used hashing"
    monkeypatch.setattr("lab.nightly.nightly_run.config_notes", lambda _: (note,))
    folder = _night(approved).folder
    for name in ("nightly.html", "nightly.md", "nightly.xml", "nightly.json"):
        assert note in (folder / name).read_text("utf-8").replace("\\", ""), name
    assert dict(message_at(folder).facts)["note"] == note


@pytest.mark.parametrize("what", ["status", "line", "count", "baseline", "trial"])
@pytest.mark.usefixtures("approved")
def test_message_refuses_a_nightly_run_that_its_runs_do_not_give(what: str) -> None:
    """nightly.json is edited so that all of it agrees, and only the runs say otherwise."""
    text = Path("plan.toml").read_text("utf-8")
    Path("changed.toml").write_text(f"{text}max_items = 5\n", "utf-8")
    folder = _night(read_plan("changed.toml"), out="changed").folder
    result = json.loads((folder / "nightly.json").read_bytes())
    assert (result["status"], message_at(folder).title[:4]) == ("fail", "FAIL")
    assert "not checked" not in message_at(folder).title
    (entry,) = result["sets"]
    lines = entry["verdict"]["lines"]
    if what == "trial":
        result["trial"] = entry["verdict"]["trial"] = []
    elif what == "count":
        entry["exact"]["changed"] = 1
    else:
        for line in lines:
            if line["status"] == "fail":
                line |= {"status": "pass", "candidate": 0.0 if what == "status" else line["candidate"]}
        result["status"] = entry["status"] = entry["verdict"]["status"] = "pass"
    if what == "status":
        entry["exact"]["changed"] = 0
    if what == "baseline":
        entry["exact"], entry["approved"], entry["verdict"]["against"] = None, None, None
    (folder / "nightly.json").write_text(json.dumps(result))
    with pytest.raises(CannotMeasure, match="is stale"):
        message_at(folder)


def test_nightly_changed_configuration_fails_and_names_the_knob(approved: NightlyPlan) -> None:
    Path("one.json").write_text(json.dumps({"autoRecall": {"quotas": {"mustMax": 0, "niceMin": 3}}}))
    (one,) = approved.sets
    other = replace(one, asked=replace(one.asked, arms=("tier_first_v1", "tier_quota_v1=one.json")))
    nightly_run = _night(replace(approved, sets=(other,)), "2026-03-02")
    assert (nightly_run.status, nightly_run.exit_code) == ("fail", 1)
    status, reason = _lines(nightly_run)["exact tier_quota_v1 receipts"]
    assert status == "fail"
    assert "arm tier_quota_v1: config.autoRecall.quotas.mustMax 2 -> 0" in reason
    assert "item_key" in reason
    assert _lines(nightly_run)["exact tier_first_v1 receipts"][0] == "pass"
    # Changes are also judged by the policy; one conversation is inconclusive.
    assert _lines(nightly_run)["guard tier_quota_v1 Success@6"][0] == "inconclusive"
    assert "lab explain" in (nightly_run.folder / "nightly.md").read_text("utf-8")
    # After approving it, the same nightly run passes.
    _approve(nightly_run, "2026-03-02")
    assert get(Path("kept"), "small").before[0].date == DAY


def test_nightly_advisory_rules_do_not_fail(approved: NightlyPlan) -> None:
    """A change under an advisory exact rule, and an advisory comparison within the nightly run."""
    Path("one.json").write_text(json.dumps({"autoRecall": {"quotas": {"mustMax": 0, "niceMin": 3}}}))
    (one,) = approved.sets
    rules = tuple(replace(rule, critical=rule.kind != "exact") for rule in approved.policy.rules)
    never = replace(approved.policy, rules=(Rule("limit", "RepeatRate", at_most=-1.0),))
    within = Within("tier_first_v1", "tier_quota_v1", never, critical=False)
    other = replace(one, asked=replace(one.asked, arms=("tier_first_v1", "tier_quota_v1=one.json")), compare=(within,))
    told = replace(approved, sets=(other,), policy=replace(approved.policy, rules=rules))
    lines = _lines(_night(told, "2026-03-02"))
    assert lines["exact tier_quota_v1 receipts (advisory)"][0] == "fail"
    assert lines["limit tier_quota_v1 against tier_first_v1 RepeatRate (advisory)"][0] == "fail"
    assert [name for name, (status, _) in lines.items() if status == "fail" and not name.endswith("(advisory)")] == []
    # An unchanged arm passes a critical rule.
    assert lines["exact tier_first_v1 receipts"][0] == "pass"
    red = replace(told, sets=(replace(other, compare=(replace(within, critical=True),)),))
    assert _night(red, "2026-03-02").status == "fail"


def test_nightly_arm_on_one_side_is_inconclusive(approved: NightlyPlan) -> None:
    (one,) = approved.sets
    other = replace(one, asked=replace(one.asked, arms=("tier_first_v1", "none")))
    nightly_run = _night(replace(approved, sets=(other,)), "2026-03-02")
    assert (nightly_run.status, nightly_run.exit_code) == ("inconclusive", 3)
    lines = _lines(nightly_run)
    assert lines["exact none receipts"] == ("inconclusive", "arm none is not in the baseline")
    assert lines["exact tier_quota_v1 receipts"] == ("inconclusive", "arm tier_quota_v1 is only in the baseline")


def test_nightly_changed_gold_is_not_comparable(approved: NightlyPlan) -> None:
    (one,) = approved.sets
    nightly_run = _night(replace(approved, sets=(replace(one, asked=replace(one.asked, scope="none")),)), "2026-03-02")
    assert (nightly_run.status, nightly_run.exit_code) == ("inconclusive", 3)
    (line,) = [one for one in nightly_run.sets[0].verdict.lines if one.status == "inconclusive"]
    assert "differ in scope" in line.reason
    assert line.settles is not None
    assert line.settles.startswith("lab nightly baseline approve nights/2026-03-02/")


def test_nightly_baseline_of_another_version_is_not_comparable(approved: NightlyPlan) -> None:
    run = open_run(Path(f"nights/{DAY}/sets/small/run"))
    shutil.copytree(run.path, "older")
    manifest = json.loads(Path("older/manifest.json").read_text("utf-8"))
    approve(Path("kept"), open_run(Path("older")), "small", date=DAY)
    older = get(Path("kept"), "small")
    files = {"manifest.json": json.dumps(manifest | {"schema_version": 1}).encode()}
    names = json.loads((older.path / "object.json").read_text("utf-8"))
    names["manifest.json"] = hashlib.sha256(files["manifest.json"]).hexdigest()
    (older.path / "manifest.json").write_bytes(files["manifest.json"])
    (older.path / "object.json").write_text(json.dumps(names), "utf-8")
    older.path.rename(older.path.with_name(digest(names)))
    name = next((Path("kept") / "names").iterdir())
    name.write_text(name.read_text("utf-8").replace(older.now.object, digest(names)), "utf-8")
    nightly_run = _night(approved, "2026-03-02")
    assert (nightly_run.status, nightly_run.exit_code) == ("inconclusive", 3)
    assert "schema_version 1" in _lines(nightly_run)["baseline small"][1]


def test_nightly_damaged_baseline_is_an_error(approved: NightlyPlan) -> None:
    path = next((get(Path("kept"), "small").path / "receipts").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    nightly_run = _night(approved, "2026-03-02")
    assert (nightly_run.status, nightly_run.exit_code) == ("error", 4)
    assert str(path) in _lines(nightly_run)["set measured"][1]


def test_nightly_nondeterministic_replay_is_an_error(approved: NightlyPlan, resealed: Callable[[Path], Any]) -> None:
    # The second replay as if ties were in another order: two items swapped.
    run = open_run(Path(f"nights/{DAY}/sets/small/again"))
    path = run.receipts(run.conversations[0])
    table = read_table(path)
    keys = table["item_key"].to_pylist()
    row = max(place for place, one in enumerate(keys) if len(one) > 1)
    keys[row] = keys[row][::-1]
    column = table.schema.get_field_index("item_key")
    write_table(table.set_column(column, table.schema.field(column), pa.array(keys, table["item_key"].type)), path)
    resealed(run.path)
    before = {file: file.read_bytes() for file in Path("trend").iterdir()}
    nightly_run = _night(approved)
    assert (nightly_run.status, nightly_run.exit_code) == ("error", 4)
    assert list(_lines(nightly_run)) == ["a/a receipts"]
    reason = _lines(nightly_run)["a/a receipts"][1]
    assert f"{table['turn'][row].as_py()} of {table['arm'][row].as_py()}" in reason
    assert "item_key" in reason
    assert {file: file.read_bytes() for file in Path("trend").iterdir()} == before


def test_nightly_second_replay_catches_stale_candidates(plan: NightlyPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(Path("cache").resolve()))
    (one,) = plan.sets
    plan = replace(plan, sets=(replace(one, asked=replace(one.asked, arms=("hybrid",))),))
    made = make_plan(plan.sets[0].asked)
    (recording,) = made.recordings
    happening = made.recall_points_of(recording)
    stale = Candidates()
    last = happening[-1]
    stale.keep(len(happening) - 1, Filter(last.scope, None), 500, Lanes([Hit(0, 9.0)], []))
    stale.save(candidates_paths(made, recording)[made.retrievals()[0]])
    nightly_run = _night(plan)
    assert nightly_run.exit_code == 4
    assert f"{last.key} of hybrid" in _lines(nightly_run)["a/a receipts"][1]


def test_nightly_interrupted_resumes_with_equal_results(
    approved: NightlyPlan, monkeypatch: pytest.MonkeyPatch, files_of: Callable[[Path], dict[str, bytes]]
) -> None:
    _night(approved)

    def untimed() -> dict[str, bytes]:
        # Manifests have the digests of timings.
        files = files_of(Path("nights")).items()
        return {
            name: data for name, data in files if "latency" not in name and not fnmatch(name, "*/sets/*/manifest.json")
        }

    wanted = untimed()
    real = lab.runs.resume.write_atomically
    for stop in (3, 5):
        count = 0

        def killed(path: Path, data: bytes, stop: int = stop, *, durable: bool = True) -> None:
            nonlocal count
            count += 1
            if count == stop:
                raise KeyboardInterrupt
            real(path, data, durable=durable)

        Path("nights").rename(f"before-{stop}")
        monkeypatch.setattr(lab.runs.resume, "write_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            run_nightly(approved, Path(f"nights/{DAY}"), date=DAY, baselines=Path("kept"), store=Path("trend"))
        monkeypatch.setattr(lab.runs.resume, "write_atomically", real)
        assert _night(approved).status == "pass"
        assert untimed() == wanted


def test_history_has_a_nightly_run_once(approved: NightlyPlan) -> None:
    points = read_store(Path("trend"))
    assert {point.verdict for point in points} == {"inconclusive"}
    _night(approved)
    again = read_store(Path("trend"))
    assert {point.verdict for point in again} == {"pass"}
    assert [replace_verdict(point) for point in again] == [replace_verdict(point) for point in points]
    _night(approved, "2026-03-02")
    assert len(read_store(Path("trend"))) == 2 * len(points)
    assert len(list(Path("trend").iterdir())) == 2


def replace_verdict(point: Any) -> Any:
    return point._replace(verdict="")


def test_nightly_folder_holds_one_nightly_run(plan: NightlyPlan) -> None:
    _night(plan, out="here")
    (one,) = plan.sets
    other = replace(plan, sets=(replace(one, asked=replace(one.asked, max_items=5)),))
    with pytest.raises(OtherArguments, match="differs in: sets; choose another --out"):
        _night(other, out="here")
    with pytest.raises(OtherArguments, match="in: date"):
        _night(plan, "2026-03-02", out="here")
    with pytest.raises(UnusableInput, match="--date"):
        _night(plan, "today")
    # A set that cannot be replayed is reported before any replay.
    with pytest.raises(UnusableInput, match=r"plan.toml: set 'small': .*none-such"):
        _night(replace(plan, sets=(one, replace(one, asked=replace(one.asked, arms=("none-such",))))), out="there")
    assert not Path("there").exists()
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(UnusableInput, match=r"holds something else \(thesis.txt\); choose another --out"):
        _night(plan, out="full")
    assert [one.name for one in Path("full").iterdir()] == ["thesis.txt"]
