"""The order that several logs are read in: those whose lines know more before those that may hold copies of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.canary.damage import Damaged
from lab.canary.lines import STDIN, MarkedLines, opened
from lab.canary.said import Said, read_line

LOOK = 32


@contextmanager
def looked_at(logs: Sequence[str]) -> Iterator[tuple[list[str], dict[str, MarkedLines]]]:
    """Logs in the order to read them in, by a look at the first lines of each, and those that are open already.

    A log whose lines tell a date, a zone, a session, a trace comes before one whose lines tell less; where they tell as
    much the order given holds. Stdin and pipes cannot be read twice and stay open, what was looked at still to come.
    """
    known, streams = dict[str, int](), dict[str, MarkedLines]()
    with ExitStack() as held:
        for name in logs:
            if is_stream(name):
                streams[name] = held.enter_context(opened(name))
                known[name] = _known(streams[name])
            else:
                with opened(name) as lines:
                    known[name] = _known(lines)
        yield sorted(logs, key=lambda name: -known[name]), streams


def is_stream(name: str) -> bool:
    """Whether what was read of it is gone."""
    return name == STDIN or Path(name).is_fifo()


def _known(lines: MarkedLines) -> int:
    """How many things any of the first lines tells: a date, its zone, a session, a trace."""
    said = [one for one in map(_said, lines.look(LOOK)) if one]
    return sum(
        (
            any(one.time is not None for one in said),
            any(one.time is not None and one.zoned for one in said),
            any(one.session is not None for one in said),
            any(one.trace is not None for one in said),
        )
    )


def _said(line: bytes | None) -> Said | None:
    try:
        return read_line(line) if line is not None else None
    except Damaged:
        return None
