"""Changes to the files of a run that would make a bad candidate pass are refused by every command.

After a ``covered`` change the digests are computed again, as a tool might do, so that the refusal comes from the
contents. Consistent files, counts and digests cannot be distinguished from a replay; docs/replay.md says so.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.errors import LabError
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.measures.judged import judged_shares
from lab.measures.score import score_and_write, score_run
from lab.measures.trec import export_run
from lab.nightly.baselines import approve
from lab.notebook import open_run as open_notebook
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import read_gold
from lab.runs.tables import read_table, write_table

CANDIDATE = "tier_quota_v1"
AGAIN = r"(delete it and run the same replay again|run the same replay again to finish it|into another --out)"


def _rewrite(path: Path, rows: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Replace the rows of a Parquet file, keeping its schema and metadata."""
    table = read_table(path)
    write_table(pa.Table.from_pylist(rows(table.to_pylist()), table.schema), path)


def _losing(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every other row of the candidate's probes, roughly those without relevant items."""
    return [row for row in rows if row["arm"] == CANDIDATE and row["probe"]][::2]


def _first(run: RunDirectory) -> Path:
    return run.receipts(run.conversations[0])


def _delete_losing_rows(run: RunDirectory) -> None:
    _rewrite(_first(run), lambda rows: [row for row in rows if row not in _losing(rows)])


def _delete_losing_turns(run: RunDirectory) -> None:
    def kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        turns = {row["turn"] for row in _losing(rows)}
        return [row for row in rows if row["turn"] not in turns]

    _rewrite(_first(run), kept)


def _double_a_winning_row(run: RunDirectory) -> None:
    _rewrite(_first(run), lambda rows: [*rows, next(row for row in rows if row["arm"] == CANDIDATE)])


def _replace_losing_rows_by_winning_ones(run: RunDirectory) -> None:
    def turned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        losing, winning = _losing(rows), next(row for row in rows if row["arm"] == CANDIDATE)
        return [winning if row in losing else row for row in rows]

    _rewrite(_first(run), turned)


def _swap_arms(run: RunDirectory) -> None:
    names = {CANDIDATE: "tier_first_v1", "tier_first_v1": CANDIDATE}
    for conversation in run.conversations:
        _rewrite(
            run.receipts(conversation),
            lambda rows: [row | {"arm": names.get(row["arm"], row["arm"])} for row in rows],
        )


def _hide_probes(run: RunDirectory) -> None:
    def hidden(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        turns = {row["turn"] for row in _losing(rows)}
        return [row | {"probe": None} if row["turn"] in turns else row for row in rows]

    _rewrite(_first(run), hidden)


def _rename_an_arm(run: RunDirectory) -> None:
    _rewrite(_first(run), lambda rows: [row | {"arm": row["arm"].replace("random", CANDIDATE)} for row in rows])


def _no_rows(run: RunDirectory) -> None:
    _rewrite(_first(run), lambda rows: [])


def _empty(run: RunDirectory) -> None:
    _first(run).write_bytes(b"")


def _of_another_conversation(run: RunDirectory) -> None:
    shutil.copyfile(run.receipts(run.conversations[1]), _first(run))


def _gold_that_random_finds(run: RunDirectory) -> None:
    path, result = run.path / "golden.jsonl", {}
    for conversation in run.conversations:
        for row in read_table(run.receipts(conversation)).to_pylist():
            if row["arm"] == "random" and row["probe"]:
                result[row["probe"]] = row["item_key"][:1]
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for line in lines:
        line["relevant"] = [
            {"memory": key, "grade": 1, "label": "nice_to_have", "visible": True} for key in result[line["probe"]]
        ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _gold_without_lost_probes(run: RunDirectory) -> None:
    path = run.path / "golden.jsonl"
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[::2]), "utf-8")


def _no_gold(run: RunDirectory) -> None:
    (run.path / "golden.jsonl").write_bytes(b"")


def _delete_a_conversation(run: RunDirectory) -> None:
    _first(run).unlink()


def _manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[RunDirectory], None]:
    def edit(run: RunDirectory) -> None:
        path = run.path / "manifest.json"
        manifest = json.loads(path.read_bytes())
        change(manifest)
        path.write_text(json.dumps(manifest, indent=2), "utf-8")

    return edit


