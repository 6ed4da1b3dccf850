"""Run a plan into a run directory: embed once, replay conversation by conversation, keep what is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.errors import CannotWrite, LabError
from lab.files import dump_json, only_writer
from lab.formatting import free_of_credentials
from lab.replay.candidates import served
from lab.replay.embedders import embedder_notes, missing_notes
from lab.replay.executors import Replayed, replay_each, workers_for
from lab.replay.labels import tell_labels
from lab.replay.plan import Plan, ReplayRequest, make_plan
from lab.replay.recall_points import recall_points
from lab.replay.shards import shard_of
from lab.replay.sources import Announce, open_sources, prepare
from lab.runs.directory import RunDirectory
from lab.runs.manifest import Shard, resolved_of
from lab.runs.resume import Fresh, create_or_resume, finish, keep
from lab.systems.contract import Arm


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a replay went. Conversations whose receipts were there already are skipped."""

    run: RunDirectory
    done: tuple[str, ...]
    skipped: tuple[str, ...]
    failures: tuple[dict[str, str], ...]
    embedded: int


def run_replay(
    asked: ReplayRequest,
    out: Path,
    *,
    jobs: int = 1,
    dask: str | None = None,
    shard: Shard | None = None,
    kept: bool = True,
    announce: Announce = lambda _: None,
    made: Mapping[str, Arm] | None = None,
) -> Outcome:
    """Replay what was asked, or a shard of it, into ``out``.

    ``jobs`` processes of this machine work on it, or the workers of ``dask`` (``local``, or a scheduler's address). A
    conversation that fails is written to failures.jsonl and the others go on; a disk that is full or read-only ends
    the replay. ``made`` are arms that are there already, by name. Without ``kept`` candidates that were kept are
    neither read nor written: every search is made. Raises :class:`lab.errors.InUse` while another process writes into
    ``out``.
    """
    plan = make_plan(asked, made=made or {})
    part = shard_of(plan, shard) if shard else None
    with only_writer(out):
        run = create_or_resume(
            out,
            free_of_credentials(asdict(asked)),
            resolved_of(plan.resolved()),
            plan.comparable(),
            lambda: Fresh(gold_of(plan), plan.recall_points()),
            part,
            announce,
        )
        return _replay_into(run, plan, jobs, dask, kept, announce)


def _replay_into(run: RunDirectory, plan: Plan, jobs: int, dask: str | None, kept: bool, announce: Announce) -> Outcome:
    for note in (*embedder_notes(run.manifest.resolved), *missing_notes(plan.infos)):
        announce(note)
    for names in run.manifest.resolved.equal_conversations or ():
        announce(f"{', '.join(names)} say the same, turn by turn: comparisons and gates count them as one conversation")
    told = tell_labels(plan.labels, plan.asked.labels, (plan.labels_of(recording) for recording in plan.recordings))
    if told:
        announce(told)
    for note in plan.library.golden.notes:
        announce(note)
    own, skipped = run.own, tuple(run.done())
    waiting = [one for one in plan.recordings if one.conversation in own and one.conversation not in skipped]
    done: list[str] = []
    problems: dict[str, str] = {}
    sources = open_sources(plan, announce)
    # Whether there are workers is known before hours are spent on embedding.
    with workers_for(len(waiting), jobs, dask) as workers:
        embedded = prepare(plan, [one for one in waiting if not (kept and served(plan, one))], sources, announce)
        for conversation, found in replay_each(plan, waiting, sources, workers, kept=kept):
            problem = _keep(run, conversation, found)
            if problem is None:
                done.append(conversation)
                announce(f"{conversation}: done ({len(skipped) + len(done)} of {len(own)})")
            else:
                problems[conversation] = problem
                announce(f"{conversation}: failed: {problem}")
    failures = [{"conversation": name, "phase": "replay", "reason": problems[name]} for name in own if name in problems]
    finish(run, failures)
    return Outcome(run, tuple(name for name in own if name in done), skipped, tuple(failures), embedded)


def _keep(run: RunDirectory, conversation: str, found: Replayed | str) -> str | None:
    """Keep a conversation's files; return why there are none."""
    if isinstance(found, str):
        return found
    try:
        files = {run.latency(conversation): found.latency, run.receipts(conversation): found.receipts}
        if found.writes is not None:
            files[run.writes(conversation)] = found.writes
        keep(run, conversation, files)
    except CannotWrite:
        raise
    except LabError as error:
        return str(error)
    return None


def gold_of(plan: Plan) -> bytes:
    """The judgements that a run is scored with, as JSON Lines of keys alone.

    So a run can be scored where its recording is not.
    """
    lines = []
    for recording in plan.recordings:
        labels = plan.labels_of(recording)
        known = {memory.key: memory for memory in recording.memories}
        for point in recall_points(recording, plan.probes(recording), "none"):
            probe = point.probe
            if probe is None:
                continue
            relevant = [
                {
                    "memory": one.memory,
                    "grade": one.grade,
                    "label": labels[one.memory],
                    "visible": known[one.memory].is_visible_at(point.seq),
                }
                for one in probe.relevant
            ]
            lines.append(
                {
                    "probe": probe.id,
                    "conversation": probe.conversation,
                    "relevant": relevant,
                    "forbidden": [one.memory for one in probe.forbidden],
                    "slices": probe.slices,
                }
            )
    return b"".join(dump_json(line, indent=None) for line in lines)
