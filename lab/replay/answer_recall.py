"""AnswerRecall@block: the share of the gold answer's words, numbers and dates that an injected block has.

It is counted here, while the replay has the texts, and a receipt keeps the share alone. It is an upper bound of what an
answer copied from the block can have: the time of every memory counts as said beside it, so that "yesterday" is a date.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import unescape

from lab.base.regex import regex
from lab.recordings.model import Recording
from lab.replay.loop import Answered
from lab.retrieval.answer_words import Content, Date, contents, dates_said
from lab.systems.openclaw.recall.block import FRAME

# What stands before a memory in its line.
_BEFORE = regex(r"\A\d+\. \[[^\[\]|]*\|[^\[\]|]*\] ")


def answer_shares(answers: Sequence[Answered], recording: Recording) -> list[float | None] | None:
    """Return the share for each answer, None at a probe without a gold answer; None if no probe has one."""
    golds = [answer.point.probe.answer if answer.point.probe else "" for answer in answers]
    if not any(golds):
        return None
    bodies = [_body(answer.recall.context) if gold else "" for answer, gold in zip(answers, golds, strict=True)]
    texts = list(dict.fromkeys((*filter(None, golds), *bodies)))
    found = dict(zip(texts, contents(texts), strict=True))
    said = _Said(recording)
    return [
        _share(found[gold], found[body], said.dates(answer, body)) if gold else None
        for answer, gold, body in zip(answers, golds, bodies, strict=True)
    ]


def _share(gold: Content, block: Content, dates: frozenset[Date]) -> float | None:
    share = gold.share_in(block._replace(dates=block.dates | dates))
    # A gold answer of stop words alone has no share.
    return share if share == share else None


def _body(context: str) -> str:
    """Return the memories of a block as one line, without frame, numbers, labels and escaped characters."""
    lines = (_BEFORE.sub("", line) for line in context.split("\n") if line not in FRAME)
    return _one_line(" ".join(lines))


def _one_line(text: str) -> str:
    return " ".join(unescape(text).split())


class _Said:
    """The dates that the memories of a recording give at the times when they were said."""

    def __init__(self, recording: Recording) -> None:
        self._times = {turn.key: turn.time_ms for turn in recording.turns}
        self._times |= {memory.key: memory.created_at for memory in recording.memories}
        self._texts = {memory.key: memory.text for memory in recording.memories}
        self._dates: dict[tuple[str, int], frozenset[Date]] = {}

    def dates(self, answer: Answered, body: str) -> frozenset[Date]:
        """Return the dates of the memories whose whole text is in the body of an answer's block."""
        return frozenset(
            one for text, time in self._injected(answer) if _one_line(text) in body for one in self._of(text, time)
        )

    def _injected(self, answer: Answered) -> Iterator[tuple[str, int]]:
        recall = answer.recall
        for item in recall.items[: recall.injected]:
            time = next((self._times[key] for key in (item.id, *item.sources) if key in self._times), None)
            if time is not None:
                yield item.text, time
        yield from ((self._texts[key], self._times[key]) for key in recall.pinned if key in self._texts)

    def _of(self, text: str, time: int) -> frozenset[Date]:
        if (text, time) not in self._dates:
            self._dates[text, time] = dates_said(text, time)
        return self._dates[text, time]
