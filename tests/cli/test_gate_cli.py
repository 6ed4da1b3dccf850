"""``lab gate`` from end to end: its exit codes and its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Lab = Callable[..., Any]


def policy(folder: Path, rules: str, least: int = 2) -> str:
    (folder / "mine.toml").write_text(
        f'name = "mine"\nabout = "what it means"\nminimum_conversations = {least}\n{rules}'
    )
    return "mine.toml"


@pytest.mark.parametrize(
    ("rules", "least", "more", "code"),
    [
        ('[[limit]]\nmeasure = "Success@6"\nat_most = 1.0\n', 2, (), 0),
        ('[[limit]]\nmeasure = "Success@6"\nat_least = 1.01\n', 2, (), 1),
        ('[[guard]]\nmeasure = "Success@6"\nmargin = 0.02\n', 50, (), 3),
        ('[[guard]]\nmeasure = "Success@6"\nmargin = 0.02\n', 50, ("--inconclusive-as", "pass"), 0),
        ('[[guard]]\nmeasure = "Success@6"\nmargin = 0.02\n', 50, ("--inconclusive-as", "fail"), 1),
        ('[[guard]]\nmeasure = "Nothing@6"\nmargin = 0.02\n', 2, (), 4),
        ('[[guard]]\nmeasure = "Success@6"\n', 2, (), 2),
        ('[[limit]]\nmeasure = "Success@6"\nat_most = 1.0\n', 2, ("--inconclusive-as", "maybe"), 2),
    ],
)
def test_the_exit_code_is_the_verdict(
    lab: Lab, place: Path, rules: str, least: int, more: tuple[str, ...], code: int
) -> None:
    done = lab("gate", "run", "--policy", policy(place, rules, least), "--json", *more, cwd=place)
    assert done.returncode == code, done.stderr
    if code != 2:
        found = json.loads(done.stdout)
        assert found == json.loads((place / "run" / "verdict.json").read_text())
        assert found["schema"] == "lab.verdict.v1"
        assert {"verdict.json", "verdict.xml", "verdict.prom"} <= {path.name for path in (place / "run").iterdir()}
    else:
        assert done.stderr.count("\n") == 1


def test_the_shipped_policy_says_why_and_writes_a_step_summary(lab: Lab, place: Path, tmp_path: Path) -> None:
    step = tmp_path / "summary.md"
    done = lab("gate", "run", "--policy", "rollout", cwd=place, GITHUB_STEP_SUMMARY=str(step))
    assert done.returncode == 3, done.stdout
    assert done.stdout.startswith("INCONCLUSIVE: rollout, tier_quota_v1 against tier_first_v1\n")
    assert "the policy decides over 8 or more" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "## Gate rollout: inconclusive" in step.read_text()
    assert "::warning title=gate rollout::" in done.stderr


def test_a_policy_that_is_nowhere_is_a_usage_error(lab: Lab, place: Path) -> None:
    done = lab("gate", "run", "--policy", "nowhere", cwd=place)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
