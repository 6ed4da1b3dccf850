"""Make the recalls of a live engine again under another configuration, before anything is switched (CN-21).

First the lab proves itself: under the present configuration it must build the blocks that were really injected, as the
receipts in the log describe them, in :data:`LEAST` of the recalls. A fault that a receipt names, such as a silent
provider, counts as the cause of a difference only if the same fault in the lab makes the blocks equal. Below that,
nothing is said about the candidate, which is replayed over the same sessions and store. Nothing is injected, and
nothing is written below the home.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import CannotMeasure, LabError, NotComparable, UnusableInput
from lab.base.files import dump_json, remove_folder, remove_leftover_folders, sha256_file, write_atomically
from lab.base.formatting import Announce, counted, silent
from lab.canary.agree.cost import Prices, PromptCost, prompt_cost
from lab.canary.agree.history import created_in, deleted_rows, has_grown, seen_late, write_store
from lab.canary.agree.logged import (
    FAULT_OF,
    Logged,
    Placed,
    difference,
    leave_own,
    placed,
    read_log,
    since_last_change,
    untangled,
)
from lab.canary.rollout.follow import log_files
from lab.compare.paired import Difference, compare_arms
from lab.compare.statistics import Estimate, clustered
from lab.golden.files import write_new
from lab.host.home import Home
from lab.host.snapshot import Snapshot, engine_section, open_snapshot, snapshots, take
from lab.measures.score import score_and_write
from lab.recordings.model import MUST
from lab.recordings.origins import ALL
from lab.recordings.readers import read_library
from lab.replay.pool import pool_of
from lab.replay.run import run_replay
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.runs.directory import MANIFEST, RunDirectory, open_run
from lab.runs.request import ReplayRequest
from lab.systems.openclaw.config.file import embedder_of, read_value
from lab.systems.openclaw.table.schema import TABLE

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "lab.shadow.v1"
PRESENT, CANDIDATE = "present", "candidate"
# The smallest share of recalls whose present block must equal the injected one, before anything is said of a candidate.
LEAST = 0.97
# The most telling turns that are pooled to be judged, and the depth to which they are.
TELLING, DEPTH = 20, 6
# What is compared, apart from what is counted here.
MEASURES = ("RepeatRate", "MustRepeat", "WrongScope", "InjectedItems", "InjectedTokens")
# And of turns that were judged.
JUDGED = ("Success", "CleanHit", "Forbidden")
SNAPSHOTS, STORES, RUNS, POOL, RECEIPT = "snapshots", "stores", "runs", "pool", "shadow.json"
# The judgements of turns that were pooled, once a judge has written them.
GOLD = "gold.jsonl"


class Turn(NamedTuple):
    """A recall whose block would change: its turn, and the ids of the memories that come in and go out."""

    key: str
    conversation: str
    comes: tuple[str, ...]
    goes: tuple[str, ...]

    @property
    def moved(self) -> int:
        """How many memories come in or go out."""
        return len(self.comes) + len(self.goes)


@dataclass(frozen=True, slots=True)
class Proof:
    """How many of ``recalls`` have a block equal to the injected one, and the kinds of difference of the others.

    ``restored`` are those that are equal under the fault that their receipt names, by fault; ``late`` those that are if
    memories are seen as late as an old handle of the table sees them. ``without`` had no user's turn, ``exchanged``
    were made in another order than their messages were stored.
    """

    recalls: int
    equal: int
    restored: Mapping[str, int]
    differing: Mapping[str, int]
    without: int
    exchanged: int
    late: int = 0

    @property
    def share(self) -> float:
        """The share of equal blocks."""
        return self.equal / self.recalls

    @property
    def holds(self) -> bool:
        """Whether the share is at least :data:`LEAST`."""
        return self.share >= LEAST


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a shadow found. ``name`` is that of its runs. The last fields are None unless the proof holds.

    ``changed`` is the share of recalls whose block would change; ``must`` the difference of the share of must memories
    among those injected; ``comes`` and ``goes`` are the mean numbers of memories that come in and go out at a recall,
    each with its interval by session.
    """

    snapshot: Snapshot
    name: str
    notes: tuple[str, ...]
    proof: Proof
    run: RunDirectory | None = None
    turns: tuple[Turn, ...] = ()
    changed: Estimate | None = None
    comes: Estimate | None = None
    goes: Estimate | None = None
    must: Estimate | None = None
    differences: tuple[Difference, ...] = ()
    pool: Path | None = None
    prompt: PromptCost | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values, without texts of memories."""
        proof = {name: getattr(self.proof, name) for name in Proof.__dataclass_fields__}
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "snapshot": self.snapshot.as_json(),
            "notes": list(self.notes),
            "proof": proof | {"share": self.proof.share, "least": LEAST, "holds": self.proof.holds},
            "candidate": None,
        }
        if self.run is not None:
            estimates = {"changed": self.changed, "comes": self.comes, "goes": self.goes, "must_share": self.must}
            found["candidate"] = {
                "run": str(self.run.path),
                "pool": str(self.pool) if self.pool else None,
                **{name: one._asdict() if one else None for name, one in estimates.items()},
                "measures": {one.measure: one.as_json() for one in self.differences},
                "turns": [one._asdict() for one in self.turns],
                "prompt": self.prompt.as_json() if self.prompt else None,
            }
        return found


def shadow(
    home: Home,
    candidate: Path,
    out: Path,
    *,
    embedder: str,
    date: str,
    prices: Prices | None = None,
    jobs: int = 1,
    announce: Announce = silent,
) -> Shadow:
    """Replay the logged recalls of a home under its own configuration and another.

    ``out`` gets a snapshot of the home, an ordinary run, a pool of the most telling turns, and shadow.json. What an
    earlier look replayed from the same inputs is taken from its run. Raises :class:`UnusableInput` for a home without a
    log or a store, :class:`NotComparable` if no recall has a turn, and :class:`CannotMeasure` if a replay fails.
    """
    if home.log is None or home.store is None:
        what = "log" if home.log is None else "LanceDB store"
        raise UnusableInput(f"{home.path}: has no {what}; name it with --{'log' if home.log is None else 'store'}")
    section = engine_section(read_value(candidate), candidate)
    # The log is read first, so that the snapshot has the turns of all its recalls.
    files = log_files(home.log)()
    log = read_log(files)
    leave_own(log, home.path, home.store)
    before = [open_snapshot(path) for path in snapshots(out / SNAPSHOTS)[-1:]]
    newest = replace(home, log=max(files, key=lambda file: file.stat().st_mtime_ns))
    taken = take(newest, out / SNAPSHOTS, date=date, created=date, like=next(iter(before), None), announce=announce)
    if taken.store is None:
        raise UnusableInput(f"{home.store}: its table was not copied; {'; '.join(taken.left_out.values())}")
    at = taken.path.name
    recalls, note = since_last_change(log)
    notes = [*log.notes, *([note] if note else [])]
    _require_model(taken.engine, embedder)
    if (mine := embedder_of(section)) != (theirs := embedder_of(read_value(taken.engine))):
        raise UnusableInput(
            f"{candidate}: embeds with {mine}, the host with {theirs}: its memories have no vectors of that model; try "
            "the candidate with the host's model"
        )
    library = read_library(taken.path, "openclaw")
    found = placed(recalls, library.recordings)
    if not found.at:
        raise NotComparable(
            f"{home.log}: none of its {counted(len(recalls), 'recall')} has a user's turn in {home.path}"
        )
    since = min(one.time_ms for one in recalls)
    turns = [turn for recording in library.recordings for turn in recording.turns if turn.role == "user"]
    if others := sum(turn.time_ms > since and turn.key not in found.at for turn in turns):
        notes.append(
            f"{counted(others, 'user turn')} since the first of these recalls {'has' if others == 1 else 'have'} none: "
            "recall was off, or another gateway or log has them"
        )
    gone, unknown = deleted_rows(home.store, home.table)
    notes += [unknown] if unknown else []
    notes += [f"deleted later, and replayed until then: {counted(gone.num_rows, 'memory')}"] if gone is not None else []
    logged = [
        recording.conversation
        for recording in library.recordings
        if any(turn.key in found.at for turn in recording.turns)
    ]
    judged = sha256_file(out / GOLD)[:8] if (out / GOLD).exists() else ""
    text = dump_json(section)
    # Another candidate has its own runs, and its own turns to judge.
    tried = hashlib.sha256(text).hexdigest()[:8]
    file = out / f"{CANDIDATE}-{tried}.json"
    write_atomically(file, text, private=True)
    request = ReplayRequest(
        str(taken.path),
        "openclaw",
        (f"{PRESENT}={taken.engine}", f"{CANDIDATE}={file}"),
        profile="upstream",
        scope="tags",
        recall_turns="user",
        memories_from=str(taken.store if gone is None else _store_of(taken.store, out / STORES / at, gone)),
        vectors="stored",
        embedder=embedder,
        origin=(ALL,),
        # A run of conversations that are chosen by name is a trial.
        conversation=tuple(logged) if len(logged) < len(library.recordings) else (),
        golden=str(out / GOLD) if judged else None,
    )
    remove_leftover_folders(out / RUNS)
    replays = _Replays(out / RUNS, at, tried, judged, jobs, announce)
    proven = _proof(request, replays, "", found)
    if not proven.proof.holds:
        store = _store_of(taken.store, out / STORES / f"{at}-late", gone, recalls)
        again = _proof(replace(request, memories_from=str(store)), replays, "-late", found)
        if again.proof.holds:
            proven = again._replace(proof=replace(again.proof, late=again.proof.equal - proven.proof.equal))
    result = Shadow(taken, replays.name, tuple(notes), proven.proof)
    if proven.proof.holds:
        result = _compared(result, proven.run, out / f"{POOL}-{at}-{tried}.jsonl", proven.at)
        cost = prompt_cost(taken.path, proven.run, proven.at, (PRESENT, CANDIDATE), prices)
        result = replace(result, prompt=cost)
    write_atomically(out / RECEIPT, dump_json(result.as_json()), private=True)
    return result


def forget(before: Shadow, now: Shadow) -> None:
    """Remove what an earlier look left, once there is a later one at the same home and candidate."""
    taken, out = before.snapshot.path, before.snapshot.path.parent.parent
    if before.name == now.name:
        return
    gone = list((out / RUNS).glob(f"{before.name}*"))
    # Another candidate may have been tried on the same snapshot.
    if now.snapshot.path != taken and {*(out / RUNS).glob(f"{taken.name}-{'[0-9a-f]' * 8}*")} <= {*gone}:
        gone += [taken, *(out / STORES).glob(taken.name), *(out / STORES).glob(f"{taken.name}-late")]
    for path in gone:
        # So that what a kill leaves is never taken for the whole.
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        path.rename(part)
        remove_folder(part)
    if before.pool is not None:
        before.pool.unlink(missing_ok=True)


def _store_of(store: Path, out: Path, gone: pa.Table | None, recalls: Sequence[Logged] | None = None) -> Path:
    """Write a store over time; with ``recalls``, one whose rows are seen when an old handle sees them."""
    with quiet_lance():
        rows = import_lancedb().connect(str(store)).open_table(TABLE).to_arrow()
    created = created_in(rows) | (created_in(gone) if gone is not None else {})
    return write_store(out, rows, gone, None if recalls is None else seen_late(recalls, created))


def _require_model(engine: Path, embedder: str) -> None:
    """Raise :class:`UnusableInput` if the host's prompts were embedded by another model than ``embedder``."""
    named = embedder_of(read_value(engine))
    if named and f":{named}@" not in embedder and not embedder.endswith(named):
        raise UnusableInput(
            f"--embedder {embedder}: this host embeds with {named}; give --embedder openai:{named}@URL, which sends "
            "the prompts of its sessions there"
        )


