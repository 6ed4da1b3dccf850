"""The part of a text that is embedded, which is also the key of its cached vector."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.embedding.cache import text_key
from lab.retrieval.clamp import Clamp, clamp
from lab.retrieval.retrievers import embedded_text

ANY_TEXT = st.text(st.characters(codec=None, categories=None) | st.sampled_from("a é深🙂\ud83d\ude42\n."), max_size=60)
LIMITS = st.builds(
    Clamp,
    st.integers(-1, 80) | st.just(6000) | st.floats(0, 40),
    st.integers(-1, 40),
    st.none() | st.integers(-1, 60),
)


@given(ANY_TEXT, LIMITS)
def test_embedded_text_shortcut_equals_the_clamp(text: str, limits: Clamp) -> None:
    assert embedded_text(text, limits) == clamp(text, limits).text


def test_vector_key_depends_only_on_the_clamped_text() -> None:
    def key(text: str, **limits: int) -> bytes:
        return text_key(embedded_text(text, Clamp(**limits)))

    short, long = "a port", "word " * 2000
    assert len({key(short), key(short, max_chars=700), key(short, head_chars=9), key(short, max_bytes=99)}) == 1
    assert len({key(long), key(long, max_chars=700), key(long, head_chars=9), key(long, max_bytes=99)}) == 4
    # What the clamp removes does not count.
    assert key(long + "end", max_chars=500) == key(long + "x" + "end", max_chars=500)
    assert key(long + "end", max_chars=600) != key(long + "x" + "end", max_chars=600)
