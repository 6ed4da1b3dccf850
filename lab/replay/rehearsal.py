"""Find what systems will embed besides memories and prompts, before a replay, so that it is embedded in bulk.

A rehearsal shows a conversation to the arms that offer one (:class:`lab.systems.protocols.Rehearses`) as the turn loop
does, without recalls.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from lab.replay.loop import Play, ask_of
from lab.replay.timeline import timeline
from lab.systems.contract import Arm, ArmInfo
from lab.systems.kit import Kit
from lab.systems.protocols import Rehearses, Step


def rehearsed(play: Play, arms: Sequence[Arm], infos: Sequence[ArmInfo]) -> tuple[str, ...]:
    """Return the distinct texts that the arms will embed as documents in one conversation, in order."""
    captured = play.source == "captured"
    texts: dict[str, None] = {}
    done: set[Hashable] = set()
    for arm, info in zip(arms, infos, strict=True):
        key = arm.rehearsal_key if isinstance(arm, Rehearses) else None
        if key is None or (key, info.writes) in done or not isinstance(arm, Rehearses):
            continue
        done.add((key, info.writes))
        # Systems of two rehearsals share nothing, because the first is closed.
        with closing(Kit(replace(play.tools, shared={}), info.name, captures=captured and info.writes)) as kit:
            texts |= dict.fromkeys(arm.rehearse(kit, _steps(play, fed=not kit.captures)))
    return tuple(texts)


def _steps(play: Play, *, fed: bool) -> Iterator[Step]:
    """Yield what a system is shown; only one that is ``fed`` receives memories."""
    scoping, every_turn = play.tools.scoping, play.source == "captured"
    for entry in timeline(play.recording, play.memories, play.recall_points, every_turn=every_turn):
        play.tools.clock.now_ms = entry.now_ms
        born, gone = (entry.born, [memory.key for memory in entry.gone]) if fed else ((), ())
        asks = [ask_of(point, scoping, play.faults) for point in entry.points]
        yield Step(born, gone, asks, entry.turn)
