"""Follow a gateway's log from the switch on, and keep the engine's lines of it (CN-8)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lab.canary.audit import audit
from lab.canary.lines import BLOCK, MARKER, MAX_LINE
from lab.errors import UnusableInput
from lab.files import cannot_write, require_finite
from lab.formatting import Announce, silent

# The engine's lines of the window, and the seconds between two looks at a log.
KEPT_LINES, PAUSE = "receipts.log", 1.0


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


class Tail:
    """The whole lines that a log gets from now on, also after it was rotated or cut.

    A log that is replaced by another file, or becomes shorter, is read from its beginning; the rest of the old file is
    read first. A line that is not ended yet waits for its end.
    """

    def __init__(self, path: Path) -> None:
        require_finite(path)
        self.path = path
        self._rest = b""
        self._file: BinaryIO | None = None
        try:
            self._file = path.open("rb")
            self._file.seek(0, os.SEEK_END)
        except FileNotFoundError:
            # The gateway may make it.
            pass
        except OSError as error:
            raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None

    def lines(self) -> list[bytes]:
        """Return the lines with a marker of the engine since the last call."""
        found = self._more()
        if self._replaced():
            self.close()
            self._rest = b""
            try:
                self._file = self.path.open("rb")
            except OSError:
                return found
            found += self._more()
        return found

    def _replaced(self) -> bool:
        try:
            now = self.path.stat()
        except OSError:
            return False
        if self._file is None:
            return True
        return not os.path.samestat(os.fstat(self._file.fileno()), now) or now.st_size < self._file.tell()

    def _more(self) -> list[bytes]:
        found = []
        while self._file is not None and (block := self._file.read(BLOCK)):
            *whole, self._rest = (self._rest + block).split(b"\n")
            found += [line for line in whole if MARKER in line]
            # The audit counts a line that is too long as damaged, whatever is left of it.
            self._rest = self._rest[-2 * MAX_LINE :]
        return found

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Window(NamedTuple):
    """A window that ended: the audit of its receipts, and whether it has as many recalls as were wanted."""

    audit: dict[str, Any]
    complete: bool
    seconds: float


def watch(
    tail: Tail,
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
    is_new, due, answered, reported = True, begun, 0, 0
    try:
        handle = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "wb") as file:
            while True:
                if lines := tail.lines():
                    file.write(b"".join(line + b"\n" for line in lines))
                    file.flush()
                    is_new = True
                now = time.monotonic()
                is_over = now - begun >= seconds
                # An audit reads the whole window again, so in a long one they become rarer.
                if is_over or (is_new and now >= due):
                    result = audit([str(kept)])
                    answered, is_new = int(result["recalls"]["answered"]), False
                    due = time.monotonic() + 10 * (time.monotonic() - now)
                    if is_over or answered >= recalls:
                        return Window(result, answered >= recalls, now - begun)
                if answered >= reported + 50:
                    reported = answered
                    tell(f"{answered} of {recalls} recalls")
                sleep(min(PAUSE, max(seconds - (now - begun), 0.0)))
    except OSError as error:
        raise cannot_write(kept, error) from error
