"""Excluded memories take no other memory's place: the search itself leaves them out (E-68)."""

from __future__ import annotations

import pytest

from tests.starving import failure


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_recall_of_generated_stores_never_starves(first: int) -> None:
    assert [told for seed in range(first, first + 50) if (told := failure(seed))] == []
