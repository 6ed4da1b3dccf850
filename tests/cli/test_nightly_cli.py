"""``lab nightly run`` and ``lab nightly baseline`` as processes: two nightly runs and their results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.base.errors import CheckFailed
from lab.cli.main import app

Lab = Callable[..., subprocess.CompletedProcess[str]]

PLAN = """
name = "tiny"
about = "As it was."
policy = "exact.toml"
[[set]]
name = "lamps"
recordings = "datasets/tiny"
format = "lab"
arms = ["tier_first_v1", "tier_quota_v1"]
embedder = "hashing"
"""
POLICY = """
name = "exact"
about = "Nothing changed."
[[exact]]
changed = "fail"
"""


def test_two_nightly_runs_end_to_end(
    lab: Lab, make_set: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_set(tmp_path, "a", "b")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    (tmp_path / "exact.toml").write_text(POLICY, encoding="utf-8")
    monday = ("nightly", "run", "--plan", "plan.toml", "--date", "2026-03-02", "--out", "monday")
    first = lab(*monday, cwd=tmp_path)
    assert first.returncode == 3, first.stderr
    assert "INCONCLUSIVE" in first.stdout
    assert max(map(len, first.stdout.splitlines())) <= 80
    command = first.stdout.partition("  to resolve:\n")[2].replace("\\\n", "").partition("\n")[0]
    # What it says is to be done can be done.
    approved = lab(*command.split()[1:], "--date", "2026-03-02", "--json", cwd=tmp_path)
    assert approved.returncode == 0, approved.stderr
    assert json.loads(approved.stdout)["name"] == "lamps"
    again = lab(*monday, "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["status"] == "pass"
    # Somebody turns a knob.
    (tmp_path / "one.json").write_text('{"autoRecall": {"quotas": {"mustMax": 0, "niceMin": 3}}}', "utf-8")
    (tmp_path / "plan.toml").write_text(PLAN.replace('"tier_quota_v1"]', '"tier_quota_v1=one.json"]'), "utf-8")
    tuesday = lab("nightly", "run", "--plan", "plan.toml", "--date", "2026-03-03", "--out", "tuesday", cwd=tmp_path)
    assert tuesday.returncode == 1, tuesday.stderr
    assert "config.autoRecall.quotas.mustMax 2 -> 0" in " ".join(tuesday.stdout.split())
    assert (tmp_path / "tuesday" / "nightly.html").is_file()
    monkeypatch.chdir(tmp_path)
    diff = CliRunner().invoke(app, ["diff", "monday/sets/lamps/run", "tuesday/sets/lamps/run"])
    assert diff.exit_code == 1
    assert "tier_quota_v1" in diff.stdout
    trend = CliRunner().invoke(app, ["nightly", "trend", "--json"])
    assert trend.exit_code == 0, trend.output
    assert {tuple(one["dates"]) for one in json.loads(trend.stdout)["series"]} == {("2026-03-02", "2026-03-03")}
    assert "History of nightly runs" in (tmp_path / "reports" / "trend" / "trend.html").read_text("utf-8")
    assert not (tmp_path / "reports" / "trend" / "figures").exists()
    # A hundred series that did not step would hide the one that did.
    shown = CliRunner().invoke(app, ["nightly", "trend"]).stdout
    assert re.search(r"^\d+ of \d+ series have no step; --all lists them$", shown, re.MULTILINE)
    assert "tier_first_v1  " not in shown
    assert "tier_first_v1  " in CliRunner().invoke(app, ["nightly", "trend", "--all"]).stdout
    listed = CliRunner().invoke(app, ["nightly", "baseline", "list"])
    assert "lamps  2026-03-02" in listed.stdout
    shown = CliRunner().invoke(app, ["nightly", "baseline", "show", "lamps"])
    assert "2 conversations; arms tier_first_v1, tier_quota_v1" in shown.stdout
    # What is kept is no run of one's own, and is not removed as one.
    listed = CliRunner().invoke(app, ["runs", "list", "."])
    assert "not listed: 1 approved" in listed.stdout
    assert "not listed: 6 of nightly runs" in listed.stdout
    inside = json.loads(CliRunner().invoke(app, ["runs", "list", "monday", "--json"]).stdout)["runs"]
    assert {"monday/sets/lamps/run", "monday/sets/lamps/again"} < {one["run"] for one in inside}
    kept = next(Path("reports/baselines/objects").iterdir())
    refused = CliRunner().invoke(app, ["runs", "rm", str(kept)])
    assert "is a baseline, approved as 'lamps'; `lab nightly baseline rm lamps" in str(refused.exception)
    far = tmp_path / "a-folder-of-a-user-who-likes-long-names" / "and-another-one" / "with-a-run-at-its-very-end"
    shutil.copytree("monday/sets/lamps/run", far)
    head, _, *lines = CliRunner().invoke(app, ["runs", "list", "."]).stdout.splitlines()
    width = head.index("status")
    rows = [line[:width].strip() for line in lines if not line.startswith("not listed")]
    assert "".join(rows) == str(far.relative_to(tmp_path))
    # A list with a damaged baseline in it is no good news.
    (kept / "golden.jsonl").write_text("", "utf-8")
    damaged = CliRunner().invoke(app, ["nightly", "baseline", "list"])
    assert isinstance(damaged.exception, CheckFailed)
    assert "damaged" in damaged.stdout
    assert (
        CliRunner().invoke(app, ["nightly", "baseline", "rm", "lamps", "--write"]).stdout
        == "removed lamps; copies removed: 1\n"
    )
