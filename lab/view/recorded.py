"""The recordings behind a run: texts, what replaces what, and explanations. They are read when first asked for."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from functools import cached_property
from threading import RLock
from typing import TypeVar

from lab.errors import CannotMeasure, LabError, UnusableInput
from lab.recordings.model import Recording
from lab.replay.explain import explain
from lab.replay.plan import Plan, plan_of
from lab.replay.recall_points import RecallPoint
from lab.replay.safety_checks import SafetyChecks
from lab.report.explanation import explanation_text
from lab.runs.directory import RunDirectory
from lab.systems.contract import Detail

K = TypeVar("K")
V = TypeVar("V")
# Explanations and conversations that are kept at hand.
KEPT = 64


class Recorded:
    """What a run was made of. One caller at a time is served, whichever thread it is of.

    Every method raises :class:`LabError` where the recordings are not at hand or have changed since.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._lock = RLock()
        self._explained: OrderedDict[tuple[str, str, str, bool, bool], str] = OrderedDict()
        self._told: OrderedDict[str, Told] = OrderedDict()
        self._plan: Plan | LabError | None = None

    def plan(self) -> Plan:
        """What the run was asked to do."""
        with self._lock:
            if self._plan is None:
                try:
                    self._plan = plan_of(self._run)
                except LabError as error:
                    self._plan = error
                except OSError as error:
                    self._plan = CannotMeasure(f"{error.filename}: {error.strerror}")
            if isinstance(self._plan, LabError):
                raise self._plan
            return self._plan

    def warm(self) -> None:
        """Read the recordings ahead of the first page that asks for them; why that fails, the page will say."""
        with suppress(LabError):
            self.plan()

    def told(self, conversation: str) -> Told:
        """One conversation."""
        with self._lock:
            if conversation not in self._told:
                self._told[conversation] = Told(self.plan(), self._recording(conversation))
            return _kept(self._told, conversation)

    def explanation(self, conversation: str, key: str, arm: str, *, with_text: bool, full: bool) -> str:
        """Why one turn of one arm is as it is, as ``lab explain`` tells it."""
        with self._lock:
            asked = (conversation, key, arm, with_text, full)
            if asked not in self._explained:
                alone = self.plan().alone(self._recording(conversation))
                found = explain(self._run, key, arm, alone, Detail(with_text, full))
                self._explained[asked] = explanation_text(found, with_text=with_text, full=full)
            return _kept(self._explained, asked)

    def _recording(self, conversation: str) -> Recording:
        found = self._recordings.get(conversation)
        if found is None:
            raise UnusableInput(f"the recording of {conversation} is not at hand")
        return found

    @cached_property
    def _recordings(self) -> dict[str, Recording]:
        return {one.conversation: one for one in self.plan().recordings}


class Told:
    """One conversation as it was recorded."""

    def __init__(self, plan: Plan, recording: Recording) -> None:
        self.recording = recording
        self.recall_points: dict[str, RecallPoint] = {one.key: one for one in plan.recall_points_of(recording)}
        self.texts = {memory.key: memory.text for memory in recording.memories}
        self.safety_checks = SafetyChecks(recording)

    def before(self, key: str, most: int) -> list[tuple[str, str]]:
        """Who said what in the turns before one of the conversation, at most so many of the same session."""
        point = self.recall_points[key]
        said = [one for one in self.recording.turns[: point.seq] if one.session == point.session]
        return [(one.speaker or one.role, one.text) for one in said[-most:]]


def _kept(shelf: OrderedDict[K, V], key: K) -> V:
    """What lies on a shelf, whose longest unused goes where there is no room."""
    shelf.move_to_end(key)
    while len(shelf) > KEPT:
        shelf.popitem(last=False)
    return shelf[key]
