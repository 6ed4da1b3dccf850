"""Private words of earlier versions do not come back into docs/ and lab/: the field has a term for each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {".py", ".toml", ".md", ".j2", ".ipynb", ".yml"}
TERMS = {
    # In quotes it is the old name of `lab baseline approve`, which still works.
    r"(?<!\")bless(?:ed|es|ing)?": "approve, approved baseline",
    r"red nights?": "failed nightly run",
    r"the house": "architecture, package",
    r"rolls? dice": "is nondeterministic",
    r"nobody foresaw": "unexpected",
    r"could have been found": "minimum detectable effect",
    r"four times in five": "80 % power",
    r"how sure": "confidence interval",
    r"repeats? itself": "repeat rate",
    r"drawn labels": "sampled labels",
    r"wanted (?:memory|memories)": "relevant memory",
    r"lost gold": "missed relevant memories",
    r"nothing beats": "Pareto front",
    r"what is promised of": "safety checks and harms",
    r"put under test": "evaluated",
    r"is read over": "is ignored",
    r"(?:held|holds?) (?:it )?against": "compare with",
}


def _private(text: str) -> list[str]:
    """Return the private words in a text with their terms; a line break or a comment sign may divide a word."""
    prose = re.sub(r"\s+(?:#\s+)?", " ", text)
    return [
        f"{match}: use {term}"
        for word, term in TERMS.items()
        for match in re.findall(rf"(?<!\w){word}\b", prose, re.IGNORECASE)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a fault that nobody\n    # foresaw", ["nobody foresaw: use unexpected"]),
        ("Blessed runs", ["Blessed: use approve, approved baseline"]),
        ('unwanted memories, "bless", household', []),
    ],
)
def test_private_words_in_a_text_are_found(text: str, expected: list[str]) -> None:
    assert _private(text) == expected


def test_docs_and_code_use_the_terms_of_the_field() -> None:
    paths = [ROOT / "README.md", *(path for folder in ("docs", "lab") for path in sorted((ROOT / folder).rglob("*")))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths if path.suffix in SOURCES}
    assert len(texts) > 300
    assert {name: words for name, text in texts.items() if (words := _private(text))} == {}
