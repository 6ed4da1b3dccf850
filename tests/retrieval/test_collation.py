"""The order of ids: JavaScript's localeCompare in the ICU root collation."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.retrieval.collation import id_order


@pytest.mark.parametrize(
    "ordered",
    [
        # Signs, digits, letters; lower case before upper case only if all else is equal.
        [" ", "_", "-", ",", ".", "(", "@", "/", "&", "#", "+", "<", "|", "~", "$", "0", "9", "a", "A", "b", "B", "z"],
        ["aa", "aA", "Aa", "AA", "ab", "aB"],
        ["_x", "0f", "a1", "A1", "b1", "B2", "working_set:global", "working-set"],
        # Accents are compared after the letters of the full text, and before case.
        ["resume", "Resume", "résumé", "Résumé", "resumes"],
        ["e", "é", "ea", "o", "ö", "ø", "oe", "œ", "p", "ss", "ß", "z", "Ź", "α", "а", "あ", "一", "中"],
        ["~", "🚀", "$", "€", "1"],
        ["", "a", "ab"],
        ["a", "ａ"],
    ],
)
def test_id_order_sorts_ids_like_locale_compare(ordered: list[str]) -> None:
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert sorted(shuffled, key=id_order) == ordered


@pytest.mark.parametrize(("one", "other"), [("a\x00b", "ab"), ("\x7fA", "A"), ("é", "e\u0301"), ("a\u200bb", "ab")])
def test_id_order_of_equal_ids_is_equal(one: str, other: str) -> None:
    assert id_order(one) == id_order(other)


@pytest.mark.parametrize("identity", ["\ud83d", "\t", "\u2028", "\U0010ffff"])
def test_id_order_accepts_any_text(identity: str) -> None:
    assert id_order(identity) != id_order("a")


def test_id_order_sorts_uuids_by_code_point() -> None:
    ids = [str(uuid.UUID(int=random.Random(seed).getrandbits(128))) for seed in range(500)]
    assert sorted(ids, key=id_order) == sorted(ids)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)), st.text(max_size=3))
def test_id_order_by_table_and_by_unicode_agree(plain: str, behind: str) -> None:
    """An ignored character forces the Unicode path and does not change the order."""
    assert id_order(plain) == id_order(f"{plain}\u200b")
    assert (id_order(plain) < id_order(plain + behind)) == (id_order(f"{plain}\u200b") < id_order(plain + behind))


@pytest.mark.process
def test_id_order_loads_unicode_tables_only_when_needed() -> None:
    code = (
        "import sys; from lab.retrieval.collation import id_order as key; key('a-1_B'); print('pyuca' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