class _Replays(NamedTuple):
    """The replays of a snapshot and a candidate, in ``folder``, beside those of earlier looks."""

    folder: Path
    snapshot: str
    candidate: str
    judged: str
    jobs: int
    announce: Announce

    @property
    def name(self) -> str:
        """The name of the runs, to which each adds its kind."""
        return f"{self.snapshot}-{self.candidate}{'-' if self.judged else ''}{self.judged}"

    def of(self, request: ReplayRequest, kind: str) -> RunDirectory:
        """Return the run of a request, with what earlier runs have of it."""
        out = self.folder / f"{self.name}{kind}"
        earlier = self._earlier(out, Path(str(request.memories_from)))
        outcome = run_replay(request, out, jobs=self.jobs, announce=self.announce, earlier=earlier, use_cache=False)
        if outcome.failures or outcome.run.manifest.failed:
            raise CannotMeasure(f"{out}: recalls failed; see {out / 'failures.jsonl'}")
        return outcome.run

    def _earlier(self, out: Path, store: Path) -> Iterator[RunDirectory]:
        """Yield the other runs of the candidate over this store or an earlier copy of it, the newest first."""
        found = []
        for file in self.folder.glob(f"*-{self.candidate}*/{MANIFEST}"):
            # A run of another version is no help, and no hindrance.
            with suppress(LabError):
                found.append(open_run(file.parent))
        for run in sorted(found, key=lambda run: (run.path / MANIFEST).stat().st_mtime_ns, reverse=True):
            if run.path != out and has_grown(Path(str(run.manifest.asked["memories_from"])), store):
                yield run


