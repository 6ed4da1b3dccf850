"""Arms of hosts for tests, and a conversation to replay through them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.golden.model import Probe
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.loop import Answered
from lab.systems.external.arm import ExternalArm, make
from lab.systems.spec import LIVE, ArmSpec
from tests.playing import played

FAULTY = Path(__file__).with_name("faulty.py")
TEXTS = ("rye bread is dark", "the deploy key is rotated on Mondays", "tea is served at four")


def talk(turns: int = 4) -> Recording:
    """Questions of a user; a memory is born at each of the first three turns."""
    said = [Turn(f"c/s/{seq}", seq, "s", "user", f"question {seq}", 60_000 * (seq + 1)) for seq in range(turns)]
    born = [Memory(f"c/s/{seq}#0", text, text, seq, 60_000 * seq + 1) for seq, text in enumerate(TEXTS)]
    return Recording("c", tuple(said), tuple(born))


def arm_of(config: dict[str, Any], **options: Any) -> ExternalArm:
    """An arm of a file's content."""
    return make(ArmSpec("live", "external", config, "live.json", **options))


def faulty(*words: str, seconds: float = 10.0, answers: str = LIVE, **config: Any) -> ExternalArm:
    """An arm of the faulty host."""
    timeouts = {"recall": seconds, "close": 1.0}
    return arm_of({"exec": [sys.executable, str(FAULTY), *words], "timeouts": timeouts, **config}, answers=answers)


def answers_of(arm: ExternalArm, probes: Sequence[Probe] = (), turns: int = 4) -> list[Answered]:
    """What the loop makes of an arm's answers."""
    return played(talk(turns), [arm], probes)


def reasons(answers: Sequence[Answered]) -> list[str | None]:
    """The reason of each recall that failed, None for the others."""
    return [str(answer.failure) if answer.failure else None for answer in answers]
