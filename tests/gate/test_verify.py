"""``lab gate verify``: tamperings are named by the line that is about them, and honest replays are equal."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lab.base.code import __version__
from lab.base.errors import UnusableInput
from lab.base.files import digest, dump_json, sha256_file
from lab.cli.main import app
from lab.gate.outputs import write_verdict
from lab.gate.policy import read_policy
from lab.gate.receipts import read_audit
from lab.gate.verdict import judge
from lab.gate.verify import verify
from lab.replay.run import run_replay
from lab.runs.directory import open_run
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table, write_table

FIRST, QUOTA, RANDOM = ARMS = ("tier_first_v1", "tier_quota_v1", "random")
POLICY = """name = "mine"
about = "x"

[[guard]]
measure = "nDCG@6"
margin = 0.05

[[limit]]
measure = "RepeatRate"
at_most = 0.2

[[limit]]
measure = "HardRules"
at_least = 0.5

[[latency]]
stage = "total"
quantile = 0.5
at_most_ms = 10000
"""
TEXT_OF_ROWS = "receipts/{}.parquet"


@pytest.fixture(scope="module")
def made(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings, their golden set, a policy, and a judged run of them."""
    home = tmp_path_factory.mktemp("passport") / "home"
    shutil.copytree(operators.parents[1], home)
    (home / "mine.toml").write_text(POLICY, "utf-8")
    asked = ReplayRequest(
        str(home / "datasets" / "operators"), "lab", ARMS, scope="recorded", embedder="hashing", hard_rules=2, limit=3
    )
    run_replay(asked, home / "run")
    _judge(home)
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "home"))


def _judge(home: Path) -> None:
    write_verdict(judge(read_policy(str(home / "mine.toml")), open_run(home / "run")), home / "run")


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(dump_json(value))