class _Proven(NamedTuple):
    """A proof, the run with its replay, and the recalls that were compared, by their turns."""

    proof: Proof
    run: RunDirectory
    at: Mapping[str, Logged]


def _proof(request: ReplayRequest, replays: _Replays, kind: str, logged: Placed) -> _Proven:
    """Compare the present blocks with the injected ones, and again under the faults that receipts name."""
    run = replays.of(request, kind)
    mine = _receipts(run)

    def differs(key: str, one: Logged) -> str | None:
        return difference(one.receipt, mine[key])

    found, exchanged = untangled(logged.at, lambda key, one: differs(key, one) is None)
    apart = {key: what for key, one in found.items() if (what := differs(key, one)) is not None}
    named = {key: [FAULT_OF[fault] for fault in found[key].faults if fault in FAULT_OF] for key in apart}
    restored = Counter[str]()
    if any(named.values()):
        faults = tuple(f"{fault}={key}" for key, some in named.items() for fault in some)
        faulty = replays.of(replace(request, faults=faults), f"{kind}-faults")
        again = _receipts(faulty)
        for key in [key for key, some in named.items() if some]:
            if difference(found[key].receipt, again[key]) is None:
                restored.update(named[key])
                del apart[key]
        causes = tuple(f"{fault}={key}" for key, some in named.items() if key not in apart for fault in some)
        if causes:
            run = faulty if causes == faults else replays.of(replace(request, faults=causes), f"{kind}-causes")
    proof = Proof(
        len(found),
        len(found) - len(apart),
        dict(restored),
        dict(Counter(apart.values())),
        len(logged.without),
        exchanged,
    )
    return _Proven(proof, run, found)


