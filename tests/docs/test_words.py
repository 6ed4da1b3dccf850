"""Private words of earlier versions do not come back into docs/ and lab/: the field has a term for each of them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {".py", ".toml", ".md", ".j2", ".ipynb", ".yml", ".sh"}
TERMS = {
    # In quotes it is the old name of `lab nightly baseline approve`, which still works.
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
    # A seed says "even with a large must pool".
    r"(?<!even with a large )must pool": "must share, must memories",
    r"told apart": "distinguished",
    r"at (?:any|this) moment|random moments|a moment ago": "at any time, now, just before",
    r"seed \d+ asks": "seed 001 requires",
    r"asks? whether|documents ask for": "checks whether, require",
    r"night\.(?:json|log)": "nightly.json",
    r"rungs?|shel(?:f|ves)": "ablation step, registry",
}
# Words that code may use as names, so only the text of docs is checked.
IN_DOCS = {
    r"told": "given, advisory",
    r"moments?": "time, recall point",
    r"(?<!every )nights?": "nightly run",
    r"twins?": "duplicates",
    r"wanted": "relevant, requested",
    r"(?<!subject, )verbs?": "command",
    r"(?:is|are|was|were) asked": "is queried, receives, is given",
}
# In the prose of code a verb may be one of grammar, and "wanted" is the name of a parameter.
IN_PROSE = {word: term for word, term in IN_DOCS.items() if word not in ("(?<!subject, )verbs?", "wanted")}
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`]*`", re.MULTILINE | re.DOTALL)


def _private(text: str, terms: dict[str, str] = TERMS) -> list[str]:
    """Return the private words in a text with their terms; a line break or a comment sign may divide a word."""
    prose = re.sub(r"\s+(?:#\s+)?", " ", text)
    # Most texts have none of them, which one search finds sooner than one for each.
    if not re.search(rf"(?<!\w)(?:{'|'.join(terms)})\b", prose, re.IGNORECASE):
        return []
    return [
        f"{match}: use {term}"
        for word, term in terms.items()
        for match in re.findall(rf"(?<!\w){word}\b", prose, re.IGNORECASE)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a fault that nobody\n    # foresaw", ["nobody foresaw: use unexpected"]),
        ("Blessed runs", ["Blessed: use approve, approved baseline"]),
        ('unwanted memories, "bless", household', []),
        ("even with a large must pool; one must\npool", ["must pool: use must share, must memories"]),
    ],
)
def test_private_words_in_a_text_are_found(text: str, expected: list[str]) -> None:
    assert _private(text) == expected


def test_private_names_are_found_outside_of_code_only() -> None:
    text = CODE.sub("", "The host is asked at a moment:\n\n    night.json\n\n```\ntwins\n```\n\n`wanted` is a key.")
    assert _private(text, IN_DOCS) == ["moment: use time, recall point", "is asked: use is queried, receives, is given"]


def test_docs_and_code_use_the_terms_of_the_field() -> None:
    paths = [*ROOT.glob("*.md"), *(path for folder in ("docs", "lab") for path in sorted((ROOT / folder).rglob("*")))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths if path.suffix in SOURCES}
    assert len(texts) > 300
    assert {name: words for name, text in texts.items() if (words := _private(text))} == {}


def _prose_of(source: str) -> str:
    """Return the comments and docstrings of a module, without code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    texts = [*comments, *(ast.get_docstring(node) or "" for node in nodes)]
    return CODE.sub("", "\n\n".join(texts).replace("``", "`"))


def test_prose_of_a_module_is_found_without_its_code() -> None:
    source = 'TOLD = "asked"  # is told\n\n\ndef verb() -> None:\n    """Return what ``night`` is asked."""\n'
    assert _private(_prose_of(source), IN_PROSE) == [
        "told: use given, advisory",
        "is asked: use is queried, receives, is given",
    ]


def test_comments_and_docstrings_use_no_private_names() -> None:
    texts = {path: path.read_text("utf-8") for path in sorted((ROOT / "lab").rglob("*.py"))}
    assert len(texts) > 300
    # A name of a variable is no prose, but where there is not even that, there is nothing to parse.
    named = {path.relative_to(ROOT).as_posix(): text for path, text in texts.items() if _private(text, IN_PROSE)}
    assert {name: words for name, text in named.items() if (words := _private(_prose_of(text), IN_PROSE))} == {}


def test_text_of_docs_uses_no_private_names() -> None:
    paths = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path.relative_to(ROOT).as_posix(): CODE.sub("", path.read_text("utf-8")) for path in paths}
    assert len(texts) > 50
    assert {name: words for name, text in texts.items() if (words := _private(text, IN_DOCS))} == {}
