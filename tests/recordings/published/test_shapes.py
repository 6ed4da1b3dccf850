"""Tests that every public data set is read as its authors publish it.

The hermetic tests read small files of the published shape (``conftest.py``). The others hold those files against the
published ones: set ``LAB_PUBLISHED`` to a folder with clones of the repositories that ``lab recordings list`` names
(``MADial-Bench``, ``RealMemBench``, ``locomo``, ``BEAM``, ``REALTALK``, ``iKAT``, ``aider``, ``hindsight``). Without it
they read the parts in ``../shared/data``, which may hold less than the whole but nothing else, or are skipped.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import sha256_file
from lab.recordings.catalogue import CATALOGUE, as_listed, entry_of, identified
from lab.recordings.convert import take
from lab.recordings.readers import read_library
from lab.recordings.validate import Validation, validate

Sample = Callable[[str, Path], Path]
Shape = dict[str, frozenset[str]]
NAMES = {
    dict: "object",
    list: "list",
    str: "string",
    bool: "bool",
    int: "number",
    float: "fraction",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one shape: their format, and where they are in a clone and in the shared parts."""

    format: str
    clone: str
    shared: str = ""


GROUPS = {
    "aider": Group("aider", "tests/fixtures/chat-history.md", "transcripts/aider-chat-history.md"),
    "beam chats": Group("beam", "chats/[15]00K/*/chat.json", "beam/100K/*/chat.json"),
    "beam truncated chats": Group("beam", "chats/100K/*/chat_trunecated.json"),
    "beam questions": Group(
        "beam", "chats/[15]00K/*/probing_questions/probing_questions.json", "beam/100K/*/probing_questions.json"
    ),
    "hermes zh": Group("hermes", "hindsight-dev/benchmarks/obs/datasets/hermes*-15.txt", "transcripts/hermes-zh.jsonl"),
    "hermes en": Group("hermes", "hindsight-dev/benchmarks/obs/datasets/hermes*_en.txt"),
    "ikat 2023": Group("ikat", "2023/data/2023_*_topics.json", "ikat/2023_*_topics.json"),
    "ikat 2024": Group("ikat", "2024/data/2024_*_topics.json", "ikat/2024_*_topics.json"),
    "ikat 2025": Group("ikat", "2025/data/2025_*_topics.json"),
    "locomo": Group("locomo", "data/locomo10.json", "locomo/locomo5_dev.json"),
    "madial en dialogues": Group("madial", "data/en/*-dialogue.json", "madial_published/*-en-dialogue.json"),
    "madial en memories": Group("madial", "data/en/*-memory.json", "madial_published/*-en-memory.json"),
    "madial zh dialogues": Group("madial", "data/ch/*-dialogue.json", "madial_published/*-zh-dialogue.json"),
    "madial zh memories": Group("madial", "data/ch/*-memory.json", "madial_published/*-zh-memory.json"),
    "realmem": Group("realmem", "dataset/*_dialogues_256k.json", "realmem/*_dialogues_256k.json"),
    "realtalk": Group("realtalk", "data/Chat_*.json", "realtalk/Chat_*.json"),
}
# Keys that are data: the speakers of LoCoMo; an object in place of a text is one memory of RealMem alone.
PER_LINE, FIRST = "a value per line", "first line"
DIGITS = re.compile(r"\d+")
SPEAKERS = ("speaker_a", "speaker_b")
OPAQUE = ".dialogues[].extracted_memory[].content."


def fields_of(values: Iterable[Any], names: Collection[str] = ()) -> Shape:
    """Return the types at every path of some JSON values.

    A path says ``.key`` for a field and ``[]`` for an element; digits of a key are ``#``, a key in ``names`` is ``*``.
    A field that some of its objects lack is of type "absent" as well; the elements of an empty list are of type "none".
    The path of an object and " keys" says whether such objects have one key or some.
    """
    types: dict[str, set[str]] = defaultdict(set)
    objects: dict[str, int] = defaultdict(int)
    having: dict[str, int] = defaultdict(int)

    def walk(path: str, value: Any) -> None:
        types[path].add(NAMES[type(value)])
        if isinstance(value, dict):
            objects[path] += 1
            types[f"{path} keys"].add("one" if len(value) == 1 else "some" if value else "none")
            inner = [
                (f"{path}.*" if key in names else f"{path}.{DIGITS.sub('#', key)}", one) for key, one in value.items()
            ]
            for name in {name for name, _ in inner}:
                having[name] += 1
            for name, one in inner:
                walk(name, one)
        elif isinstance(value, list):
            if not value:
                types[f"{path}[]"].add("none")
            for one in value:
                walk(f"{path}[]", one)

    for value in values:
        walk("", value)
    for path, count in having.items():
        if count < objects[path.rpartition(".")[0]]:
            types[path].add("absent")
    return {path: frozenset(result) for path, result in types.items() if not path.startswith(OPAQUE)}


