"""Lines of the judging screen: escaped, folded and measured in terminal cells (wide characters count two)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lab.golden.judging import Sheet
from lab.recordings.model import GLOBAL, Memory, Recording, Turn

# A style and a text.
Line = tuple[str, str]
# Number of turns shown before the judged one.
BEFORE = 12
# A word with the spaces after it; in scripts without spaces, one character.
WORD = re.compile(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+")
LAST_MS = 253_402_300_799_999


def shown(text: str) -> str:
    """Return a text on one line, with control characters as visible escapes."""
    return "".join(
        char if char.isprintable() else " " if char.isspace() else char.encode("unicode_escape").decode()
        for char in text
    )


def width(text: str) -> int:
    """Return the number of terminal cells that a text takes."""
    from prompt_toolkit.utils import get_cwidth

    return sum(map(get_cwidth, text))


def cut(text: str, columns: int) -> str:
    """Return a text cut to at most ``columns`` cells, with an ellipsis if it was longer."""
    if width(text) <= columns:
        return text
    kept, used = "", 1
    for char in text:
        used += width(char)
        if used > columns:
            break
        kept += char
    return f"{kept}…"


def folded(text: str, columns: int) -> list[str]:
    """Return the non-blank lines of a text, folded to at most ``columns`` cells at word boundaries."""
    lines = [line for line in text.splitlines() if line.strip()]
    return [part for line in lines or [""] for part in _folded(shown(line), columns)]


def _folded(text: str, columns: int) -> list[str]:
    lines, line, used = [], "", 0
    for word in WORD.findall(text):
        if used + width(word.rstrip()) > columns and used:
            lines.append(line.rstrip())
            line, used = "", 0
        for part in word if width(word.rstrip()) > columns else [word]:
            if used + width(part.rstrip()) > columns:
                lines.append(line.rstrip())
                line, used = "", 0
            line += part
            used += width(part)
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def day(created_at: int) -> str:
    """Return a date in UTC from milliseconds; a dash if it is out of range."""
    return str(datetime.fromtimestamp(created_at / 1000, UTC).date()) if 0 < created_at <= LAST_MS else "–"


def minute(created_at: int) -> str:
    """Return a date and time in UTC from milliseconds; a dash if it is out of range."""
    if not 0 < created_at <= LAST_MS:
        return "–"
    return f"{datetime.fromtimestamp(created_at / 1000, UTC):%Y-%m-%d %H:%M}"


def bar(text: str, columns: int, line: str = " ") -> list[Line]:
    """Return a line across the screen: a title in reverse video, or a horizontal rule with a text."""
    text = shown(text)
    if line == " ":
        title = cut(f" {text}", columns)
        return [("reverse", title + " " * (columns - width(title)))]
    title = cut(f"── {text} " if text else "", columns)
    return [("", title + "─" * (columns - width(title)))]


def keys_line(text: str) -> Line:
    """Return a line that lists keys."""
    return ("ansicyan", text)


def conversation_lines(recording: Recording, turn: Turn, columns: int) -> list[Line]:
    """Return the lines of the judged turn, in bold, and of up to :data:`BEFORE` turns before it."""
    lines: list[Line] = []
    session = ""
    for earlier in recording.turns[max(0, turn.seq - BEFORE) : turn.seq + 1]:
        if earlier.session != session:
            session = earlier.session
            lines.append(("ansicyan", f"session {shown(session)}, {day(earlier.time_ms)}"[:columns]))
        who = shown(earlier.speaker or earlier.role)
        style = "bold" if earlier is turn else ""
        first, *rest = folded(f"{'>' if earlier is turn else ' '} {who}: {earlier.text}", columns - 4)
        lines += [(style, first), *((style, f"    {line}") for line in rest)]
    return lines


def window(lines: list[Line], rows: int, back: int) -> tuple[list[Line], int]:
    """Return ``rows`` lines and ``back``, the number of lines scrolled back, limited to the lines there are.

    Without scrolling the window shows the last lines, or the start of the turn if the turn does not fit.
    """
    turn = sum(style == "bold" for style, _ in lines)
    last = max(0, len(lines) - rows)
    usual = min(last, len(lines) - turn)
    back = max(usual - last, min(back, usual))
    inside = lines[usual - back :][:rows]
    return [*[("", "")] * (rows - len(inside)), *inside], back


def listed(memory: Memory, sheet: Sheet, scope: str, columns: int, *, here: bool) -> Line:
    """Return a memory's line in the list: cursor, grade, a star for a note, its scope if another, and its text."""
    mark = sheet.marks.get(memory.key, "·")
    note = "*" if sheet.notes.get(memory.key) else " "
    other = f"[{shown(memory.scope)}] " if memory.scope not in (scope, GLOBAL) else ""
    return ("reverse" if here else "", cut(f"{'>' if here else ' '} {mark}{note} {other}{shown(memory.text)}", columns))
