"""Choose the reading order of several logs: logs with more information per line come before possible copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.canary.audit.damage import Damaged
from lab.canary.audit.lines import STDIN, MarkedLines, opened
from lab.canary.audit.log_line import LogLine, read_line

LOOK = 32


@contextmanager
def in_reading_order(logs: Sequence[str]) -> Iterator[tuple[list[str], dict[str, MarkedLines]]]:
    """Yield the names of the logs in reading order, and the open streams by name.

    A log whose first lines contain more of date, time zone, session and trace comes first; ties keep the given order.
    Stdin and pipes cannot be read twice, so they stay open, and the lines that were inspected will still be returned.
    """
    information, streams = dict[str, int](), dict[str, MarkedLines]()
    with ExitStack() as stack:
        for name in logs:
            if is_stream(name):
                streams[name] = stack.enter_context(opened(name))
                information[name] = _information(streams[name])
            else:
                with opened(name) as lines:
                    information[name] = _information(lines)
        yield sorted(logs, key=lambda name: -information[name]), streams


def is_stream(name: str) -> bool:
    """Return whether a log can be read only once."""
    return name == STDIN or Path(name).is_fifo()


def _information(lines: MarkedLines) -> int:
    """Return how many of date, time zone, session and trace the first lines contain."""
    entries = [entry for entry in map(_parsed, lines.look(LOOK)) if entry]
    return sum(
        (
            any(entry.time is not None for entry in entries),
            any(entry.time is not None and entry.zoned for entry in entries),
            any(entry.session is not None for entry in entries),
            any(entry.trace is not None for entry in entries),
        )
    )


def _parsed(line: bytes | None) -> LogLine | None:
    try:
        return read_line(line) if line is not None else None
    except Damaged:
        return None
