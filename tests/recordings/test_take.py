"""Tests of importing a downloaded data set: atomic, with a card, and with its version identified."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure, CheckFailed, UnusableInput
from lab.base.files import atomic_folder
from lab.recordings.catalogue import CATALOGUE, Entry, Known, entry_of, identified
from lab.recordings.convert import take
from lab.recordings.formats import FORMATS
from lab.recordings.readers import read_library
from lab.recordings.validate import validate

Sample = Callable[[str, Path], Path]


def test_catalogue_entries_have_format_origin_and_licence() -> None:
    # A format without an entry is for the user's own sessions, not for a public set.
    assert {one.format for one in CATALOGUE} <= set(FORMATS) - {"openclaw"}
    for one in CATALOGUE:
        assert one.title
        assert one.repository
        assert one.licence
        assert one.holds
        assert one.good_for
        for known in one.files:
            assert set(known.sha256) <= set("0123456789abcdef")
            assert 8 <= len(known.sha256) <= 64
    with pytest.raises(UnusableInput, match="the catalogue has no set of format 'openclaw'; known formats: realmem, "):
        entry_of("openclaw")


@pytest.mark.parametrize("name", ["openclaw", "openclaw-archived"])
def test_take_own_sessions_suggests_convert(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        UnusableInput, match=r"to use your own sessions, convert them to the lab format with `lab recordings convert`"
    ):
        take(tmp_path, name, tmp_path / "out")


def test_identified_compares_the_known_digits() -> None:
    whole, half = Known("a.json", "79fa87e9"), Known("b.json", "ab" * 32, "a half")
    entry = Entry("x", "X", "somebody/x", "", "", "MIT", "all", "this", (whole, half))
    assert identified(entry, ["79fa87e9" + "0" * 56, "ab" * 32, "79fa87e8" + "0" * 56]) == [whole, half, None]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("realmem", ("realmem",)),
        ("locomo", ("locomo",)),
        ("beam", ("beam", "100K")),
        ("realtalk", ("realtalk",)),
        ("ikat", ("ikat",)),
        ("madial", ("madial",)),
        ("aider", ("transcripts",)),
        ("hermes", ("transcripts",)),
    ],
)
def test_identified_public_files_are_known(shared: Callable[..., Path], name: str, place: tuple[str, ...]) -> None:
    names = read_library(shared("data", *place), name).names
    checksums = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in names.items()}
    identified_files = identified(entry_of(name), checksums.values())
    assert [known.name if known else None for known in identified_files] == list(names)


@pytest.mark.process
def test_take_copies_files_with_a_card(sample: Sample, tmp_path: Path) -> None:
    source, out = sample("beam", tmp_path / "in"), tmp_path / "sets" / "beam"
    (source / "LICENSE").write_text("theirs\n", "utf-8")
    (source / "LICENSES").mkdir()
    taken = take(source, "beam", out)
    chat, questions = "100K/7/chat.json", "100K/7/probing_questions/probing_questions.json"
    assert [(file.name, file.version) for file in taken.files] == [
        (chat, "unknown version"),
        (questions, "unknown version"),
        ("LICENSE", "licence"),
    ]
    assert (taken.conversations, taken.probes, taken.unknown) == (1, 5, (chat, questions))
    for name in (chat, questions, "LICENSE"):
        assert (out / name).read_bytes() == (source / name).read_bytes()
    card = (out / "README.md").read_text("utf-8")
    for said in (
        "# BEAM",
        "mohammadtavakoli78/BEAM, chats, commit b2a3ee8ba1",
        "* **Licence**: none stated: research only",
        "| 100K-7 | en | 2 | 6 | 6 | 5 |",
        hashlib.sha256((out / chat).read_bytes()).hexdigest(),
    ):
        assert said in card
    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert read_library(out, "beam").recordings == read_library(source, "beam").recordings


def test_take_again_changes_nothing_and_never_overwrites(sample: Sample, tmp_path: Path) -> None:
    source, out = sample("realtalk", tmp_path / "in"), tmp_path / "out"
    out.mkdir()
    assert take(source, "realtalk", out).already_there is False
    assert take(source, "realtalk", out).already_there is True
    # The copy can itself be imported.
    assert take(out, "realtalk", tmp_path / "third").files == take(source, "realtalk", out).files
    (out / "README.md").write_text("my own card\n", "utf-8")
    with pytest.raises(UnusableInput, match="out: already holds other files; choose a new folder"):
        take(source, "realtalk", out)
    assert (out / "README.md").read_text("utf-8") == "my own card\n"
    with pytest.raises(UnusableInput, match="exists and is not a folder"):
        take(source, "realtalk", source / "Chat_1_Ada_Ben.json")


def test_take_into_the_source_folder_is_refused(sample: Sample, tmp_path: Path) -> None:
    source = sample("beam", tmp_path / "in")
    with pytest.raises(UnusableInput, match=r"is inside .*in, which would then hold the set twice"):
        take(source, "beam", source / "copy")
    assert not (source / "copy").exists()
    # If the format does not search subfolders, the copy may be inside the source folder.
    flat = sample("realtalk", tmp_path / "flat")
    take(flat, "realtalk", flat / "copy")
    assert len(read_library(flat, "realtalk").recordings) == 1


def test_take_unknown_version_or_unreadable_set_is_refused(sample: Sample, tmp_path: Path) -> None:
    source = sample("ikat", tmp_path / "in")
    with pytest.raises(CheckFailed, match=r"2 of 2 files is unknown \(2024_test_topics.json, …\)"):
        take(source, "ikat", tmp_path / "out", only_known=True)
    (source / "2025_test_topics.json").write_text("[1]", "utf-8")
    with pytest.raises(UnusableInput, match="expected an object"):
        take(source, "ikat", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def _make(place: Path, *, end_with: type[Exception] | None = None) -> None:
    with atomic_folder(place) as part:
        (part / "a").write_text("a", "utf-8")
        if end_with:
            raise end_with


@pytest.mark.process
def test_take_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    place = tmp_path / "set"
    with pytest.raises(ZeroDivisionError):
        _make(place, end_with=ZeroDivisionError)
    assert list(tmp_path.iterdir()) == []
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".set.{dead.pid}.part").mkdir()
    _make(place)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    with pytest.raises(CannotMeasure, match=r"cannot write .*set: Directory not empty; nothing was written"):
        _make(place)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["set", "set/a"]


def test_validate_truncated_published_file_warns(shared: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "hermes-zh.jsonl"
    path.write_bytes(shared("data", "transcripts", path.name).read_bytes())
    assert [warning for warning in validate(path, "hermes").warnings if "published" in warning] == []
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (said,) = [warning for warning in validate(path, "hermes").warnings if "published" in warning]
    assert said == (
        "hermes-zh.jsonl: differs from the published file of that name: it is newer, edited or truncated; "
        "`lab recordings list hermes` shows the known checksums"
    )


@pytest.mark.parametrize("place", [("probing_questions",), ()])
def test_validate_edited_beam_questions_warns_in_both_layouts(
    sample: Sample, tmp_path: Path, place: tuple[str, ...]
) -> None:
    folder = sample("beam", tmp_path) / "100K" / "7"
    published = folder / "probing_questions" / "probing_questions.json"
    published.rename(path := folder.joinpath(*place, "probing_questions.json"))
    warned = [
        warning.split(": ")[0]
        for warning in validate(tmp_path, "beam").warnings
        if "differs from the published file" in warning
    ]
    assert warned == ["100K/7/chat.json", path.relative_to(tmp_path).as_posix()]
