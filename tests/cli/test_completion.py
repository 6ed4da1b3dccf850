"""Shell completion of commands, options, and their values, as bash, zsh and fish ask for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import run_here


def _completed(line: str, cwd: Path) -> list[str]:
    """Return what bash would offer for the last word of a line."""
    words = line.split(" ")
    asked = {"_LAB_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return run_here(cwd=cwd, **asked).stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lab rep", ["replay", "report"]),
        ("lab gate pol", ["policies"]),
        ("lab replay shi", ["shipped:capture", "shipped:harms", "shipped:operators", "shipped:traps"]),
        ("lab replay PATH --format open", ["openclaw", "openclaw-archived"]),
        ("lab replay PATH --arm tier", ["tier_first_v1", "tier_quota_v1"]),
        ("lab explain run TURN --arm tier", ["tier_first_v1", "tier_quota_v1"]),
        ("lab compare run --candidate h", ["hybrid"]),
        ("lab compare nowhere --candidate h", []),
        ("lab gate run --policy roll", ["rollout", "rollout-2026-11"]),
        ("lab recordings list loc", ["locomo"]),
        ("lab explain run TURN --with", ["--with-text"]),
    ],
)
def test_completion_offers(line: str, words: list[str], place: Path) -> None:
    assert _completed(line, place) == words


def test_completion_offers_names_of_baselines(tmp_path: Path) -> None:
    names = tmp_path / "reports" / "baselines" / "names"
    names.mkdir(parents=True)
    for name in ("released", "other"):
        (names / f"{name}.json").write_text(json.dumps({}), "utf-8")
    assert _completed("lab nightly baseline show rel", tmp_path) == ["released"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed(shell: str, tmp_path: Path) -> None:
    done = run_here("--show-completion", shell, cwd=tmp_path, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0
    assert "_LAB_COMPLETE" in done.stdout
