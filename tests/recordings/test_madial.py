"""Tests of the MADial-Bench reader: an archive per user, two files per language."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import sha256_file
from lab.golden.model import Judgement, Probe
from lab.recordings.catalogue import entry_of, identified
from lab.recordings.model import Memory, Turn
from lab.recordings.readers import read_library
from lab.replay.pool import content

Sample = Callable[[str, Path], Path]
JULY_3 = 1719964800000  # 2024-07-03T00:00:00Z, the day after the last memory
JUNE_16 = 1718496000000


def test_madial_user_is_a_conversation_with_an_archive(sample: Sample, tmp_path: Path) -> None:
    library = read_library(sample("madial", tmp_path), "madial")
    ada, ben = library.recordings
    assert (ada.conversation, ada.sessions, ben.conversation) == ("en-user1", ("d001",), "en-user2")
    assert set(library.names) == {"MADial-Bench-en-dialogue.json", "MADial-Bench-en-memory.json"}
    assert ada.turns[:2] == (
        Turn("en-user1/d001/1", 0, "d001", "user", "The kiln is cold again.", JULY_3, speaker="Ada"),
        # A line without a speaker belongs to the other speaker.
        Turn("en-user1/d001/2", 1, "d001", "assistant", "Shall I call somebody?", JULY_3 + 1, speaker="assistant"),
    )
    assert ben.turns[0].time_ms == JUNE_16


def test_madial_memory_owner_is_who_needs_it_or_is_named(sample: Sample, tmp_path: Path) -> None:
    ada, ben = read_library(sample("madial", tmp_path), "madial").recordings
    # In date order. A memory that no dialogue needs and that names no user belongs to all users.
    assert [memory.key for memory in ada.memories] == [f"en-user1/archive#{one}" for one in (8, 1, 2)]
    assert [memory.key for memory in ben.memories] == [f"en-user2/archive#{one}" for one in (7, 8)]
    event = "Ada broke a bowl."
    assert ada.memories[1] == Memory("en-user1/archive#1", event, event, visible_from=0, created_at=1703462400000)


def test_madial_probe_is_user_turn_before_first_test_turn(sample: Sample, tmp_path: Path) -> None:
    golden = read_library(sample("madial", tmp_path), "madial").golden
    slices = {"language": "en"}
    fuse = "You changed the fuse."
    asked, sung = "en-user1/d001/3", "en-user2/d002/1".replace("d002", "d001")
    assert golden.probes == (
        Probe(asked, "en-user1", asked, None, (Judgement("en-user1/archive#2"),), slices=slices, answer=fuse),
        Probe(sung, "en-user2", sung, None, (Judgement("en-user2/archive#7"),), slices=slices, answer="As in May?"),
    )
    assert golden.notes == (
        "en-user1/d001: relevant-id ['99'] are not memories of this user",
        "en-user1: lines without a speaker, assigned to the other speaker: 1",
    )


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_madial_archive_layouts_read_the_same(sample: Sample, tmp_path: Path, indent: int | None) -> None:
    folder = sample("madial", tmp_path)
    published = read_library(folder, "madial")
    archive = folder / "MADial-Bench-en-memory.json"
    lines = archive.read_text("utf-8").splitlines()
    assert len(lines) == 4
    joined = {key: load for line in lines for key, load in json.loads(line).items()}
    archive.write_text(json.dumps(joined, indent=indent), "utf-8")
    again = read_library(folder, "madial")
    assert (again.recordings, again.golden) == (published.recordings, published.golden)
    # A mixture: blank lines, a byte order mark, two ids on one line.
    archive.write_text("\ufeff" + "\n\n".join([json.dumps(joined), '{"50": ' + lines[0][6:]]), "utf-8")
    assert len(read_library(folder, "madial").recordings[0].memories) == 4


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            '{"5": {"time": "2023-05-01", "event"',
            ":3: not JSON: Expecting ':' delimiter at column 37 (the file seems cut off)",
        ),
        ('["5"]', ":3: expected one JSON object a line, found a list"),
        ('{"5": "Ada slept."}', ":3: 5: expected an object, found a string"),
        ('{"time": "2023-05-01", "event": "Ada slept."}', ":3: time: expected an object, found a string"),
        ('{"5": {"time": "2023-05-01"}}', ":3: 5: has no field 'event'"),
        ('{"5": {"event": "Ada slept."}}', ":3: 5: has no field 'time'"),
        ('{"5": {"event": "Ada slept.", "time": "May"}}', ":3: 5: time 'May' is not like '2023-12-25'"),
        (
            '{"2": {"event": "Ada slept.", "time": "2023-05-01"}}',
            ":3: 2: occurs twice; the first is at MADial-Bench-en-memory.json:1: 2",
        ),
    ],
)
def test_madial_archive_with_invalid_line_names_line(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, problem: str
) -> None:
    path = sample("madial", tmp_path) / "MADial-Bench-en-memory.json"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnusableInput) as caught:
        read_library(Path("MADial-Bench-en-dialogue.json"), "madial")
    assert str(caught.value) == f"{path.name}{problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", ": has no memory"),
        ("", ":1: not JSON: Expecting value at column 1 (the file seems cut off)"),
        ("[]", ": expected an object, found a list"),
        ('{"2": {}, "2": {}}', ":1: not readable JSON: field '2' occurs twice"),
    ],
)
def test_madial_archive_without_memories_is_refused(sample: Sample, tmp_path: Path, text: str, problem: str) -> None:
    path = sample("madial", tmp_path) / "MADial-Bench-en-memory.json"
    path.write_text(text, "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(tmp_path, "madial")
    assert str(caught.value) == f"{path}{problem}"


def test_madial_memory_of_user_without_dialogues_is_noted(sample: Sample, tmp_path: Path) -> None:
    path = sample("madial", tmp_path) / "MADial-Bench-en-memory.json"
    with path.open("a", encoding="utf-8") as archive:
        archive.write('{"60": {"event": "Cleo slept.", "time": "2023-05-01", "user-id": 3}}\n')
    notes = read_library(tmp_path, "madial").golden.notes
    assert "MADial-Bench-en-dialogue.json: 1 memory dropped because their user has no dialogue" in notes


def test_madial_languages_of_a_clone_are_read_together(sample: Sample, tmp_path: Path) -> None:
    folder = sample("madial", tmp_path / "data" / "en")
    assert read_library(tmp_path, "madial").recordings == read_library(folder, "madial").recordings
    (folder / "MADial-Bench-en-dialogue-setting2.json").write_text("{}", "utf-8")
    assert len(read_library(tmp_path, "madial").files) == 1


@pytest.mark.parametrize("name", ["MADial-Bench-en-memory.json", "MADial-Bench-zh-dialogue-setting2.json"])
def test_madial_file_without_dialogues_is_refused(sample: Sample, tmp_path: Path, name: str) -> None:
    path = sample("madial", tmp_path) / name
    path.touch()
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "madial")
    assert str(caught.value) == f"{path}: is not a dialogue file; give …-dialogue.json or its folder"


def test_madial_missing_memory_file_is_refused(sample: Sample, tmp_path: Path) -> None:
    folder = sample("madial", tmp_path)
    (folder / "MADial-Bench-en-memory.json").rename(folder / "other.json")
    path = folder / "MADial-Bench-en-dialogue.json"
    with pytest.raises(UnusableInput) as caught:
        read_library(folder, "madial")
    told = f"{path}: its memory file is missing; put MADial-Bench-en-memory.json into the same folder"
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"test-turn": []}, "test-turn [] is not a line number of this dialogue of 4 lines"),
        ({"test-turn": [0]}, "test-turn [0] is not a line number of this dialogue of 4 lines"),
        ({"test-turn": [4]}, "test-turn [4] is not a line number of this dialogue of 4 lines"),
        ({"relevant-id": None}, "field 'relevant-id': expected a list, found null"),
        ({"dialogue": ["<BOD>", 1]}, "dialogue: expected a string, found a number"),
    ],
)
def test_madial_wrong_shape_names_file_and_line(
    sample: Sample, tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    path = sample("madial", tmp_path) / "MADial-Bench-en-dialogue.json"
    first, second = path.read_text("utf-8").splitlines()
    path.write_text(first + "\n" + json.dumps(json.loads(second) | change) + "\n", "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "madial")
    assert str(caught.value) == f"{path}:2: {problem}"


def test_madial_probe_precedes_test_turn_of_either_speaker(tmp_path: Path) -> None:
    lines = ["<BOD>", "<Ada>: one", "<Assistant>: two", "<Ada>: three", "<EOD>"]
    line = {"dialogue": lines, "test-turn": [3], "relevant-id": [1], "user-id": 1}
    (tmp_path / "dialogue.json").write_text(json.dumps(line), "utf-8")
    (tmp_path / "memory.json").write_text(json.dumps({"1": {"event": "Ada spoke.", "time": "2024-01-01"}}), "utf-8")
    assert [probe.turn for probe in read_library(tmp_path, "madial").golden.probes] == ["en-user1/d001/1"]


def test_madial_checksums_include_the_archive(sample: Sample, tmp_path: Path) -> None:
    folder = sample("madial", tmp_path)
    library = read_library(folder, "madial")
    before = content(library)
    assert content(replace(library, memories="other")) != before
    archive = folder / "MADial-Bench-en-memory.json"
    archive.write_text(archive.read_text("utf-8") + "\n", "utf-8")
    assert content(read_library(folder, "madial")) != before


def test_madial_public_user_has_76_probes_per_language(shared: Callable[..., Path]) -> None:
    library = read_library(shared("data", "madial"), "madial")
    counts = [
        (
            recording.conversation,
            recording.language,
            len(recording.sessions),
            len(recording.turns),
            len(recording.memories),
        )
        for recording in library.recordings
    ]
    assert counts == [("en-user1", "en", 76, 679, 76), ("zh-user1", "zh", 76, 697, 83)]
    english, chinese = (library.golden.of(recording.conversation) for recording in library.recordings)
    assert (len(english), len(chinese)) == (76, 76)
    # The same dialogues in two languages: 71 of 76 need exactly the same memories.
    wanted = [
        [{gold.memory.split("#")[1] for gold in probe.relevant} for probe in probes] for probes in (english, chinese)
    ]
    assert sum(expected == other for expected, other in zip(*wanted, strict=True)) == 71
    assert sum(len(one.relevant) for one in english) == 204
    assert not any("no memories of this user" in note for note in library.golden.notes)
    assert all(
        "<" not in turn.text[:1] for recording in library.recordings for turn in recording.turns if turn.role == "user"
    )


def test_madial_public_layouts_read_the_same(shared: Callable[..., Path]) -> None:
    published = read_library(shared("data", "madial_published"), "madial")
    joined = read_library(shared("data", "madial"), "madial")
    assert (published.recordings, published.golden) == (joined.recordings, joined.golden)
    known = identified(entry_of("madial"), map(sha256_file, published.names.values()))
    assert [one.part if one else None for one in known] == ["user 1 of 2"] * 4
