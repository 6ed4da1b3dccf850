"""Files are whole or absent, and a reader names the line that it stumbles over."""

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

from lab.errors import CannotMeasure, UnusableInput
from lab.files import (
    atomic_file,
    atomic_folder,
    digest,
    dump_json,
    folder_matches,
    leftovers,
    read_json,
    read_json_lines,
    read_text,
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
def test_a_writer_that_raises_changes_nothing(
    tmp_path: Path, before: dict[str, bytes], fault: BaseException, seen: type[BaseException]
) -> None:
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(seen), atomic_file(tmp_path / "scores.json") as part:  # noqa: PT012 - the writer is what raises
        part.write_bytes(b"half of the n")
        raise fault
    assert _contents(tmp_path) == before


def test_a_full_disk_is_told_in_one_line_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    with pytest.raises(CannotMeasure) as caught, atomic_file(path):
        raise OSError(28, "No space left on device")
    assert str(caught.value) == f"cannot write {path}: No space left on device; the old file is kept"


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_bytes(b"old")
    with atomic_file(path) as part:
        part.write_bytes(b"new")
        assert path.read_bytes() == b"old"
        assert part.parent == path.parent, "a rename is atomic only inside one folder"
        assert [found.name for found in tmp_path.glob("*.json")] == ["scores.json"]
        assert part.name.startswith(".")
    assert _contents(tmp_path) == {"scores.json": b"new"}


def test_a_writer_killed_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_bytes(b"old")
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from lab.files import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as part:\n"
        "    part.write_bytes(b'half of the n')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], cwd=PROJECT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert list(tmp_path.glob("*.json")) == [path]


def test_two_writers_of_one_path_do_not_mix_and_the_last_rename_wins(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    with atomic_file(path) as first:
        first.write_bytes(b"first, the longer one")
        with atomic_file(path) as second:
            second.write_bytes(b"second")
        assert path.read_bytes() == b"second"
    assert _contents(tmp_path) == {"scores.json": b"first, the longer one"}


def test_write_whole_makes_the_folders_and_a_file_that_others_can_read(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "one" / "manifest.json"
    write_atomically(path, b"{}\n")
    assert _contents(path.parent) == {"manifest.json": b"{}\n"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "blocked",
    [lambda base: base / "folder", lambda base: base / "file" / "scores.json"],
    ids=["a folder has that name", "a file stands where a folder is needed"],
)
def test_a_path_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, blocked: Callable[[Path], Path]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    path = blocked(tmp_path)
    with pytest.raises(CannotMeasure, match=rf"^cannot write {re.escape(str(path))}: [^\n]+$"):
        write_atomically(path, b"new")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_json_is_written_as_utf8_in_the_given_order_with_a_newline_at_the_end() -> None:
    value = {"b": "深色模式", "a": [1, None]}
    assert dump_json(value, indent=None) == '{"b": "深色模式", "a": [1, null]}\n'.encode()
    assert dump_json(value).startswith(b'{\n  "b"')
    assert json.loads(dump_json(value)) == value


def test_the_digest_of_a_value_ignores_the_order_of_keys_and_nothing_else() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == hashlib.sha256(b'{"a": 1, "b": [1, 2]}').hexdigest()
    assert digest({"b": [1, 2], "a": 1}) == digest({"a": 1, "b": [1, 2]})
    different = [{"a": 1, "b": [1, 2]}, {"a": 1, "b": [2, 1]}, {"a": "1", "b": [1, 2]}, {"a": 1, "c": [1, 2]}]
    assert len({digest(value) for value in different}) == len(different)


def test_the_sha256_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    (tmp_path / "blob").write_bytes(data)
    assert sha256_file(tmp_path / "blob") == hashlib.sha256(data).hexdigest()


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
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
def test_what_is_no_utf8_file_is_named_with_its_path(
    tmp_path: Path, read: Callable[[Path], Any], data: bytes | None, problem: str
) -> None:
    path = tmp_path / "input.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UnusableInput) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {problem}"


def test_a_folder_cannot_be_read_as_text(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=rf"^{re.escape(str(tmp_path))}: cannot be read: "):
        read_text(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
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
def test_text_that_is_not_json_is_named_by_line_and_column(tmp_path: Path, text: str, line: int, problem: str) -> None:
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
def test_json_that_python_will_not_parse_is_unusable_and_no_traceback(tmp_path: Path, value: str) -> None:
    path = tmp_path / "input.jsonl"
    path.write_text('{"a": 1}\n{"a": ' + value + "}\n", encoding="utf-8")
    with pytest.raises(UnusableInput, match=rf"^{re.escape(str(path))}:2: [^\n]+$"):
        list(read_json_lines(path))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\u001c"], ids=["U+2028", "U+2029", "NEL", "FS"])
def test_only_a_newline_ends_a_json_line(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "lines.jsonl"
    raw = separator if separator > "\u001f" else json.dumps(separator)[1:-1]
    path.write_text(f'{{"text": "one{raw}two"}}\n{{"text": "three"}}\n', encoding="utf-8")
    assert list(read_json_lines(path)) == [(1, {"text": f"one{separator}two"}), (2, {"text": "three"})]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_blank_lines_are_skipped_and_still_counted(tmp_path: Path, newline: str) -> None:
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
def test_a_bad_line_is_named_after_the_good_ones_were_handed_out(tmp_path: Path, third: str, problem: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n\n' + third, encoding="utf-8")
    lines = read_json_lines(path)
    assert next(lines) == (1, {"a": 1})
    with pytest.raises(UnusableInput) as caught:
        next(lines)
    assert str(caught.value) == f"{path}:3: {problem}"


def test_a_file_with_no_line_gives_no_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n \n")
    assert list(read_json_lines(path)) == []


def test_a_folder_holds_exactly_what_its_checksums_name(tmp_path: Path) -> None:
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


def test_only_what_a_process_that_is_gone_has_left_is_a_leftover(tmp_path: Path) -> None:
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
def test_a_folder_is_whole_and_what_a_killed_process_left_of_it_goes(tmp_path: Path, name: str) -> None:
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
