"""Folders of Markdown files, and indexes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lab.engine.docs.index import DocsIndex
from lab.engine.docs.lane import open_docs
from lab.engine.settings import DocsSettings

HANDBOOK = {
    "gateway/decisions/2026-03-02-port.md": "# Port\n\nThe gateway listens on port 8443.\n\n## Why\n\nOne clashed.\n",
    "gateway/runbook.md": "# Runbook\n\nRestart the gateway with `systemctl restart gw`.\n\n```sh\n# no heading\n```\n",
    "mobile/specs/login.md": "# Login\n\nThe mobile app signs in with a passkey.\n\n## Port\n\nIt asks port 9000.\n",
    "notes/部署.md": "# 部署規則\n\n週五不部署，週四下午五點凍結。\n\n## 例外\n\n資料庫遷移要先備份，再通知客服。\n",
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Writes files below the folder ``handbook`` and gives it back."""

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
    """A small handbook in two languages, outside any repository."""
    return written(HANDBOOK)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., DocsIndex]]:
    """Brings an index up to date with a folder; the same place every time unless another is named."""
    with ExitStack() as stack:

        def bring(folder: Path, embed: Any = None, place: str = "index", **settings: Any) -> DocsIndex:
            asked = DocsSettings(enabled=True, source_roots=(str(folder),), **settings)
            return stack.enter_context(open_docs(asked, tmp_path / place, embed))

        yield bring
