"""The cache is private to its owner, because it holds texts of memories and documents."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.retrieval.tokens import TextSettings, Tokens


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """Set the umask to 0, so that new files are open to everybody by default."""
    before = os.umask(0)
    yield
    os.umask(before)


def _rights(root: Path) -> dict[str, str]:
    """Return the permissions of a folder and its contents, by path."""
    return {
        path.relative_to(root.parent).as_posix(): stat.filemode(path.stat().st_mode)
        for path in (root, *sorted(root.rglob("*")))
    }


@pytest.mark.usefixtures("open_to_all")
def test_cache_of_replay_is_private_to_its_owner(desk: Any) -> None:
    (desk.home / "docs").mkdir()
    (desk.home / "docs" / "crates.md").write_text("# Crates\n\nPlums are kept in crate 4.\n", encoding="utf-8")
    lane = {"enabled": True, "scopeMappingStrategy": "none", "sourceRoots": [str(desk.home / "docs")]}
    configuration = {"docsColdLane": lane, "lab": {"arm": "engine"}}
    (desk.home / "engine.json").write_text(json.dumps(configuration), encoding="utf-8")
    desk.say("talk", ("global", [("user", "where are the plums", "crate 4 holds plums"), ("user", "and the pears")]))
    desk.run("hybrid", f"cited={desk.home / 'engine.json'}")

    rights = _rights(desk.home / "cache")
    files = {path for path, mode in rights.items() if not mode.startswith("d")}
    assert {path.split("/")[1] for path in files} == {"candidates", "tokens", "vectors"}
    assert {rights[path] for path in files} == {"-rw-------"}
    assert {mode for path, mode in rights.items() if path not in files} == {"drwx------"}


@pytest.mark.usefixtures("open_to_all")
def test_documents_index_side_files_are_private(desk: Any) -> None:
    from lab.systems.openclaw.docs.index import open_database

    place = desk.home / "index"
    database = open_database(place / "docs.sqlite")
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        assert len(list(place.iterdir())) > 1
        assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    finally:
        database.close()
    assert sqlite3.connect(place / "docs.sqlite").execute("PRAGMA quick_check(1)").fetchone() == ("ok",)


@pytest.mark.usefixtures("open_to_all")
def test_cache_folder_with_open_rights_is_made_private(desk: Any) -> None:
    Tokens(TextSettings()).prepare(["crate 4 holds plums"])
    (folder,) = (desk.home / "cache" / "tokens").iterdir()
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    assert Tokens(TextSettings()).prepare(["crate 4 holds plums"]) == 0
    assert stat.filemode(folder.stat().st_mode) == "drwx------"
