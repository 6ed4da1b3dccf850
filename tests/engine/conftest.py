"""The engine's tests read vectors observed from the public engine, and build rows from a few words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def observed(shared: Callable[..., Path]) -> Callable[[str], list[dict[str, Any]]]:
    """The records of one file of vectors; the test is skipped where the file is absent."""

    def read(name: str) -> list[dict[str, Any]]:
        lines = shared("parity", "visible", name).read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line.strip()]

    return read
