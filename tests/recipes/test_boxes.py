"""Every box of the page is executed by a test."""

from __future__ import annotations

import re
from pathlib import Path

from tests.recipes.conftest import FILES, ROOT

HERE = Path(__file__).parent


def test_every_box_is_executed(boxes: dict[str, str]) -> None:
    tests = "".join(path.read_text("utf-8") for path in sorted(HERE.glob("*.py")))
    assert len(boxes) >= 14
    assert [title for title in boxes if f'boxes["{title}"]' not in tests] == []


def test_page_names_every_file_of_the_recipes() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    files = [path.relative_to(FILES).as_posix() for path in sorted(FILES.rglob("*")) if path.is_file()]
    named = [name for name in files if name in page]
    assert named == files
    assert re.search(r"https?://(?!example\.org)", page) is None
