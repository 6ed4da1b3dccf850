"""A conversation as recorded, for pages that show what a run made of it."""

from __future__ import annotations

from lab.recordings.media import media_line
from lab.recordings.model import Recording
from lab.replay.plan import Plan
from lab.replay.recall_points import RecallPoint
from lab.replay.safety_checks import SafetyChecks


class RecordedConversation:
    """One conversation as recorded: its recall points, texts and media of its memories, their supersessions."""

    def __init__(self, plan: Plan, recording: Recording) -> None:
        self.recording = recording
        self.recall_points: dict[str, RecallPoint] = {point.key: point for point in plan.recall_points_of(recording)}
        self.texts = {memory.key: memory.text for memory in recording.memories}
        self.media = {memory.key: line for memory in recording.memories if (line := media_line(memory))}
        self.safety_checks = SafetyChecks(recording)

    def before(self, key: str, most: int) -> list[tuple[str, str]]:
        """Return speaker and text of up to ``most`` turns of the same session before a recall point."""
        point = self.recall_points[key]
        earlier = [turn for turn in self.recording.turns[: point.seq] if turn.session == point.session]
        return [(turn.speaker or turn.role, turn.text) for turn in earlier[-most:]]
