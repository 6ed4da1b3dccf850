"""Folders of Markdown files, and indexes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.index import DocsIndex, DocsSearch
from lab.systems.openclaw.docs.lane import open_docs

HANDBOOK = {
    ".git/HEAD": "",
    "gateway/decisions/2026-03-02-port.md": "# Port\n\nThe gateway listens on port 8443.\n\n## Why\n\nOne clashed.\n",
    "gateway/runbook.md": "# Runbook\n\nRestart the gateway with `systemctl restart gw`.\n\n```sh\n# no heading\n```\n",
    "mobile/specs/login.md": "# Login\n\nThe mobile app signs in with a passkey.\n\n## Port\n\nIt asks port 9000.\n",
    "notes/部署.md": "# 部署規則\n\n週五不部署，週四下午五點凍結。\n\n## 例外\n\n資料庫遷移要先備份，再通知客服。\n",
}

# Axes of the counting embedder.
WORDS = ("gateway", "port", "mobile", "passkey", "restart", "clashed", "部署", "備份")


class Counting:
    """An embedder with one axis per word that records its inputs."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += texts
        return np.array([[word in text.lower() for word in WORDS] for text in texts], np.float32)


@pytest.fixture
def counting() -> type[Counting]:
    """Return a factory of recording embedders."""
    return Counting


@pytest.fixture
def refs() -> Callable[[DocsSearch], list[str]]:
    """Return what a search found, each by its citation within the handbook."""
    return lambda found: [row.record_ref.removeprefix("doc:handbook:") for row in found.rows]


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Return a function that writes files below the folder ``handbook`` and returns the folder."""

    def write(files: Mapping[str, str]) -> Path:
        folder = tmp_path / "handbook"
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return folder

    return write


@pytest.fixture
def handbook(written: Callable[[Mapping[str, str]], Path]) -> Path:
    """A small handbook in two languages, a repository."""
    return written(HANDBOOK)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., DocsIndex]]:
    """Return a function that updates an index from a folder, always in the same file unless another is named."""
    with ExitStack() as stack:

        def bring(folder: Path, embed: Any = None, name: str = "index", **settings: Any) -> DocsIndex:
            docs_settings = DocsSettings(enabled=True, source_roots=(str(folder),), **settings)
            return stack.enter_context(open_docs(docs_settings, tmp_path / name, embed))

        yield bring
