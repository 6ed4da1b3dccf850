"""The recordings of a run: texts, supersessions and explanations, read on first use."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, lru_cache
from threading import RLock

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.recordings.model import Recording
from lab.replay.explain import Explanation, RecordedConversation, explain
from lab.replay.plan import Plan, plan_of
from lab.report.explanation import explanation_text
from lab.runs.directory import RunDirectory
from lab.systems.contract import Detail

# Number of explanations, and of conversations, to cache.
KEPT = 64


class Recorded:
    """Thread-safe, cached access to the recordings of a run.

    Methods raise :class:`LabError` if the recordings are missing or have changed since the run.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._lock = RLock()
        self._explain, self._read = lru_cache(KEPT)(self._explanation), lru_cache(KEPT)(self._conversation)
        self._plan: Plan | LabError | None = None

    def plan(self) -> Plan:
        """Return the plan of the run, with its recordings."""
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
        """Read the recordings ahead of the first page that needs them. Errors are left for that page to show."""
        with suppress(LabError):
            self.plan()

    def languages(self) -> dict[str, str]:
        """Return the language of each conversation; none if the recordings cannot be read."""
        with suppress(LabError):
            return {recording.conversation: recording.language for recording in self.plan().recordings}
        return {}

    def conversation(self, name: str) -> RecordedConversation:
        """Return one conversation."""
        with self._lock:
            return self._read(name)

    def _conversation(self, name: str) -> RecordedConversation:
        return RecordedConversation(self.plan(), self._recording(name))

    def explanation(self, conversation: str, key: str, arm: str, *, with_text: bool, full: bool) -> str:
        """Return the text that ``lab explain`` prints for one turn of one arm."""
        explanation = self.explained(conversation, key, arm, with_text=with_text, full=full)
        return explanation_text(explanation, with_text=with_text, full=full)

    def explained(self, conversation: str, key: str, arm: str, *, with_text: bool, full: bool = False) -> Explanation:
        """Return what ``lab explain`` says of one turn of one arm."""
        with self._lock:
            return self._explain(conversation, key, arm, Detail(with_text, full))

    def _explanation(self, conversation: str, key: str, arm: str, detail: Detail) -> Explanation:
        return explain(self._run, key, arm, self.plan_alone(conversation), detail)

    def plan_alone(self, conversation: str) -> Plan:
        """Return the plan of one conversation."""
        return self.plan().alone(self._recording(conversation))

    def _recording(self, conversation: str) -> Recording:
        recording = self._recordings.get(conversation)
        if recording is None:
            raise UnusableInput(f"{conversation}: not in the recordings of this run")
        return recording

    @cached_property
    def _recordings(self) -> dict[str, Recording]:
        return {recording.conversation: recording for recording in self.plan().recordings}
