"""Check that switching the selection policy back leaves nothing behind (seed 000, Rollback).

Each conversation is replayed twice under the operator's configuration: once under ``tier_first_v1`` throughout, and
once with ``tier_quota_v1`` in its middle third. Before and after that third, every answer must be equal byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import dump_json
from lab.base.formatting import Announce, silent
from lab.base.progress import Progress
from lab.base.shape import to_json
from lab.recordings.model import Recording
from lab.replay.loop import Answered, replay
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import open_sources, play_of, prepare, tools_of
from lab.runs.manifest import resolved_of
from lab.runs.notes import config_notes, trial_of_replay
from lab.runs.request import ReplayRequest
from lab.systems.contract import Recall
from lab.systems.openclaw.arms import OLD_POLICY, FlowArm, SwitchedArm, with_policy
from lab.systems.openclaw.config.file import read_value
from lab.systems.openclaw.upstream.host import check_host, host_of
from lab.systems.registry import SwitchedOffArm

SCHEMA = "lab.rollback.v1"
PHASES = ("before", "switched", "after")
# With fewer recalls, a third has none.
FEWEST = 3
Verdict = Literal["pass", "fail", "inconclusive"]


class Difference(NamedTuple):
    """The first turn whose answers differ although the policy is the same, and the parts of the answer that differ."""

    turn: str
    phase: str
    parts: tuple[str, ...]


@dataclass(slots=True)
class Rollback:
    """Counts of recalls and of those that differ, by phase; while switched, those whose injected text differs.

    ``short``: conversations that were left out. ``trial`` has the reasons why the replay is a trial; ``notes`` say what
    else its figures are not, as with another embedder than the configuration's.
    """

    conversations: int = 0
    short: int = 0
    recalls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    differ: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    first: Difference | None = None
    recall_turns: str = "all"
    trial: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return whether switching back equals never having switched; inconclusive if there was no effect to undo."""
        if self.differ["before"] or self.differ["after"]:
            return "fail"
        return "pass" if self.differ["switched"] else "inconclusive"

    @property
    def reason(self) -> str:
        """Return the verdict's reason in a sentence."""
        if self.first is not None:
            parts = ", ".join(self.first.parts)
            return f"{self.first.turn} ({self.first.phase}) differs from never having switched: {parts}"
        if not self.recalls["after"]:
            more = "longer ones" if self.recall_turns == "all" else "more turns with --recall-turns all"
            return f"no conversation has {FEWEST} recalls, so there is nothing to compare; replay {more}"
        if not self.differ["switched"]:
            return (
                "no recall changed while the policy was switched, so there was nothing to undo; give more memories, "
                "such as the engine's store with --memories-from"
            )
        return f"all {self.recalls['after']} recalls after switching back equal those of never having switched"

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "schema": SCHEMA,
            "trial": list(self.trial),
            "notes": list(self.notes),
            "verdict": self.verdict,
            "reason": self.reason,
            "conversations": self.conversations,
            "short": self.short,
            "recalls": self.recalls,
            "differ": self.differ,
            "first": self.first._asdict() if self.first else None,
        }


def rollback(request: ReplayRequest, *, announce: Announce = silent) -> Rollback:
    """Replay the recordings of a request under its configuration, and compare. Its arms are ignored.

    Raises :class:`UnusableInput` without a configuration or for one that its host refuses, and :class:`CannotMeasure`
    if a recall fails.
    """
    if request.config is None:
        raise UnusableInput("rollback: needs the configuration to switch; name it with --config FILE")
    require_accepted(Path(request.config))
    plan = make_plan(replace(request, arms=("engine",)), judged=False)
    arm = plan.arms[0]
    if isinstance(arm, SwitchedOffArm):
        raise UnusableInput(f"{request.config}: {arm.why}; so no policy selects anything")
    if not isinstance(arm, FlowArm):
        raise UnusableInput(f"{request.config}: is no configuration of the engine")
    if not arm.config.auto_recall.enabled:
        raise UnusableInput(f"{request.config}: autoRecall.enabled is false, so no policy selects anything")
    resolved = resolved_of(plan.resolved())
    # The configuration is what is checked, so that it is the operator's own is no reason.
    asked = to_json(replace(request, arms=(), config=None))
    result = Rollback(
        recall_turns=plan.recall_turns,
        trial=trial_of_replay(resolved, asked),
        notes=(*config_notes(resolved), *(plan.origins.notes if plan.origins else ())),
    )
    progress = Progress(len(plan.recordings))
    for recording in plan.recordings:
        _compare(plan, recording, arm, result, announce)
        announce(progress.next(f"{recording.conversation}: replayed switched and not switched"))
    return result


def require_accepted(path: Path, state: Path | None = None) -> None:
    """Raise :class:`UnusableInput` for a complete configuration that its host refuses: no engine starts with it.

    ``state`` is the host's state folder, if the configuration is not in it.
    """
    value = read_value(path, state)
    host = host_of(value)
    if host is not None and (problems := check_host(value, host, where=str(path)).problems):
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise UnusableInput(f"{problems[0]}{more} (host {host.version}; lab config check {path} lists all)")


def _compare(plan: Plan, recording: Recording, arm: FlowArm, result: Rollback, announce: Announce) -> None:
    turns = [point.key for point in plan.recall_points_of(recording)]
    if len(turns) < FEWEST:
        result.short += 1
        return
    start, end = len(turns) // 3, 2 * len(turns) // 3
    phase_of = {key: PHASES[(at >= start) + (at >= end)] for at, key in enumerate(turns)}
    result.conversations += 1
    for never, switched in _answers(plan, recording, arm, frozenset(turns[start:end]), announce):
        phase = phase_of[never.point.key]
        parts = tuple(_parts(never.recall, switched.recall))
        result.recalls[phase] += 1
        # Under another policy the receipt differs in any case, so only the text tells whether switching had an effect.
        result.differ[phase] += "injected text" in parts if phase == "switched" else bool(parts)
        if parts and phase != "switched" and result.first is None:
            result.first = Difference(never.point.key, phase, parts)


def _answers(
    plan: Plan, recording: Recording, arm: FlowArm, switched: frozenset[str], announce: Announce
) -> Iterator[tuple[Answered, Answered]]:
    """Yield the answers of both arms at each recall point."""
    config = with_policy(arm.config, OLD_POLICY)
    arms = (
        replace(arm, name="never", config=config),
        SwitchedArm("switched", arm.system, config, arm.embedder, arm.missing, switched),
    )
    plan = replace(plan, arms=arms, infos=tuple(each.describe() for each in arms))
    sources = open_sources(plan)
    prepare(plan, [recording], sources, announce)
    answers = replay(play_of(plan, recording, tools_of(plan, recording, sources)), arms)
    for never in answers:
        after = next(answers)
        for answer in (never, after):
            if answer.failure:
                raise CannotMeasure(f"{answer.point.key}: the recall of arm {answer.arm!r} fails: {answer.failure}")
        yield never, after


def _parts(one: Recall, other: Recall) -> Iterator[str]:
    """Yield the parts in which two answers differ, byte for byte."""
    if one.context != other.context:
        yield "injected text"
    if _logged(one) != _logged(other):
        yield "receipt"
    if (one.items, one.injected, one.pinned) != (other.items, other.injected, other.pinned):
        yield "items"
    if (one.status, one.log) != (other.status, other.log):
        yield "log"


def _logged(recall: Recall) -> bytes:
    """Return the receipt as the system writes it."""
    if recall.receipt_text is not None:
        return recall.receipt_text.encode("utf-8", "surrogatepass")
    return dump_json(dict(recall.receipt))
