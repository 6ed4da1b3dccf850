"""Replay a plan into a run directory: embed all texts, then replay and write conversation by conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.base.errors import CannotWrite, LabError
from lab.base.files import dump_json, only_writer, write_atomically
from lab.base.formatting import free_of_credentials
from lab.base.progress import Progress
from lab.recordings.host_prompts import Suspect
from lab.recordings.inventory import Passed
from lab.replay.admission import FILE as ADMISSION
from lab.replay.admission import admitted, is_hosted
from lab.replay.candidates import is_cached
from lab.replay.config_notes import config_notes, missing_notes
from lab.replay.contents import contents_of
from lab.replay.executors import Replayed, replay_each, workers_for
from lab.replay.labels import labels_note
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
    """The result of a replay. Conversations whose receipts existed already are ``skipped``.

    ``passed`` counts what the reader of the recordings left out, and ``suspects`` are user turns that look like a
    host's text, with examples for the terminal alone; both for formats that report them.
    """

    run: RunDirectory
    done: tuple[str, ...]
    skipped: tuple[str, ...]
    failures: tuple[dict[str, str], ...]
    embedded: int
    passed: tuple[Passed, ...] = ()
    suspects: tuple[Suspect, ...] = ()


def run_replay(
    request: ReplayRequest,
    out: Path,
    *,
    jobs: int = 1,
    dask: str | None = None,
    shard: Shard | None = None,
    use_cache: bool = True,
    announce: Announce = lambda _: None,
    made: Mapping[str, Arm] | None = None,
) -> Outcome:
    """Replay a request, or a shard of it, into the folder ``out``.

    It uses ``jobs`` processes of this machine, or the workers of ``dask`` (``local``, or a scheduler's address). A
    conversation that fails is listed in failures.jsonl and the others continue; a full or read-only disk ends the
    replay. ``made`` are existing arms by name. Without ``use_cache``, cached candidates are neither read nor written:
    every search is run. Raises :class:`lab.base.errors.InUse` while another process writes into ``out``, and
    :class:`lab.replay.admission.Refused` for an external arm that does not prove what it is named for.
    """
    plan = make_plan(request, made=made or {})
    part = shard_of(plan, shard) if shard else None
    with only_writer(out):
        proofs = admitted(plan, out / ADMISSION, is_hosted)
        run = create_or_resume(
            out,
            free_of_credentials(asdict(request)),
            resolved_of(plan.resolved()),
            plan.comparable(),
            plan.code_roots(),
            lambda: Fresh(gold_of(plan), plan.recall_points(), contents_of(plan), plan.origins),
            part,
            announce,
        )
        if proofs is not None:
            write_atomically(out / ADMISSION, proofs)
        return _replay_into(run, plan, jobs, dask, use_cache, announce)


def _replay_into(
    run: RunDirectory, plan: Plan, jobs: int, dask: str | None, use_cache: bool, announce: Announce
) -> Outcome:
    for note in (*config_notes(run.manifest.resolved), *missing_notes(plan.infos)):
        announce(note)
    for names in run.manifest.resolved.equal_conversations or ():
        announce(f"{', '.join(names)} are equal, turn by turn: comparisons and gates count them as one conversation")
    note_on_labels = labels_note(
        plan.labels, plan.request.labels, (plan.labels_of(recording) for recording in plan.recordings)
    )
    if note_on_labels:
        announce(note_on_labels)
    for note in plan.library.golden.notes:
        announce(note)
    assigned, skipped = run.assigned, tuple(run.done())
    missing = set(assigned).difference(skipped)
    waiting = [recording for recording in plan.recordings if recording.conversation in missing]
    done: list[str] = []
    problems: dict[str, str] = {}
    sources = open_sources(plan, announce)
    # Workers first: embedding may take hours, and would be in vain without them.
    with workers_for(len(waiting), jobs, dask) as workers:
        uncached = [recording for recording in waiting if not (use_cache and is_cached(plan, recording))]
        embedded = prepare(plan, uncached, sources, announce)
        progress = Progress(len(assigned), len(skipped))
        for conversation, result in replay_each(plan, waiting, sources, workers, use_cache=use_cache):
            problem = _keep(run, conversation, result)
            if problem is None:
                done.append(conversation)
                announce(progress.next(f"{conversation}: done"))
            else:
                problems[conversation] = problem
                announce(f"{conversation}: failed: {problem}")
    failures = [
        {"conversation": name, "phase": "replay", "reason": problems[name]} for name in assigned if name in problems
    ]
    finish(run, failures)
    read = plan.library.inventory
    reported = (read.passed, read.suspects) if read else ()
    done_here = tuple(name for name in assigned if name in done)
    return Outcome(run, done_here, skipped, tuple(failures), embedded, *reported)


def _keep(run: RunDirectory, conversation: str, result: Replayed | str) -> str | None:
    """Write a conversation's files; return the reason of a failure, else None."""
    if isinstance(result, str):
        return result
    try:
        files = {run.latency(conversation): result.latency, run.receipts(conversation): result.receipts}
        if result.writes is not None:
            files[run.writes(conversation)] = result.writes
        keep(run, conversation, files)
    except CannotWrite:
        raise
    except LabError as error:
        return str(error)
    return None


def gold_of(plan: Plan) -> bytes:
    """Return the judgements that a run is scored with, as JSON Lines of keys without texts.

    With them a run can be scored without its recording.
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
                    "memory": judgement.memory,
                    "grade": judgement.grade,
                    "label": labels[judgement.memory],
                    "visible": known[judgement.memory].is_visible_at(point.seq),
                }
                for judgement in probe.relevant
            ]
            lines.append(
                {
                    "probe": probe.id,
                    "conversation": probe.conversation,
                    "relevant": relevant,
                    "forbidden": [judgement.memory for judgement in probe.forbidden],
                    **({"irrelevant": list(probe.irrelevant)} if probe.irrelevant else {}),
                    "slices": probe.slices,
                }
            )
    return b"".join(dump_json(line, indent=None) for line in lines)
