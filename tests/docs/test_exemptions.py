"""Every exemption from a check of the code has its reason beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lab", "tests", "docs")
# An exemption, then ``- reason`` or ``# reason``.
EXEMPTION = re.compile(r"# (?:noqa|type: ignore|pragma: no \w+|mypy: )[^\n]*")
REASON = re.compile(r"# (?:noqa: [A-Z0-9, ]+|type: ignore\[[a-z, -]+\]|pragma: no \w+)  ?[-#] \S.*")


def _without_reason(text: str) -> list[str]:
    return [found for found in EXEMPTION.findall(text) if not REASON.fullmatch(found)]


@pytest.mark.parametrize(
    ("line", "is_bare"),
    [
        ("x = 1  # noqa", True),
        ("x = 1  # noqa: S101", True),
        ("x = 1  # type: ignore[misc]", True),
        ("x = 1  # type: ignore  # of any kind", True),
        ("x = 1  # noqa: S101, PT018 - for the type checker", False),
        ("x = 1  # type: ignore[arg-type]  # by name", False),
    ],
)
def test_exemption_without_reason_is_found(line: str, is_bare: bool) -> None:
    assert bool(_without_reason(line)) == is_bare


def test_every_exemption_has_a_reason() -> None:
    paths = [ROOT / "noxfile.py", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths if path != Path(__file__)}
    assert len(texts) > 1000
    assert {name: bare for name, text in texts.items() if (bare := _without_reason(text))} == {}