def _receipts(run: RunDirectory) -> dict[str, Mapping[str, Any]]:
    """Return the receipts of the present configuration by turn."""
    return {
        row["turn"]: json.loads(row["receipt"])
        for conversation in run.conversations
        for row in run.read_receipts(conversation, ("arm", "turn", "receipt")).to_pylist()
        if row["arm"] == PRESENT
    }


def _compared(proven: Shadow, run: RunDirectory, pool: Path, wanted: Container[str]) -> Shadow:
    """Return what changes at the recalls that were logged, whose turns are ``wanted``."""
    score_and_write(run)
    changed: dict[str, list[float]] = {}
    comes: dict[str, list[float]] = {}
    goes: dict[str, list[float]] = {}
    must: dict[str, list[float]] = {}
    turns = []
    columns = ("arm", "turn", "injected", "item_id", "item_label", "block")
    for conversation in run.conversations:
        arms: dict[str, dict[str, dict[str, Any]]] = {PRESENT: {}, CANDIDATE: {}}
        for row in run.read_receipts(conversation, columns).to_pylist():
            arms[row["arm"]][row["turn"]] = row
        for key, before in arms[PRESENT].items():
            after = arms[CANDIDATE][key]
            if key not in wanted:
                continue
            ids = [row["item_id"][: row["injected"]] for row in (before, after)]
            turn = Turn(
                key,
                conversation,
                tuple(one for one in ids[1] if one not in ids[0]),
                tuple(one for one in ids[0] if one not in ids[1]),
            )
            is_changed = before["block"] != after["block"]
            changed.setdefault(conversation, []).append(float(is_changed))
            comes.setdefault(conversation, []).append(float(len(turn.comes)))
            goes.setdefault(conversation, []).append(float(len(turn.goes)))
            shares = [_must_share(row) for row in (before, after)]
            if shares[0] is not None and shares[1] is not None:
                must.setdefault(conversation, []).append(shares[1] - shares[0])
            if is_changed:
                turns.append(turn)
    turns.sort(key=lambda turn: (-turn.moved, turn.key))
    comparison = compare_arms(run, PRESENT, CANDIDATE, primary=("RepeatRate",))
    by_name = {one.measure: one for one in comparison.differences}
    names = (*MEASURES, *(f"{name}@{run.cutoff}" for name in JUDGED))
    return replace(
        proven,
        run=run,
        turns=tuple(turns),
        changed=_share(clustered(changed)),
        comes=clustered(comes),
        goes=clustered(goes),
        must=clustered(must) if must else None,
        differences=tuple(by_name[name] for name in names if name in by_name),
        pool=_pooled(run, turns[:TELLING], pool),
    )


def _share(estimate: Estimate) -> Estimate:
    """Return a share with an interval that ends at 0 and 1."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return estimate._replace(low=max(estimate.low, 0.0), high=min(estimate.high, 1.0))


def _must_share(row: Mapping[str, Any]) -> float | None:
    """Return the share of must memories among those injected; None if nothing is."""
    labels = row["item_label"][: row["injected"]]
    return sum(label == MUST for label in labels) / len(labels) if labels else None


def _pooled(run: RunDirectory, turns: Sequence[Turn], file: Path) -> Path | None:
    """Pool the most telling turns to be judged, unless that was done; return the file, or None if nothing changes."""
    if not turns:
        return None
    if not file.exists():
        write_new(file, pool_of(run, {turn.key for turn in turns}, DEPTH).as_bytes())
    return file