def _verdict(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda home: _edit(home / "run" / "verdict.json", change)


def _record(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return _verdict(lambda one: change(one["evidence"]["record"]))


def _manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda home: _edit(home / "run" / "manifest.json", change)


def _seal(home: Path) -> None:
    """Make a manifest consistent with its fields and files again, as a forger would."""

    def consistent(value: dict[str, Any]) -> None:
        value["files"] = {name: sha256_file(home / "run" / name) for name in value["files"]}
        value["run_key"] = digest(value["resolved"])
        del value["sha256"]
        value["sha256"] = digest(value)

    _manifest(consistent)(home)


def _name(home: Path, at: int = 0) -> str:
    return open_run(home / "run").conversations[at]


def _rows(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    """Change the receipts of the first conversation."""

    def edit(home: Path) -> None:
        path = home / "run" / "receipts" / f"{_name(home)}.parquet"
        table = read_table(path)
        write_table(change(table).replace_schema_metadata(table.schema.metadata), path)

    return edit


def _replaced(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(
        at, table.schema.field(at), pa.chunked_array([pa.array(values, table.schema.field(at).type)])
    )


def _without_items(table: pa.Table) -> pa.Table:
    """As if a recall of the quota policy had injected nothing."""
    rows = table.to_pylist()
    at = next(at for at, row in enumerate(rows) if row["arm"] == QUOTA and row["injected"])
    return _replaced(table, "injected", [0 if other == at else row["injected"] for other, row in enumerate(rows)])


def _swapped(table: pa.Table) -> pa.Table:
    names = {FIRST: QUOTA, QUOTA: FIRST}
    return _replaced(table, "arm", [names.get(arm, arm) for arm in table["arm"].to_pylist()])


def _reversed(table: pa.Table) -> pa.Table:
    return table.take(list(reversed(range(table.num_rows))))


def _gold(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    def edit(home: Path) -> None:
        path = home / "run" / "golden.jsonl"
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        change(lines)
        path.write_bytes(b"".join(dump_json(line, indent=None) for line in lines))

    return edit


def _raise_grade(lines: list[dict[str, Any]]) -> None:
    probe = next(line for line in lines if line["relevant"])
    probe["relevant"][0]["grade"] = 3 - probe["relevant"][0]["grade"]


def _drop_conversation(value: dict[str, Any]) -> None:
    name = value["resolved"]["conversations"].pop(0)
    del value["recall_points"][name], value["contents"][name], value["files"][TEXT_OF_ROWS.format(name)]


def _rename_arm(value: dict[str, Any]) -> None:
    value["resolved"]["arms"][2]["name"] = "better"


def _renamed(table: pa.Table) -> pa.Table:
    return _replaced(table, "arm", ["better" if arm == RANDOM else arm for arm in table["arm"].to_pylist()])


def _rename_everywhere(home: Path) -> None:
    for at in range(len(open_run(home / "run").conversations)):
        path = home / "run" / "receipts" / f"{_name(home, at)}.parquet"
        table = read_table(path)
        write_table(_renamed(table).replace_schema_metadata(table.schema.metadata), path)
    _manifest(_rename_arm)(home)


def _configure(value: dict[str, Any]) -> None:
    arm = next(arm for arm in value["resolved"]["arms"] if arm["name"] == QUOTA)
    arm["config"]["autoRecall"]["quotas"]["mustMax"] = 1


def _exchange(home: Path) -> None:
    first, second = (home / "run" / TEXT_OF_ROWS.format(_name(home, at)) for at in (0, 1))
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)


def _truncate(home: Path) -> None:
    path = home / "run" / TEXT_OF_ROWS.format(_name(home))
    path.write_bytes(path.read_bytes()[:-100])


def _edit_recording(home: Path) -> None:
    path = home / "datasets" / "operators" / f"{_name(home)}.jsonl"
    path.write_text(path.read_text("utf-8").replace(" the ", " a ", 40), "utf-8")


def _withdraw_errata(home: Path) -> None:
    """Put back the grades that were corrected before the run was made."""
    path = home / "golden" / "operators" / f"{_name(home)}.jsonl"
    text = path.read_text("utf-8")
    changed = re.sub(r'"grade": ?2', '"grade": 1', text)
    assert changed != text
    path.write_text(changed, "utf-8")


def _change_policy(home: Path) -> None:
    (home / "mine.toml").write_text(POLICY.replace("0.2", "0.9"), "utf-8")
    _verdict(lambda one: one["evidence"].update(policy_file=str(home / "mine.toml")))(home)


def _then(*steps: Callable[[Path], None]) -> Callable[[Path], None]:
    def each(home: Path) -> None:
        for step in steps:
            step(home)

    return each


def _flip(one: dict[str, Any]) -> None:
    one["status"] = "pass" if one["status"] != "pass" else "fail"


def _flip_with_rules(one: dict[str, Any]) -> None:
    other = "pass" if one["status"] != "pass" else "fail"
    one["status"] = other
    for line in one["lines"]:
        line["status"] = other


# What is edited alone; then with a manifest that is consistent with it; then with a new verdict as well.
PLAIN: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "verdict flipped": (_verdict(_flip), r"verdict.json: its status \w+ does not follow from its rules"),
    "verdict flipped with its rules": (_verdict(_flip_with_rules), r"verdict.json: its rule \w+ \S+ .*has status"),
    "value of a rule": (
        _verdict(lambda one: one["lines"][1].update(candidate=0.0)),
        r"verdict.json: its rule limit RepeatRate has candidate 0.0, and its inputs give 0\.\d+",
    ),
    "limit of a rule": (
        _verdict(lambda one: one["lines"][1].update(limit="at most 1")),
        r"rule limit RepeatRate has limit at most 1, and its inputs give at most 0.2",
    ),
    "rule deleted": (_verdict(lambda one: one["lines"].pop(1)), r"verdict.json: it lacks rule limit RepeatRate"),
    "sentence of a rule": (
        _verdict(lambda one: one["lines"][1].update(reason="RepeatRate: fine")),
        r"rule limit RepeatRate has reason RepeatRate: fine",
    ),
    "arms swapped in the verdict": (
        _verdict(lambda one: one.update(candidate=FIRST, baseline=QUOTA)),
        rf"verdict.json: its baseline is {QUOTA}, and its inputs give {FIRST}",
    ),
    "reason for a trial added": (_verdict(lambda one: one.update(trial=[])), r"verdict.json: its trial is"),
    "what it does not show": (
        _verdict(lambda one: one["evidence"]["does_not_show"].pop()),
        r"verdict.json: does_not_show ",
    ),
    "digest of the run": (
        _verdict(lambda one: one["evidence"].update(run="0" * 64)),
        r"run: content 000000000000 -> ",
    ),
    "digest of the policy": (
        _verdict(lambda one: one["evidence"].update(policy="0" * 64)),
        r"verdict.json: policy mine.toml .*has changed since",
    ),
    "digest of a file": (
        _record(lambda one: one["files"].update({"golden.jsonl": "0" * 64})),
        r"run: files.golden.jsonl 000000000000 -> ",
    ),
    "counts": (_record(lambda one: one["counts"].update(judgements=9)), r"run: counts.judgements 9 -> \d{3}"),
    "seed": (_record(lambda one: one.update(seed=7)), r"run: seed 7 -> 0"),
    "version": (_record(lambda one: one["versions"].update(python="3.9")), r"run: versions.python 3.9 -> 3"),
    "policy": (_change_policy, r"verdict.json: its rule limit RepeatRate has status fail, .* pass \(reason, limit"),
    "receipt": (_rows(_without_items), r"receipts/\S+.parquet: sha256 \w+ -> \w+"),
    "receipts cut off": (_truncate, r"receipts/\S+.parquet: sha256 \w+ -> \w+"),
    "conversation dropped": (
        lambda home: (home / "run" / TEXT_OF_ROWS.format(_name(home))).unlink(),
        r"receipts/\S+.parquet: cannot be read: No such file",
    ),
    "receipts of two conversations exchanged": (_exchange, r"receipts/\S+.parquet: sha256 \w+ -> \w+"),
    "grade": (_gold(_raise_grade), r"golden.jsonl: sha256 \w+ -> \w+"),
    "probe twice": (_gold(lambda lines: lines.append(lines[0])), r"golden.jsonl: sha256 \w+ -> \w+"),
    "seed of the manifest": (_manifest(lambda one: one["asked"].update(seed=7)), r"run: seed 0 -> 7"),
    "settings of the manifest": (
        _manifest(lambda one: one["resolved"].update(depth=7)),
        r"manifest.json: run_key \w+ -> \w+",
    ),
    "version of the manifest": (
        _manifest(lambda one: one.update(schema_version=9)),
        r"manifest.json: schema_version 9 -> \d",
    ),
    "recall points": (
        _manifest(lambda one: one["recall_points"].popitem()),
        r"manifest.json: recall_points lacks conversation \S+",
    ),
    "notes of no kind": (_verdict(lambda one: one.update(embedder=None)), r"verdict.json: its inputs cannot be judged"),
    "timings": (
        lambda home: (home / "run" / "latency" / f"{_name(home)}.parquet").write_bytes(b"x"),
        r"latency/\S+.parquet: sha256 \w+ -> \w+",
    ),
}
SEALED: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "receipt, sealed": (_rows(_without_items), r"run: files.receipts/\S+.parquet \w+ -> \w+"),
    "rows in another order, sealed": (_rows(_reversed), r"run: files.receipts/\S+.parquet \w+ -> \w+"),
    "arms swapped in receipts, sealed": (_rows(_swapped), r"run: files.receipts/\S+.parquet \w+ -> \w+"),
    "grade, sealed": (_gold(_raise_grade), r"run: files.golden.jsonl \w+ -> \w+"),
    "conversation dropped, sealed": (_manifest(_drop_conversation), r"run: counts.conversations 3 -> 2"),
    "arm renamed, sealed": (_rename_everywhere, r"run: arms.better none -> \w+"),
    "configuration of an arm, sealed": (_manifest(_configure), rf"run: arms.{QUOTA} \w+ -> \w+"),
    "depth, sealed": (_manifest(lambda one: one["resolved"].update(depth=7)), r"run: settings.depth 50 -> 7"),
}
JUDGED: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "receipt, judged": (
        _then(_rows(_without_items), _seal, _judge),
        rf"replay: 1 of \d+ turns of {QUOTA} differ from the receipts, the first is \S+/\S+ \(.*injected.*\)",
    ),
    "arms swapped in receipts, judged": (
        _then(_rows(_swapped), _seal, _judge),
        rf"replay: \d+ of \d+ turns of {FIRST} differ from the receipts",
    ),
    "rows in another order, judged": (_then(_rows(_reversed), _seal, _judge), r"replay: cannot be compared: .*turns"),
    "grade, judged": (
        _then(_gold(_raise_grade), _seal, _judge),
        r"golden.jsonl: 1 probe judged otherwise than the golden set at hand, the first is \S+",
    ),
    "probe dropped, judged": (
        _then(_gold(lambda lines: lines.pop(0)), _seal, _judge),
        r"golden.jsonl: 1 probe judged otherwise than the golden set at hand, the first is \S+",
    ),
    "configuration of an arm, judged": (
        _then(_manifest(_configure), _seal, _judge),
        rf"replay: \d+ of \d+ turns of {QUOTA} differ from the receipts",
    ),
    "seed, judged": (
        _then(_manifest(lambda one: one["asked"].update(seed=7)), _seal, _judge),
        rf"replay: arms: {RANDOM}: seed 0 -> 7",
    ),
    "conversation dropped, judged": (
        _then(_manifest(_drop_conversation), _seal, _judge),
        r"replay: 1 conversation added: \S+",
    ),
    "recording": (_edit_recording, r"replay: recordings.\S+.jsonl \w+ -> \w+"),
    "errata withdrawn": (_withdraw_errata, r"golden.jsonl: \d+ probes? judged otherwise than the golden set at hand"),
}


def _require_named(texts: Sequence[str], line: str) -> None:
    assert any(re.match(f".*{line}", text) for text in texts), "\n".join(texts)


@pytest.mark.parametrize("name", PLAIN)
def test_edit_is_named_by_the_line_about_it(home: Path, name: str) -> None:
    edit, line = PLAIN[name]
    edit(home)
    _require_named(verify(home / "run" / "verdict.json", replay=False).differences, line)


@pytest.mark.parametrize("name", SEALED)
def test_edit_with_its_manifest_is_named(home: Path, name: str) -> None:
    edit, line = SEALED[name]
    _then(edit, _seal)(home)
    _require_named(verify(home / "run" / "verdict.json", replay=False).differences, line)


@pytest.mark.parametrize("name", JUDGED)
def test_edit_with_its_verdict_is_named_by_the_replay(home: Path, name: str) -> None:
    edit, line = JUDGED[name]
    edit(home)
    file, recordings = home / "run" / "verdict.json", home / "datasets" / "operators"
    assert not verify(file, replay=False).differences
    _require_named(verify(file, recordings=recordings).differences, line)


def test_verdict_as_it_was_made_has_no_difference(home: Path) -> None:
    found = verify(home / "run" / "verdict.json", recordings=home / "datasets" / "operators")
    assert (found.differences, found.environment, found.left_out) == ((), (), ())
    assert found.compared["rules"] == 4
    assert found.compared["turns"] > 150
    moved = Path(shutil.move(home / "run", home.parent / "elsewhere"))
    shutil.copy(home / "mine.toml", moved)
    assert not verify(moved / "verdict.json", replay=False).differences


REPLAY = """
import sys
from pathlib import Path
from lab.gate.outputs import write_verdict
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
home, arms = Path(sys.argv[1]), tuple(sys.argv[2:])
asked = ReplayRequest(
    str(home / "datasets" / "operators"), "lab", arms, scope="recorded", embedder="hashing", hard_rules=2, limit=3
)
run = run_replay(asked, home / "again", jobs=2).run
write_verdict(judge(read_policy(str(home / "mine.toml")), run), home / "again")
"""


@pytest.mark.process
def test_honest_environments_are_equal(made: Path, home: Path) -> None:
    """Other processes, folder, hash seed, time zone and locale."""
    other = {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "tr_TR.UTF-8"}
    words = [sys.executable, "-c", REPLAY, str(home), *ARMS]
    subprocess.run(words, check=True, cwd=home, env={**os.environ, **other}, capture_output=True)
    for file, run in ((made / "run", home / "again"), (home / "again", made / "run")):
        found = verify(file / "verdict.json", run, replay=False)
        assert found.differences == ()
        assert found.environment == ("the run is another replay than was judged: it has other timings",)
        assert found.left_out[0] == "latency rules: the times are of the replay that was judged"
    found = verify(home / "again" / "verdict.json", jobs=2)
    assert (found.differences, found.environment, found.left_out) == ((), (), ())


HOST = """
class Host:
    about = {"name": "host", "version": "1", "probes": "same"}

    def __init__(self, hello):
        self.kept = {}

    def remember(self, memories):
        self.kept.update((memory["key"], memory["text"]) for memory in memories)

    def recall(self, request):
        return [{"id": key, "text": self.kept[key]} for key in list(self.kept)[:2]]
"""


@pytest.mark.process
def test_program_that_a_manifest_names_is_not_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    (home / "host.py").write_text(HOST, "utf-8")
    arms = (FIRST, QUOTA, f"live=exec:{sys.executable} -m lab.systems.external.host host:Host")
    recordings = str(home / "datasets" / "operators")
    run_replay(ReplayRequest(recordings, "lab", arms, embedder="hashing", hard_rules=1, limit=1), home / "hosted")
    write_verdict(judge(read_policy(str(home / "mine.toml")), open_run(home / "hosted")), home / "hosted")
    (home / "host.py").write_text("import pathlib; pathlib.Path('started').touch()", "utf-8")
    found = verify(home / "hosted" / "verdict.json")
    assert (found.differences, found.environment) == ((), ())
    assert found.left_out == ("the replay of live: no program outside the lab is started",)
    assert not (home / "started").exists()


def _lab(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["gate", "verify", *map(str, words)])


def test_command_prints_each_difference_and_exits_with_one(home: Path) -> None:
    file = home / "run" / "verdict.json"
    _edit(file, lambda one: one["evidence"]["record"].update(seed=7))
    done = _lab(file, "--no-replay")
    assert done.exit_code == 1
    assert "1 difference\n  run: seed 7 -> 0\n" in done.output
    assert "left out: the replay, by --no-replay" in done.output
    assert "This does not show: intent: whoever" in done.output
    value = json.loads(_lab(file, "--no-replay", "--json").stdout)
    assert value["differences"] == ["run: seed 7 -> 0"]


def test_recordings_that_are_missing_leave_out_the_replay(home: Path, made: Path) -> None:
    # The run says where its recordings were, and there is nothing.
    _manifest(lambda one: one["asked"].update(path=str(home / "gone")))(home)
    _seal(home)
    done = _lab(home / "run" / "verdict.json")
    assert done.exit_code == 0
    assert f"left out: the replay: {home / 'gone'} is not there; name its recordings with --recordings" in done.output
    assert "no difference" in done.output
    assert made.exists()


def test_recording_that_cannot_be_read_is_named(home: Path) -> None:
    name = _name(home)
    (home / "datasets" / "operators" / f"{name}.jsonl").write_text("no", "utf-8")
    found = verify(home / "run" / "verdict.json", recordings=home / "datasets" / "operators")
    (text,) = found.differences
    assert re.fullmatch(rf"replay: recordings\.{name}\.jsonl \w+ -> \w+", text)
    assert "not JSON" in found.left_out[0]


BAD: Mapping[str, tuple[Callable[[Path], list[str | Path]], str]] = {
    "a folder": (lambda home: [home / "run"], "run: is a folder; name the verdict.json in it"),
    "nothing": (lambda home: [home / "gone.json"], "gone.json: no such file"),
    "another run": (
        lambda home: [home / "run" / "verdict.json", "--run", home / "datasets"],
        "datasets: is not a run directory",
    ),
    "recordings that are not there": (
        lambda home: [home / "run" / "verdict.json", "--recordings", home / "gone"],
        "gone is not there",
    ),
    "recordings and no replay": (
        lambda home: [home / "run" / "verdict.json", "--recordings", home / "datasets", "--no-replay"],
        "leave out one of them",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_in_one_line(home: Path, name: str) -> None:
    words, why = BAD[name]
    done = _lab(*words(home))
    assert isinstance(done.exception, UnusableInput)
    assert why in str(done.exception)
    assert "\n" not in str(done.exception)


TEXTS = {
    "": "not JSON",
    "no": "not JSON",
    "[1]": "not a verdict",
    "{}": "not a verdict",
    '{"schema": "lab.verdict.v2"}': "not a verdict of this version",
    '{"schema": "lab.acceptance.v1", "lines": []}': "not a verdict of this version",
}


@pytest.mark.parametrize("text", TEXTS)
def test_file_that_is_no_verdict_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "verdict.json"
    file.write_text(text, "utf-8")
    with pytest.raises(UnusableInput, match=TEXTS[text]):
        verify(file)


def test_inputs_that_are_gone_are_named(home: Path, tmp_path: Path) -> None:
    file = home / "run" / "verdict.json"
    alone = Path(shutil.copy(file, tmp_path / "verdict.json"))
    _edit(alone, lambda one: one.update(run="gone"))
    with pytest.raises(UnusableInput, match="its run is not in its folder, nor at gone; name it with --run"):
        verify(alone)
    _edit(file, lambda one: one["evidence"].update(policy_file="gone.toml"))
    with pytest.raises(UnusableInput, match=r"its policy gone\.toml is not there; put it back"):
        verify(file)
    _edit(file, lambda one: one["evidence"].update(record=None))
    with pytest.raises(UnusableInput, match="an earlier version wrote it; run `lab gate` again"):
        verify(file)


def test_run_of_a_later_version_is_refused(home: Path) -> None:
    _manifest(lambda one: one.update(schema_version=9))(home)
    _seal(home)
    with pytest.raises(UnusableInput, match="use the version that wrote it"):
        verify(home / "run" / "verdict.json")


def test_verdict_on_an_audit_is_judged_again(audit: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "audit.json"
    place.write_bytes(dump_json(audit))
    read = read_audit(place)
    write_verdict(judge(read_policy("stage-b"), audit=read, audit_file=place), tmp_path)
    found = verify(tmp_path / "verdict.json")
    assert (found.run, found.differences, found.left_out) == (None, (), ())
    _edit(place, lambda one: one.update(first_time=None))
    (text,) = verify(tmp_path / "verdict.json").differences
    assert text == "verdict.json: its inputs cannot be judged again: its audit has changed since"


def test_sentences_of_another_version_are_not_compared(home: Path) -> None:
    file = home / "run" / "verdict.json"

    def older(one: dict[str, Any]) -> None:
        one["lines"][0]["reason"] = one["about"] = "as it was put then"
        one["evidence"]["record"]["versions"]["lab"] = "0.0.1"

    _edit(file, older)
    found = verify(file, replay=False)
    assert found.differences == (f"run: versions.lab 0.0.1 -> {__version__}",)
    assert "whose sentences are not compared" in found.environment[0]
