"""Keep the engine's lines of a gateway's log until there are enough of them, and audit them (CN-8)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lab.base.files import cannot_write
from lab.base.formatting import Announce, duration, silent
from lab.canary.audit.audit import audit
from lab.canary.audit.lines import MARKER
from lab.canary.rollout.follow import Follower

# The engine's lines of the window, and the seconds between two looks at a log.
KEPT_LINES, PAUSE = "receipts.log", 1.0
# Recalls, and seconds, after which a line of progress is due.
SAY_RECALLS, SAY_EVERY = 50, 60.0


def log_of(value: Mapping[str, Any], config: Path) -> Path | None:
    """Return the log that a configuration names (``logging.file``), or None.

    ``~/.openclaw`` is the home of the host, which is the folder of its configuration wherever that was copied to.
    """
    section = value.get("logging")
    named = section.get("file") if isinstance(section, Mapping) else None
    if not isinstance(named, str):
        return None
    file = Path(named)
    parts = file.parts
    return config.parent.joinpath(*parts[2:]) if parts[:2] == ("~", ".openclaw") else file.expanduser()


def _append(log: Follower, file: BinaryIO) -> bool:
    """Write all new lines of the engine; return whether there are any."""
    found, log_is_read = False, False
    while not log_is_read:
        for line in log.more(MARKER):
            file.write(line + b"\n")
            found = True
        # A look reads a bounded number of bytes of each file.
        log_is_read = not log.moved
    file.flush()
    return found


class Window(NamedTuple):
    """A window that ended: the audit of its receipts, and whether it has as many recalls as were required."""

    audit: dict[str, Any]
    complete: bool
    seconds: float


def watch(
    log: Follower,
    out: Path,
    *,
    recalls: int,
    seconds: float,
    tell: Announce = silent,
    sleep: Callable[[float], None] = time.sleep,
) -> Window:
    """Wait until the log has so many answered recalls, or for so many seconds; return the audit of what it got.

    The engine's lines are kept in ``receipts.log`` in ``out``, readable by the owner alone.
    """
    kept = out / KEPT_LINES
    begun = time.monotonic()
    is_new, due, answered, reported, said = True, begun, 0, 0, begun
    try:
        handle = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "wb") as file:
            while True:
                is_new |= _append(log, file)
                now = time.monotonic()
                is_over = now - begun >= seconds
                # An audit reads the whole window again, so in a long one they become rarer.
                if is_over or (is_new and now >= due):
                    result = audit([str(kept)])
                    answered, is_new = int(result["recalls"]["answered"]), False
                    due = time.monotonic() + 10 * (time.monotonic() - now)
                    if is_over or answered >= recalls:
                        return Window(result, answered >= recalls, now - begun)
                if answered >= reported + SAY_RECALLS or now - said >= SAY_EVERY:
                    reported, said = answered, now
                    tell(f"{answered} of {recalls} recalls, {duration(max(seconds - (now - begun), 0.0))} left")
                sleep(min(PAUSE, max(seconds - (now - begun), 0.0)))
    except OSError as error:
        raise cannot_write(kept, error) from error