def layout_of(text: str) -> str:
    """Return how a JSON file is laid out: a value or one per line, its indent, its encoding, its end."""
    lines = text.split("\n")
    try:
        json.loads(text)
        indent = f"one value, indent {len(lines[1]) - len(lines[1].lstrip())}" if len(lines) > 2 else "one line"
    except json.JSONDecodeError:
        indent = PER_LINE
    encoding = "ASCII" if text.isascii() and "\\u" not in text else "escaped" if text.isascii() else "UTF-8"
    odd = [name for name, mark in (("BOM", "\ufeff"), ("CR", "\r"), ("blank line", "\n\n")) if mark in text]
    return ", ".join([indent, encoding, "ends a line" if text.endswith("\n") else "ends at once", *odd])


def markdown_of(text: str) -> Shape:
    """Return the kinds of lines of a chat history, and the first of them."""
    kinds = [
        (r"# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "start"),
        (r"#### .*", "user"),
        (r"> .*", "aider"),
        (r"<<<<<<< SEARCH|=======|>>>>>>> REPLACE", "edit"),
        (r"```.*", "code"),
        (r"", "blank"),
    ]

    def kind(line: str) -> str:
        result = next((name for pattern, name in kinds if re.fullmatch(pattern, line.rstrip("\n"))), "agent")
        return f"{result}{', ends in blanks' if result in ('user', 'aider') and line.endswith('  ') else ''}"

    lines = text.split("\n")
    return {FIRST: frozenset({kind(lines[0])}), "lines": frozenset(map(kind, lines))}


def shape_of(paths: Iterable[Path]) -> tuple[Shape, set[str]]:
    """Return the fields of files of one shape together, and their layouts."""
    texts = {path: path.read_bytes().decode("utf-8") for path in paths}
    if any(path.suffix == ".md" for path in texts):
        (text,) = texts.values()
        return markdown_of(text), set()
    values: list[Any] = []
    for text in texts.values():
        try:
            values.append(json.loads(text))
        except json.JSONDecodeError:
            values += [json.loads(line) for line in text.split("\n") if line]
    talks = [
        one["conversation"] for value in values if isinstance(value, list) for one in value if "conversation" in one
    ]
    return fields_of(values, {talk[key] for talk in talks for key in SPEAKERS}), set(map(layout_of, texts.values()))


def beyond(shape: Shape, other: Shape) -> Shape:
    """Return the parts of a shape that another shape lacks."""
    rest = {path: types - other.get(path, frozenset()) for path, types in shape.items()}
    return {path: types for path, types in rest.items() if types}


def _clone(format_name: str) -> Path | None:
    """Return the clone of a format's repository, or None; a folder without any clone is an error."""
    folder = os.environ.get("LAB_PUBLISHED")
    if not folder:
        return None
    repository = entry_of(format_name).repository.split("/")[1]
    assert Path(folder).is_dir(), f"LAB_PUBLISHED={folder} is no folder"
    place = Path(folder) / repository
    return place if place.is_dir() else pytest.skip(f"no clone {repository} in {folder}")


@pytest.mark.parametrize("name", GROUPS)
def test_sample_has_exactly_the_published_shape(
    clone_sample: Sample, shared: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    group = GROUPS[name]
    sample, layout = shape_of(clone_sample(group.format, tmp_path).glob(group.clone))
    clone = _clone(group.format)
    if not clone and not group.shared:
        pytest.skip(f"no published file of {name} is at hand: LAB_PUBLISHED is not set")
    published = sorted(clone.glob(group.clone) if clone else shared("data").glob(group.shared))
    assert published
    theirs, layouts = shape_of(published)
    if clone:
        assert layout <= layouts
        assert (beyond(theirs, sample), beyond(sample, theirs)) == ({}, {})
    else:
        # A part may be indented otherwise, and begin elsewhere.
        assert {PER_LINE in one for one in layout} == {PER_LINE in layout for layout in layouts}
        assert {path for path in beyond(theirs, sample) if path != FIRST} == set()


def test_shape_difference_in_layout_keys_or_types_is_found() -> None:
    one, other = fields_of([{"1": {"a": 1}}, {"3": {"a": 2}}]), fields_of([{"1": {"a": 1}, "3": {"a": "x", "b": []}}])
    assert beyond(one, other) == {" keys": {"one"}}
    assert beyond(other, one) == {
        " keys": {"some"},
        ".# keys": {"some"},
        ".#.a": {"string"},
        ".#.b": {"list", "absent"},
        ".#.b[]": {"none"},
    }
    assert beyond(fields_of([{"Ada": 1}], {"Ada"}), fields_of([{"Ben": 1}], {"Ben"})) == {}
    assert layout_of('{"1": 2}\n{"3": 4}\n') == "a value per line, ASCII, ends a line"
    assert layout_of('{\n  "1": "é"\n}') == "one value, indent 2, UTF-8, ends at once"
    assert layout_of('\ufeff["\\u00e9"]\r\n') == "a value per line, UTF-8, ends a line, BOM, CR"
    assert beyond(markdown_of("#### a"), markdown_of("#### a  ")) == {FIRST: {"user"}, "lines": {"user"}}


# Counted by hand in the samples: conversations, sessions, turns, memories, probes.
IN_SAMPLE = {
    "aider": (1, 1, 3, 1, 0),
    "beam": (2, 4, 12, 12, 36),
    "hermes": (2, 4, 12, 6, 0),
    "ikat": (3, 3, 12, 6, 6),
    "locomo": (1, 2, 3, 3, 3),
    "madial": (4, 4, 12, 6, 4),
    "realmem": (1, 3, 6, 2, 1),
    "realtalk": (1, 2, 3, 3, 1),
}
# The folder of a set in a clone, and the same counts of the whole; of BEAM the chats of 100K.
WHOLE = {
    "aider": ("tests/fixtures", (1, 668, 2564, 859, 0)),
    "beam": ("chats/100K", (20, 90, 5732, 5732, 394)),
    "hermes": ("hindsight-dev/benchmarks/obs/datasets", (2, 18, 162, 80, 0)),
    "ikat": ("", (70, 70, 1666, 988, 833)),
    "locomo": ("data", (10, 272, 5882, 5882, 1979)),
    "madial": ("data", (4, 320, 2913, 331, 320)),
    "realmem": ("dataset", (10, 2055, 14028, 5072, 1415)),
    "realtalk": ("data", (10, 219, 8944, 8944, 705)),
}


def _counts(result: Validation) -> tuple[int, ...]:
    each = [
        (conversation.sessions, conversation.turns, conversation.memories, conversation.probes)
        for conversation in result.conversations
    ]
    return (len(each), *map(sum, zip(*each, strict=True)))


def test_every_set_of_the_catalogue_has_a_sample() -> None:
    assert set(IN_SAMPLE) == set(WHOLE) == {one.format for one in GROUPS.values()}
    assert set(IN_SAMPLE) == {one.format for one in CATALOGUE} - {"lab"}


@pytest.mark.parametrize("name", IN_SAMPLE)
def test_sample_of_each_set_is_read_and_imported(clone_sample: Sample, tmp_path: Path, name: str) -> None:
    source = clone_sample(name, tmp_path / "clone") / ("chats" if name == "beam" else WHOLE[name][0])
    result = validate(source, name)
    assert result.errors == ()
    assert _counts(result) == IN_SAMPLE[name]
    taken = take(source, name, tmp_path / "out")
    assert (taken.conversations, taken.probes) == (IN_SAMPLE[name][0], IN_SAMPLE[name][-1])
    assert read_library(tmp_path / "out", name).recordings == read_library(source, name).recordings


@pytest.mark.parametrize("name", ["aider", "hermes", "locomo", "realmem", "realtalk"])
def test_read_clone_of_a_set_names_its_data_folder(clone_sample: Sample, tmp_path: Path, name: str) -> None:
    clone_sample(name, tmp_path)
    with pytest.raises(UnusableInput) as caught:
        read_library(tmp_path, name)
    assert str(caught.value).endswith(f"as format {name!r} needs; they are in {tmp_path / entry_of(name).path}")


def test_beam_truncated_chat_is_read_when_named(clone_sample: Sample, tmp_path: Path) -> None:
    place = clone_sample("beam", tmp_path) / "chats" / "100K" / "7"
    (whole,) = read_library(place, "beam").recordings
    library = read_library(place / "chat_trunecated.json", "beam")
    assert [recording.turns for recording in library.recordings] == [whole.turns[:4]]
    assert "100K-7/knowledge_update-1: sources [4] are not messages of this chat" in library.golden.notes


@pytest.mark.parametrize("name", WHOLE)
def test_published_set_is_complete_and_known(name: str) -> None:
    clone = _clone(name)
    if not clone:
        pytest.skip("LAB_PUBLISHED is not set")
    folder, counts = WHOLE[name]
    library = read_library(clone / folder, name)
    known = identified(entry_of(name), map(sha256_file, library.names.values()))
    assert [(one.name, one.part) if one else None for one in known] == [(as_listed(name), "") for name in library.names]
    result = validate(clone / folder, name)
    assert result.errors == ()
    assert _counts(result) == counts
    assert not [warning for warning in result.warnings if "differs from the published file" in warning]


def test_ikat_published_set_has_520_of_833_turns_without_need() -> None:
    clone = _clone("ikat")
    if not clone:
        pytest.skip("LAB_PUBLISHED is not set")
    assert sum(not probe.relevant for probe in read_library(clone, "ikat").golden.probes) == 520
