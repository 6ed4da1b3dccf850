"""``lab gate`` end to end: exit codes and files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lab.gate.policy import read_policy
from lab.runs.tables import read_table

Lab = Callable[..., Any]


def policy(folder: Path, rules: str, least: int = 2) -> str:
    (folder / "mine.toml").write_text(
        f'name = "mine"\nabout = "what it means"\nminimum_conversations = {least}\n{rules}'
    )
    return "mine.toml"


LIMIT = '[[limit]]\nmeasure = "Success@6"\n'
NO_AUDIT = (
    "error: run/manifest.json: not an audit of receipts (schema None, not lab.receipts.audit.v1); create one with "
    "`lab canary audit LOG --out FILE`\n"
)
GUARD = '[[guard]]\nmeasure = "Success@6"\nmargin = 0.02\n'
KNOWN = "capture, nightly, rollout, rollout-2026-11, stage-b, stage-c"


@pytest.mark.parametrize(
    ("rules", "least", "more", "code"),
    [
        (LIMIT + "at_most = 1.0\n", 2, (), 0),
        (LIMIT + "at_least = 1.0\n", 2, (), 1),
        (GUARD, 50, (), 3),
        (GUARD, 50, ("--inconclusive-as", "pass"), 0),
        (GUARD, 50, ("--inconclusive-as", "fail"), 1),
        (GUARD.replace("Success@6", "R@999"), 2, (), 4),
    ],
)
def test_gate_exit_code_is_the_verdict(
    lab: Lab, place: Path, rules: str, least: int, more: tuple[str, ...], code: int
) -> None:
    done = lab("gate", "run", "--policy", policy(place, rules, least), "--json", *more, cwd=place)
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((place / "run" / "verdict.json").read_text())
    # The option changes the exit code, not the verdict.
    assert found["status"] == {0: "pass", 1: "fail", 3: "inconclusive", 4: "error"}[3 if more else code]
    expected = (
        f"exit code {code} instead of 3: the verdict is inconclusive, and --inconclusive-as {more[1]} was given\n"
        if more
        else ""
    )
    assert done.stderr == expected
    assert {"verdict.json", "verdict.xml", "verdict.prom"} <= {path.name for path in (place / "run").iterdir()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("run", "--policy", "bad.toml"),
            "error: bad.toml: guard 1: needs margin: how much worse the candidate may be\n",
        ),
        (
            ("run", "--policy", "nowhere"),
            f"error: nowhere: no such file or shipped policy; shipped policies: {KNOWN}\n",
        ),
        (
            ("--policy", "rollout"),
            "error: policy rollout: the input of every rule is missing; it needs DIR\n",
        ),
        (("--policy", "stage-b", "run/manifest.json"), NO_AUDIT),
        (("gone.json",), "error: gone.json: no such run directory or audit\n"),
        (
            ("live",),
            "error: live: is not a run directory; to judge the audit in it, name live/audit.json\n",
        ),
        (("run", "live"), "error: live: is not a run directory; to judge the audit in it, name live/audit.json\n"),
        (("run", "run"), "error: run and run: one run is judged; --against compares it with another\n"),
        (
            ("live/audit.json", "live/audit.json"),
            "error: live/audit.json and live/audit.json: one audit is judged; --control shows another beside it\n",
        ),
        (("run", "--receipts", "live/audit.json"), "error: lab gate --receipts AUDIT is now lab gate AUDIT\n"),
        (("--receipts=live/audit.json",), "error: lab gate --receipts AUDIT is now lab gate AUDIT\n"),
        (
            ("policies", "--show", "mine"),
            f"error: --show: unknown policy 'mine'; known: {KNOWN}\n",
        ),
    ],
)
def test_gate_with_unusable_input_prints_one_line_and_exits_2(
    lab: Lab, place: Path, arguments: tuple[str, ...], said: str
) -> None:
    (place / "bad.toml").write_text('name = "x"\nabout = "y"\n[[guard]]\nmeasure = "R@6"\n')
    (place / "live").mkdir(exist_ok=True)
    (place / "live" / "audit.json").write_text("{}")
    done = lab("gate", *arguments, cwd=place)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_gate_prints_reasons_and_writes_a_step_summary(lab: Lab, place: Path, tmp_path: Path) -> None:
    step = tmp_path / "summary.md"
    done = lab("gate", "run", "--policy", "rollout", cwd=place, GITHUB_STEP_SUMMARY=str(step))
    assert done.returncode == 3, done.stdout
    first = " ".join(done.stdout.split())
    assert first.startswith(
        "INCONCLUSIVE: rollout, tier_quota_v1 against tier_first_v1 [trial: embedder hashing, which is for tests]; "
        "it is not shown that tiers are worth having: 2 conversations are too few to compare it with hybrid"
    )
    assert "the policy requires at least 8" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "## INCONCLUSIVE: rollout" in step.read_text()
    assert "::warning title=gate rollout::" in done.stderr


def test_gate_prints_critical_rules_before_advisory_ones(lab: Lab, six: Path) -> None:
    place = six
    advisory = 'critical = false\n[[limit]]\nmeasure = "R@6"\nat_least = 0\n'
    rules = GUARD.replace("0.02", "0.5") + LIMIT + "at_least = 1.0\n" + advisory
    done = lab("gate", "run", "--policy", policy(place, rules + "\n"), cwd=place)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2].startswith("Judged@6: tier_quota_v1 0.")
    label = _label(place / "mine.toml")
    turns = next(number for number, line in enumerate(lines) if line.startswith("This PASS turns "))
    passes = lines.index("Every critical rule passes: Success@6, R@6.")
    assert "judgements" in " ".join(lines[turns:passes])
    assert [*lines[:2], *lines[3:turns], *lines[passes : passes + 2]] == [
        f"PASS: {label}, tier_quota_v1 against",
        "tier_first_v1 [trial: embedder hashing, which is for tests]",
        "Try tier_quota_v1 on a live engine for a limited time, and judge its receipts.",
        "  lab gate AUDIT --policy stage-b",
        "Every critical rule passes: Success@6, R@6.",
        "Advisory rules, which do not affect the verdict:",
    ]
    assert lines[passes + 2].startswith("- (fail): Success@6: ")
    assert lines[passes + 4].split()[-3:] == ["90", "%", "interval"]
    closer = f"level = 0.025\n{rules}"
    done = lab("gate", "run", "--policy", policy(place, closer), cwd=place)
    assert "95 % interval" in done.stdout


def test_gate_and_report_say_what_to_do_with_the_folder_of_the_run(lab: Lab, six: Path) -> None:
    pair = '[comparison]\nbaseline = "tier_quota_v1"\ncandidate = "tier_first_v1"\n'
    gate = lab("gate", "run", "--policy", policy(six, pair + GUARD.replace("Success@6", "RepeatRate")), cwd=six)
    assert gate.returncode == 1, gate.stderr
    lines = gate.stdout.splitlines()
    at = lines.index("Keep tier_quota_v1. Then look at a turn that became worse.")
    report = lab("report", "run", cwd=six)
    # The gate and the report order the same.
    assert lines[at : at + 2] == report.stdout.splitlines()[2:4]
    assert report.stdout.splitlines() == [
        f"FAIL (policy {_label(six / 'mine.toml')}): 68% of the",
        "injected items are repeats, against 53% (RepeatRate).",
        "Keep tier_quota_v1. Then look at a turn that became worse.",
        "  lab explain run attic/s02/t01 --arm tier_first_v1 --with-text",
        "Open run/report.html",
    ]
    explain = lab(*report.stdout.splitlines()[3].split()[1:], cwd=six)
    assert explain.returncode == 0, explain.stderr


def test_gate_without_subcommand_is_gate_judge(lab: Lab, place: Path, tmp_path: Path) -> None:
    """The gate's own help names the other commands; what they print can be used; a folder may be called like one."""
    shown = lab("gate", "--help", cwd=place)
    assert shown.returncode == 0
    words = shown.stdout.split()
    assert {"--policy", "--control", "--against", "--inconclusive-as", "judge", "policies", "schema"} <= set(words)
    shutil.copytree(place / "run", tmp_path / "policies")
    for form in ("json", "xml", "prom"):
        (tmp_path / "policies" / f"verdict.{form}").unlink(missing_ok=True)
    (tmp_path / "policies" / "verdict.json").write_text('{"schema": "lab.verdict.v1", "policy": "other"}')
    # A verdict of another policy is in the copy, and the arms of a run are not what nightly is meant to compare.
    alone = lab("gate", "./policies", "--policy", "nightly", cwd=tmp_path)
    assert alone.returncode == 4
    assert alone.stderr == (
        "policy nightly is meant for --against DIR2; without it tier_quota_v1 is compared with tier_first_v1, another "
        "arm of the same run\npolicies: replaced the verdict of policy other; give --out to keep both\n"
    )
    copied = lab("gate", "policies", "--show", "nightly", cwd=place)
    (tmp_path / "own.toml").write_text(copied.stdout.replace('"nightly"', '"own"').replace("= 6", "= 2"))
    done = lab("gate", "./policies", "--policy", "own.toml", "--against", place / "run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert (found["policy"], found["baseline"]) == (_label(tmp_path / "own.toml"), f"{place / 'run'}:tier_quota_v1")
    exact = next(line for line in found["lines"] if line["kind"] == "exact")
    assert (exact["status"], exact["candidate"], exact["n"] > 10) == ("pass", 0, True)
    schema = json.loads(lab("gate", "schema", "verdict", cwd=place).stdout)
    jsonschema.Draft202012Validator(schema).validate(found)


def _label(path: Path) -> str:
    return f"{path.name} (sha256 {read_policy(str(path)).key[:8]}, not a shipped policy)"


def _log(place: Path, path: Path, count: int, failed: int) -> None:
    """A gateway's log: receipts that the replay wrote, over and over, and warnings of recalls that broke.

    The replay enforced no scope; here every memory is of the turn's own.
    """
    receipts = [
        row["receipt"].replace('"global"', '"shop"').replace('"origin":"fallback"', '"origin":"primary"')
        for one in sorted((place / "run" / "receipts").iterdir())
        for row in read_table(one, ("arm", "receipt")).to_pylist()
        if row["arm"] == "tier_quota_v1"
    ]
    swapped = r'"fromPrimaryScope":0,"fromFallbackScope":(\d+)', r'"fromPrimaryScope":\1,"fromFallbackScope":0'
    receipts = [re.sub(*swapped, receipt) for receipt in receipts]
    said = [f"openclaw-mem-engine:autoRecall.receipt {receipts[at % len(receipts)]}" for at in range(count)]
    said += ["WARN openclaw-mem-engine: autoRecall failed: TypeError"] * failed
    # Sessions of five lines, 45 minutes apart.
    times = (
        datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=45 * (at // 5), seconds=at) for at in range(len(said))
    )
    lines = (f"{time:%Y-%m-%dT%H:%M:%SZ} {line}\n" for time, line in zip(times, said, strict=True))
    path.write_text("".join(lines), "utf-8")


@pytest.mark.parametrize(
    ("receipts", "failed", "code", "headline"),
    [
        (400, 0, 0, "GO"),
        (400, 40, 1, "NO-GO (fail)"),
        (100, 0, 3, "NO-GO YET (inconclusive)"),
    ],
)
def test_stage_b_judges_an_audited_log(
    lab: Lab, place: Path, tmp_path: Path, receipts: int, failed: int, code: int, headline: str
) -> None:
    _log(place, tmp_path / "gateway.log", receipts, failed)
    done = lab("canary", "audit", "gateway.log", "--out", "b/audit.json", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # The log says the same over and over, so the rules on what is injected are left out.
    text = lab("gate", "policies", "--show", "stage-b", cwd=tmp_path).stdout
    before, _, rest = text.partition("# --- The answers vary. ---")
    (tmp_path / "health.toml").write_text(before + rest[rest.index("# --- Advisory. ---") :])
    done = lab("gate", "b/audit.json", "--policy", "health.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, "")
    lines = done.stdout.splitlines()
    # Such a policy is not the shipped one, whatever it calls itself.
    label = _label(tmp_path / "health.toml")
    assert lines[0] == f"{headline}: {label}"
    assert max(map(len, lines)) <= 80
    # A run and an audit are recognised in any order.
    shutil.copytree(place / "run", tmp_path / "run")
    both = [
        lab("gate", *given, "--policy", "health.toml", "--out", "both", "--json", cwd=tmp_path)
        for given in (("run", "b/audit.json"), ("b/audit.json", "run"))
    ]
    assert [json.loads(one.stdout)["run"] for one in both] == ["run", "run"]
    assert (both[0].stdout, both[0].returncode) == (both[1].stdout, both[1].returncode)
    assert {"guard", "receipts"} <= {line["kind"] for line in json.loads(both[0].stdout)["lines"] if line["reason"]}
    # What to do stands right below the verdict, in every form.
    advice = "set plugins.slots.memory back to memory-lancedb (or memory-core) and restart the gateway"
    assert lines[1].startswith("Roll back: set plugins.slots.memory back to ") == (code == 1)
    assert (advice in (tmp_path / "b" / "verdict.xml").read_text()) == (code != 0)
    assert json.loads((tmp_path / "b" / "verdict.json").read_text())["rollback"].startswith(advice)
    if code == 3:
        said = " ".join(lines)
        assert re.search(r"policy\) Keep the window open: about \d+ more answered recalls\. ", said)
        assert " To roll back anyway: set plugins.slots.memory back to " in said
        assert said.count("100 answered recalls; the policy requires at least 300") == 1