Attempt = Callable[[RunDirectory], None]
PLAIN: dict[str, Attempt] = {
    "losing rows of one arm deleted": _delete_losing_rows,
    "losing turns of every arm deleted": _delete_losing_turns,
    "a winning row twice": _double_a_winning_row,
    "winning rows in place of losing ones": _replace_losing_rows_by_winning_ones,
    "the arms exchanged": _swap_arms,
    "probes hidden in the receipts": _hide_probes,
    "another arm under the name of the candidate": _rename_an_arm,
    "a file of no rows": _no_rows,
    "an empty file": _empty,
    "receipts of another conversation": _of_another_conversation,
    "gold that a random arm finds": _gold_that_random_finds,
    "gold without half of its probes": _gold_without_lost_probes,
    "no gold": _no_gold,
    "a conversation deleted": _delete_a_conversation,
    "a lower cutoff": _manifest(lambda one: one["resolved"]["arms"][1].update(cutoff=2)),
    "a conversation less": _manifest(lambda one: one["resolved"]["conversations"].pop(0)),
    "another scope": _manifest(lambda one: one["resolved"].update(scope="none")),
    "another embedder": _manifest(lambda one: one["resolved"]["embedder"].update(kind="sentence-transformers")),
    "no limit": _manifest(lambda one: one["asked"].update(limit=None)),
    "fewer recall points": _manifest(lambda one: one["recall_points"].update(dict.fromkeys(one["recall_points"], 1))),
    "other code": _manifest(lambda one: one["environment"].update(code="0" * 64)),
    "no digest": _manifest(lambda one: one["files"].popitem()),
}
# Refused for their contents, whatever the digests say.
COVERED = (
    *("losing rows of one arm deleted", "losing turns of every arm deleted", "a winning row twice"),
    *("winning rows in place of losing ones", "probes hidden in the receipts"),
    *("another arm under the name of the candidate", "a file of no rows", "an empty file"),
    *("receipts of another conversation", "a conversation deleted"),
)


def _report(run: RunDirectory) -> object:
    from lab.report.build import build_report

    return build_report(run)


def _compare(run: RunDirectory) -> object:
    from lab.compare.paired import compare_arms

    return compare_arms(run, "tier_first_v1", CANDIDATE)


def _pooled(run: RunDirectory) -> object:
    gold = read_gold(run)
    return judged_shares(run, {probe: one.judged for probe, one in gold.items()}, gold, 6)


FACES: dict[str, Callable[[RunDirectory], object]] = {
    "score": score_and_write,
    "compare": _compare,
    "gate": lambda run: judge(read_policy("rollout"), run),
    "report": _report,
    "baseline": lambda run: approve(run.path / "baselines", run, "x", date="2026-01-01"),
    "export": lambda run: export_run(run, "trec", run.path / "exported"),
    "golden": _pooled,
    "notebook": lambda run: open_notebook(run.path).scores,
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("attempt", PLAIN)
def test_altered_run_is_refused_by_every_command(run: RunDirectory, attempt: str, face: str) -> None:
    PLAIN[attempt](run)
    with pytest.raises(LabError, match=AGAIN) as refused:
        FACES[face](open_run(run.path))
    assert refused.value.exit_code == 4
    assert str(run.path) in str(refused.value)


@pytest.mark.parametrize("face", ["score", "compare", "gate", "report", "notebook"])
@pytest.mark.parametrize("attempt", COVERED)
def test_incomplete_rows_with_matching_digests_are_refused(
    run: RunDirectory, resealed: Callable[[Path], RunDirectory], attempt: str, face: str
) -> None:
    PLAIN[attempt](run)
    with pytest.raises(LabError) as refused:
        FACES[face](resealed(run.path))
    assert refused.value.exit_code == 4


@pytest.mark.parametrize("attempt", ["a conversation deleted", "losing rows of one arm deleted", "no gold"])
def test_stored_scores_do_not_hide_altered_files(run: RunDirectory, attempt: str) -> None:
    score_and_write(run)
    assert (run.path / "scores.parquet").is_file()
    PLAIN[attempt](run)
    with pytest.raises(LabError, match=AGAIN) as refused:
        score_run(open_run(run.path))
    assert refused.value.exit_code == 4


def test_flipped_bits_change_no_score(run: RunDirectory, sound: RunDirectory) -> None:
    """60 bits, spread over all files that measures read."""
    expected = list(score_run(sound))
    files = [run.path / "golden.jsonl", run.path / "manifest.json", *map(run.receipts, run.conversations)]
    silent, codes = [], set()
    for number in range(60):
        path = files[number % len(files)]
        data = path.read_bytes()
        at = number * 7919 % len(data)
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :])
        try:
            score_run(open_run(run.path))
            silent.append((path.name, at))
        except LabError as error:
            codes.add(error.exit_code)
        path.write_bytes(data)
    assert silent == []
    # A manifest that is not JSON is unusable (2); all else could not be measured (4).
    assert codes <= {2, 4}
    assert list(score_run(open_run(run.path))) == expected


@pytest.mark.parametrize("kind", ["latency", "receipts"])
def test_latency_rule_missing_conversations_are_refused(run: RunDirectory, kind: str) -> None:
    from lab.measures.latency import warm_times

    path = run.path / kind / run.latency(run.conversations[0]).name
    path.unlink()
    if kind == "latency":
        with pytest.raises(LabError, match=AGAIN):
            warm_times(open_run(run.path))
    else:
        with pytest.raises(LabError, match=AGAIN):
            judge(read_policy("rollout"), open_run(run.path))


def test_altered_timings_are_refused(run: RunDirectory) -> None:
    from lab.measures.latency import warm_times

    _rewrite(run.latency(run.conversations[0]), lambda rows: [row | {"ns": 1} for row in rows])
    with pytest.raises(LabError, match="damaged or altered"):
        warm_times(open_run(run.path))
