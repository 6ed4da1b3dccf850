"""Tests of conversion: the converted set has the same turns, memories and probes, and gives the same receipts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import unquote

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import file_name, file_names
from lab.golden.files import golden_bytes, read_golden
from lab.golden.model import Judgement, Probe
from lab.recordings.catalogue import CATALOGUE
from lab.recordings.convert import CARD, convert, recording_lines
from lab.recordings.formats import FORMATS
from lab.recordings.model import Memory, Recording, Turn
from lab.recordings.native import line_schema
from lab.recordings.native import read as read_native
from lab.recordings.readers import Library, read_library, with_golden
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest

Sample = Callable[[str, Path], Path]


def _again(out: Path, name: str) -> Library:
    library = read_library(out / "datasets" / name, "lab")
    golden = out / "golden" / name
    return with_golden(library, read_golden(golden)) if golden.is_dir() else library


def _same(library: Library, again: Library) -> None:
    assert again.recordings == library.recordings
    for recording in library.recordings:
        assert again.golden.of(recording.conversation) == library.golden.of(recording.conversation)
    assert len(again.golden.probes) == len(library.golden.probes)


@pytest.fixture(scope="module")
def valid() -> Callable[[Path], int]:
    """Return a function that validates every line below a folder against the schema and returns their number."""
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(line_schema())
    validator = Draft202012Validator(line_schema())

    def check(folder: Path) -> int:
        lines = [
            json.loads(line)
            for path in sorted(folder.rglob("*.jsonl"))
            for line in path.read_text("utf-8").split("\n")
            if line
        ]
        for line in lines:
            assert validator.is_valid(line), line
        return len(lines)

    return check


def test_samples_cover_every_set_of_the_catalogue(sampled_formats: list[str]) -> None:
    assert {one.format for one in CATALOGUE} - {"lab"} <= set(sampled_formats) <= set(FORMATS) - {"lab"}
    assert "openclaw" in sampled_formats


def test_convert_any_sampled_format_reads_back_and_replays_equal(
    sample: Sample, tmp_path: Path, sampled_format: str, valid: Callable[[Path], int]
) -> None:
    name = sampled_format
    source = sample(name, tmp_path / "in")
    for memories in FORMATS[name].memories:
        out = tmp_path / memories
        done = convert(source, name, out, memories=memories)
        library = read_library(source, name, memories=memories)
        _same(library, _again(out, name))
        assert (done.turns, done.memories) == (
            sum(len(recording.turns) for recording in library.recordings),
            sum(len(recording.memories) for recording in library.recordings),
        )
        assert valid(out) >= done.turns + done.memories + done.probes
    asked = ReplayRequest(str(source), name, ("bm25", "seed_full"), memories=memories, embedder="hashing")
    own = replace(asked, path=done.datasets, format="lab", memories=None, recall_turns=done.recall_turns)
    first, second = run_replay(asked, tmp_path / "first"), run_replay(own, tmp_path / "second")
    assert (first.failures, second.failures) == ((), ())
    assert len(first.done) == len(library.recordings)
    for conversation in first.done:
        rows = [_rows(outcome.run.path, conversation) for outcome in (first, second)]
        assert rows[0] == rows[1]
        assert rows[0]


def _rows(folder: Path, conversation: str) -> list[dict[str, Any]]:
    import pyarrow.parquet

    (path,) = [path for path in (folder / "receipts").glob("*.parquet") if conversation in path.name]
    return pyarrow.parquet.read_table(path).to_pylist()


@pytest.mark.parametrize(
    ("name", "place", "memories"),
    [
        ("realtalk", ("realtalk",), None),
        ("beam", ("beam", "100K", "1"), None),
        ("ikat", ("ikat",), None),
        ("madial", ("madial",), None),
        ("hermes", ("transcripts",), None),
        ("aider", ("transcripts",), None),
        ("locomo", ("locomo",), "observations"),
        ("realmem", ("realmem", "Kenta_Tanaka_dialogues_256k.json"), None),
    ],
)
def test_convert_public_sets_read_back_equal(
    shared: Callable[..., Path],
    tmp_path: Path,
    name: str,
    place: tuple[str, ...],
    memories: str | None,
) -> None:
    source = shared("data", *place)
    convert(source, name, tmp_path / "out", memories=memories)
    _same(read_library(source, name, memories=memories), _again(tmp_path / "out", name))


def test_card_names_the_licence_of_the_source_alone(sample: Sample, tmp_path: Path) -> None:
    convert(sample("locomo", tmp_path / "in"), "locomo", tmp_path / "out")
    (known,) = (entry for entry in CATALOGUE if entry.format == "locomo")
    card = (tmp_path / "out" / "datasets" / "locomo" / CARD).read_text("utf-8")
    assert f"* **Origin**: {known.title}: {known.repository}\n" in card
    assert f"* **Licence**: {known.licence}\n" in card


def test_convert_shipped_set_is_valid_and_reads_back_equal(
    operators: Path, tmp_path: Path, valid: Callable[[Path], int]
) -> None:
    assert valid(operators) > 1000
    assert valid(operators.parents[1] / "golden" / operators.name) > 100
    library = read_library(operators, "lab")
    convert(operators, "lab", tmp_path / "out", name="again")
    _same(library, _again(tmp_path / "out", "again"))
    # A golden set in the lab format is kept as well.
    golden = read_golden(operators.parents[1] / "golden" / operators.name)
    path = tmp_path / "golden.jsonl"
    path.write_bytes(golden_bytes(golden.probes))
    assert read_golden(path) == golden


def test_schema_has_every_field_that_is_read() -> None:
    from lab.golden.files import FIELDS as PROBE
    from lab.recordings.native import FIELDS

    schema = line_schema()
    for kind, fields in (FIELDS | {"probe": PROBE}).items():
        described = schema["$defs"][kind]["properties"]
        assert set(described) == fields
        assert all(described.values())


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ({"kind": "note"}, "kind", "'note' is not one of ['recording', 'session', 'turn', 'memory', 'probe']"),
        ({"text": "x"}, "", "'kind' is a required property"),
        (
            {"kind": "recording", "schema": "lab.recording.v2", "conversation": "c"},
            "schema",
            "'lab.recording.v1' was expected",
        ),
        ({"kind": "recording", "schema": "lab.recording.v1", "conversation": "a/b"}, "conversation", "does not match"),
        ({"kind": "session", "session": "s", "time": "2026-03-02T09:10:00"}, "time", "does not match"),
        ({"kind": "session", "session": "s", "time": "2026-03-02T09:10:00Z", "scop": "x"}, "", "'scop' was unexpected"),
        ({"kind": "turn", "turn": "t", "role": "User", "text": "x"}, "role", "'User' is not one of"),
        ({"kind": "turn", "turn": "t#1", "role": "user", "text": "x"}, "turn", "does not match"),
        ({"kind": "memory", "text": None}, "text", "None is not of type 'string'"),
        ({"kind": "memory", "text": "x", "category": "rule"}, "category", "'rule' is not one of"),
        ({"kind": "probe"}, "", "'id' is a required property"),
        ({"kind": "probe", "turn": 5}, "turn", "5 is not of type 'string', 'null'"),
        (
            {"kind": "probe", "turn": "c/s/t", "id": "q", "conversation": "c", "query": "x"},
            "query",
            "'x' is not of type 'null'",
        ),
        ({"kind": "probe", "id": "q", "query": "x"}, "", "'conversation' is a required property"),
        (
            {"kind": "probe", "turn": "c/s/t", "relevant": [{"memory": "c/s/t#0", "grade": 0}]},
            "relevant.0.grade",
            "0 is less than the minimum of 1",
        ),
        (
            {"kind": "probe", "turn": "c/s/t", "relevant": [{"memory": "c/s/t#0", "grade": 101}]},
            "relevant.0.grade",
            "101 is greater than the maximum of 100",
        ),
        (
            {"kind": "probe", "turn": "c/s/t", "irrelevant": [{"memory": "k"}]},
            "irrelevant.0",
            "is not of type 'string'",
        ),
        ({"kind": "probe", "turn": "c/s/t", "irrelevant": ["k", "k"]}, "irrelevant", "has non-unique elements"),
    ],
)
def test_schema_refuses_what_the_reader_refuses(line: dict[str, Any], field: str, said: str) -> None:
    from jsonschema import Draft202012Validator

    found = list(Draft202012Validator(line_schema()).iter_errors(line))
    assert (".".join(map(str, found[0].absolute_path)), said in found[0].message) == (field, True), found[0].message
    # One error for the wrong field, and none for other kinds of lines; a probe without any field lacks three.
    assert len(found) == (3 if line == {"kind": "probe"} else 1)


def _recording(*turns: Turn, memories: tuple[Memory, ...] = ()) -> Recording:
    return Recording("c", turns, memories)


@pytest.mark.parametrize(
    ("recording", "problem"),
    [
        (
            _recording(
                Turn("c/s/1", 0, "s", "user", "x", 0),
                Turn("c/t/1", 1, "t", "user", "x", 1),
                Turn("c/s/2", 2, "s", "user", "x", 2),
            ),
            "c: session 's' resumes after another session began",
        ),
        (_recording(Turn("d/s/1", 0, "s", "user", "x", 0)), "c: the key of turn d/s/1 does not begin with c/s/"),
        (
            _recording(memories=(Memory("c/a#0", "x", "x", 2, 0), Memory("c/a#1", "x", "x", 1, 1))),
            "c: memory c/a#1 can be recalled before c/a#0, which is older",
        ),
    ],
)
def test_recording_lines_unrepresentable_recording_is_refused(recording: Recording, problem: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        recording_lines(recording)
    assert str(caught.value) == problem


def test_convert_keeps_every_field_of_a_recording(tmp_path: Path) -> None:
    recording = Recording(
        "c",
        (
            Turn("c/s#2/1", 0, "s#2", "user", "a\u2028b", 1000, "shop", "Ada"),
            Turn("c/s#2/2", 1, "s#2", "tool", "half a character: \ud83d", 5007, "other", "tool"),
        ),
        (
            Memory("c/before#7", "x", "y", 0, 12, "todo", "shop", "ignore", (), "untrusted", True),
            Memory("c/s#2/1#0", "x", "x", 1, 1000),
            Memory("c/s#2/1#2", "x", "x", 1, 3000, scope="shop", supersedes=("c/before#7",)),
        ),
        "zh-Hant",
        ("a note",),
    )
    path = tmp_path / "c.jsonl"
    path.write_bytes(recording_lines(recording))
    ((again, golden),) = read_native(path, "recorded")
    assert again == recording
    assert golden.notes == ("a note",)


def test_convert_keeps_slices_and_refuses_foreign_probe_ids(tmp_path: Path) -> None:
    judged = (Judgement("c/s/1#0", 2, "why"),)
    probes = (
        Probe("c/s/1", "c", "c/s/1", None, judged, (Judgement("c/s/1#1"),), {"type": "a", "language": "zh"}, "because"),
        Probe("q1", "c", None, "Which?", (), slices={"type": "a"}, irrelevant=("c/s/1#2", "haystack:d/s#0")),
    )
    path = tmp_path / "golden.jsonl"
    path.write_bytes(golden_bytes(probes))
    assert read_golden(path).probes == probes
    with pytest.raises(UnusableInput, match="probe p: its id must equal its turn, c/s/1"):
        golden_bytes([replace(probes[0], id="p")])


def test_convert_again_changes_nothing_and_never_overwrites(sample: Sample, tmp_path: Path) -> None:
    source, out = sample("hermes", tmp_path / "in"), tmp_path / "out"
    assert convert(source, "hermes", out).already_there is False
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert convert(source, "hermes", out).already_there is True
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    (out / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(UnusableInput, match="already holds other files; choose a new folder"):
        convert(source, "hermes", out)
    assert (out / "mine.txt").is_file()
    with pytest.raises(UnusableInput, match="use only letters"):
        convert(source, "hermes", tmp_path / "other", name="../up")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_convert_colliding_file_names_are_numbered(tmp_path: Path) -> None:
    for at, name in enumerate(("ADA", "Ada", "a:da")):
        turn = Turn(f"{name}/s/1", 0, "s", "user", "x", 1000)
        (tmp_path / f"{at}.jsonl").write_bytes(recording_lines(Recording(name, (turn,), ())))
    convert(tmp_path, "lab", tmp_path / "out")
    names = {path.name for path in (tmp_path / "out" / "datasets" / "lab").glob("*.jsonl")}
    assert names == {"ADA.jsonl", "Ada-2.jsonl", "a%3Ada.jsonl"}


def test_convert_invalid_name_reports_the_source_file(sample: Sample, tmp_path: Path) -> None:
    history = tmp_path / "a#b.md"
    history.write_bytes((sample("aider", tmp_path / "in") / "history.md").read_bytes())
    with pytest.raises(UnusableInput) as caught:
        convert(history, "aider", tmp_path / "out")
    assert str(caught.value).startswith(
        f"{history}: datasets/aider/a%23b.jsonl:1: conversation 'a#b' is blank or contains"
    )
    assert not (tmp_path / "out").exists()


ODD = [
    "a" * 300,
    "a" * 300 + "b",
    "深" * 300,
    "agent:main:telegram:group:-100:topic:7",
    "../../etc",
    ".hidden.",
    "CON",
    "con",
    "Lpt1",
    "a b ",
    "a\\b",
    "A%42",
    "a\ud83d",
    "é",
    "e\u0301",
]


def test_convert_odd_ids_get_portable_names_and_come_back(tmp_path: Path) -> None:
    recordings = [
        Recording(name, (Turn(f"{name}/s/1", 0, "s", "user", "x", 1000),), ())
        for name in ODD
        if not set(name) & {"/", "\ud83d"}
    ]
    for at, recording in enumerate(recordings):
        (tmp_path / f"{at}.jsonl").write_bytes(recording_lines(recording))
    out = tmp_path / "out"
    convert(tmp_path, "lab", out)
    again = read_library(out / "datasets" / "lab", "lab").recordings
    assert {recording.conversation: recording for recording in again} == {
        recording.conversation: recording for recording in recordings
    }


def test_file_names_are_unique_and_portable() -> None:
    names = file_names(ODD)
    assert list(names) == ODD
    assert len({name.casefold() for name in names.values()}) == len(ODD)
    for name in names.values():
        assert len(name.encode()) <= 200
        assert not set(name) & set('/\\\x00\n:*?"<>|.')
        assert name == name.strip()
        assert not PureWindowsPath(f"{name}.jsonl").is_reserved()


@pytest.mark.parametrize("name", ["CON", "nul", "Com1", "aux", "LPT9", "com²"])
def test_file_name_of_a_device_is_escaped_and_restored(name: str) -> None:
    assert file_name(name) != name
    assert unquote(file_name(name)) == name
    assert file_name(f"{name}x") == f"{name}x"
