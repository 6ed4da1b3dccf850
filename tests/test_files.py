"""Atomic files and folders, and readers that name file and line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import (
    atomic_file,
    atomic_folder,
    digest,
    dump_json,
    folder_matches,
    leftovers,
    read_json,
    read_json_lines,
    read_text,
    read_toml,
    sha256_file,
    write_atomically,
)

PROJECT = Path(__file__).resolve().parents[1]


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("before", [{}, {"scores.json": b"old"}], ids=["no file before", "an old file"])
@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (ValueError("bad row"), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(28, "No space left on device"), CannotMeasure),
    ],
    ids=["a fault of the writer", "an interrupt", "a full disk"],
)
def test_atomic_file_with_error_keeps_the_old_file(
    tmp_path: Path, before: dict[str, bytes], fault: BaseException, seen: type[BaseException]
) -> None:
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(seen), atomic_file(tmp_path / "scores.json") as part:  # noqa: PT012 - the writer is what raises
        part.write_bytes(b"half of the n")
        raise fault
    assert _contents(tmp_path) == before


def test_atomic_file_on_full_disk_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    with pytest.raises(CannotMeasure) as caught, atomic_file(path):
        raise OSError(28, "No space left on device")
    assert str(caught.value) == f"cannot write {path}: No space left on device; the old file is kept"


def test_atomic_file_shows_old_content_until_renamed(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_bytes(b"old")
    with atomic_file(path) as part:
        part.write_bytes(b"new")
        assert path.read_bytes() == b"old"
        assert part.parent == path.parent, "a rename is atomic only inside one folder"
        assert [found.name for found in tmp_path.glob("*.json")] == ["scores.json"]
        assert part.name.startswith(".")
    assert _contents(tmp_path) == {"scores.json": b"new"}


@pytest.mark.process
def test_atomic_file_of_killed_writer_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_bytes(b"old")
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from lab.base.files import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as part:\n"
        "    part.write_bytes(b'half of the n')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], cwd=PROJECT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert list(tmp_path.glob("*.json")) == [path]


def test_atomic_file_with_two_writers_keeps_the_last(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    with atomic_file(path) as first:
        first.write_bytes(b"first, the longer one")
        with atomic_file(path) as second:
            second.write_bytes(b"second")
        assert path.read_bytes() == b"second"
    assert _contents(tmp_path) == {"scores.json": b"first, the longer one"}


def test_write_atomically_creates_folders_and_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "one" / "manifest.json"
    write_atomically(path, b"{}\n")
    assert _contents(path.parent) == {"manifest.json": b"{}\n"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "blocked",
    [lambda base: base / "folder", lambda base: base / "file" / "scores.json"],
    ids=["a folder has that name", "a file stands where a folder is needed"],
)
def test_unwritable_path_is_one_line(tmp_path: Path, blocked: Callable[[Path], Path]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    path = blocked(tmp_path)
    with pytest.raises(CannotMeasure, match=rf"^cannot write {re.escape(str(path))}: [^\n]+$"):
        write_atomically(path, b"new")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_dump_json_writes_utf8_in_given_order() -> None:
    value = {"b": "深色模式", "a": [1, None]}
    assert dump_json(value, indent=None) == '{"b": "深色模式", "a": [1, null]}\n'.encode()
    assert dump_json(value).startswith(b'{\n  "b"')
    assert json.loads(dump_json(value)) == value


def test_digest_ignores_only_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == hashlib.sha256(b'{"a": 1, "b": [1, 2]}').hexdigest()
    assert digest({"b": [1, 2], "a": 1}) == digest({"a": 1, "b": [1, 2]})
    different = [{"a": 1, "b": [1, 2]}, {"a": 1, "b": [2, 1]}, {"a": "1", "b": [1, 2]}, {"a": 1, "c": [1, 2]}]
    assert len({digest(value) for value in different}) == len(different)


def test_sha256_file_equals_sha256_of_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    (tmp_path / "blob").write_bytes(data)
    assert sha256_file(tmp_path / "blob") == hashlib.sha256(data).hexdigest()


def test_read_text_drops_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "marked.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": 1}\n')
    assert read_text(path) == '{"a": 1}\n'
    assert read_json(path) == {"a": 1}
    assert list(read_json_lines(path)) == [(1, {"a": 1})]


@pytest.mark.parametrize("read", [read_text, read_json, lambda path: list(read_json_lines(path))])
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "no such file"),
        ('{"a": "naïve"}'.encode("latin-1"), "not UTF-8 text (byte 9); save it as UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8 text (byte 0); save it as UTF-8"),
    ],
    ids=["missing", "latin-1", "utf-16"],
)
def test_read_text_of_other_bytes_names_the_path(
    tmp_path: Path, read: Callable[[Path], Any], data: bytes | None, problem: str
) -> None:
    path = tmp_path / "input.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UnusableInput) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {problem}"


def test_read_text_of_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=rf"^{re.escape(str(tmp_path))}: cannot be read: "):
        read_text(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_read_text_without_permission_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "closed.json"
    path.write_bytes(b"{}")
    path.chmod(0)
    with pytest.raises(UnusableInput, match="cannot be read: Permission denied"):
        read_text(path)


CUT = " (the file seems cut off)"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, f"Expecting value at column 1{CUT}"),
        ('{\n "a": 1,\n "b": [1, 2', 3, f"Expecting ',' delimiter at column 12{CUT}"),
        ('[\n {"a": 1},\n {"b": "one two', 3, f"Unterminated string at column 8{CUT}"),
        ('{\n "a": 1\n "b": 2\n}\n', 3, "Expecting ',' delimiter at column 2"),
        ('{"a": 1}\n{"a": 2}\n', 2, "Extra data at column 1"),
    ],
    ids=["empty", "cut in a list", "cut in a string", "comma missing", "two values"],
)
def test_read_json_of_invalid_json_names_line_and_column(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = tmp_path / "input.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_json(path)
    assert str(caught.value) == f"{path}:{line}: not JSON: {problem}"


@pytest.mark.parametrize(
    "value",
    ["[" * 200_000, "9" * 5000],
    ids=["nested too deeply", "a number of 5,000 digits"],
)
def test_read_json_of_unparsable_json_is_unusable(tmp_path: Path, value: str) -> None:
    path = tmp_path / "input.jsonl"
    path.write_text('{"a": 1}\n{"a": ' + value + "}\n", encoding="utf-8")
    with pytest.raises(UnusableInput, match=rf"^{re.escape(str(path))}:2: [^\n]+$"):
        list(read_json_lines(path))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\u001c"], ids=["U+2028", "U+2029", "NEL", "FS"])
def test_json_lines_split_only_at_newlines(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "lines.jsonl"
    raw = separator if separator > "\u001f" else json.dumps(separator)[1:-1]
    path.write_text(f'{{"text": "one{raw}two"}}\n{{"text": "three"}}\n', encoding="utf-8")
    assert list(read_json_lines(path)) == [(1, {"text": f"one{separator}two"}), (2, {"text": "three"})]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_json_lines_skip_but_count_blank_lines(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(newline.join(["", '{"a": 1}', "  ", "", '{"a": 2}']).encode())
    assert list(read_json_lines(path)) == [(2, {"a": 1}), (5, {"a": 2})]


@pytest.mark.parametrize(
    ("third", "problem"),
    [
        ('{"a": 3', f"not JSON: Expecting ',' delimiter at column 8{CUT}"),
        ('{"a": 3}}', "not JSON: Extra data at column 9"),
        ("[1]", "expected one JSON object a line, found a list"),
        ('"text"', "expected one JSON object a line, found a string"),
        ("null", "expected one JSON object a line, found null"),
    ],
    ids=["cut off", "one brace too many", "a list", "a string", "null"],
)
def test_json_lines_yield_good_lines_before_a_bad_one(tmp_path: Path, third: str, problem: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n\n' + third, encoding="utf-8")
    lines = read_json_lines(path)
    assert next(lines) == (1, {"a": 1})
    with pytest.raises(UnusableInput) as caught:
        next(lines)
    assert str(caught.value) == f"{path}:3: {problem}"


def test_json_lines_of_empty_file_yield_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n \n")
    assert list(read_json_lines(path)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 1\nname = 2\n", ":2: key 'name' is given twice; remove one"),
        ("[a]\nb = [\n1,\n]\nc = 1\nb = [\n2]\n", ":6: key 'b' is given twice; remove one"),
        ("a = 1\nb\n", ": not TOML: Expected '=' after a key in a key/value pair (at line 2, column 2)"),
    ],
)
def test_toml_error_says_where_and_names_a_repeated_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_toml(path)
    assert str(caught.value) == f"{path}{said}"


def test_folder_matches_compares_files_and_checksums(tmp_path: Path) -> None:
    place = tmp_path / "set"
    assert not folder_matches(place, {})
    place.mkdir()
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one", "in/two")}
    assert not folder_matches(place, sums)
    write_atomically(place / "one", b"one")
    write_atomically(place / "in" / "two", b"in/two")
    assert folder_matches(place, sums)
    for others in ({"one": sums["one"]}, sums | {"three": sums["one"]}, sums | {"one": sums["in/two"]}):
        with pytest.raises(UnusableInput, match="set: already holds other files; choose a new folder"):
            folder_matches(place, others)
    with pytest.raises(UnusableInput, match="one: exists and is not a folder"):
        folder_matches(place / "one", sums)


def test_leftovers_are_only_files_of_dead_processes(tmp_path: Path) -> None:
    gone = 2**22 + 1  # beyond the most that a system gives out
    names = [
        f".a.{gone}.x.part",
        f".a.{'9' * 30}.x.part",
        f".a.{os.getpid()}.x.part",
        ".a.\u00b2.x.part",
        ".a.x.y.part",
    ]
    for name in names:
        (tmp_path / name).touch()
    assert {path.name for path in leftovers(tmp_path)} == set(names[:2])


@pytest.mark.parametrize("name", ["plain", "set[1]", "a*"])
def test_atomic_folder_removes_leftovers_of_killed_processes(tmp_path: Path, name: str) -> None:
    gone, running, other = (tmp_path / f".{one}.part" for one in (f"{name}.4194305", f"{name}.1", "set1.4194305"))
    for folder in (gone, running, other):
        folder.mkdir()
        (folder / "half").write_text("half")
    with atomic_folder(tmp_path / name) as part:
        (part / "one").write_text("1")
        assert not (tmp_path / name).exists()
    assert {path.name for path in tmp_path.iterdir()} == {running.name, other.name, name}
    assert _contents(tmp_path / name) == {"one": b"1"}
    with pytest.raises(CannotMeasure, match="nothing was written"), atomic_folder(tmp_path / "none") as part:
        (part / "below" / "one").touch()
    assert {path.name for path in tmp_path.iterdir()} == {running.name, other.name, name}
