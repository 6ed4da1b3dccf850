"""Lines of the judge's screen: text made safe for a terminal, folded to its width, wide characters counted as two."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lab.golden.judging import Sheet
from lab.recordings.model import GLOBAL, Memory, Recording, Turn

# A style and a text.
Line = tuple[str, str]
# Turns shown before the one that is judged.
BEFORE = 12
# A word with the blanks after it; of scripts without blanks, a character.
WORD = re.compile(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+")
LAST_MS = 253_402_300_799_999


def shown(text: str) -> str:
    """A text on one line, with everything that could write to a terminal as an escape that can be read."""
    return "".join(
        one if one.isprintable() else " " if one.isspace() else one.encode("unicode_escape").decode() for one in text
    )


def width(text: str) -> int:
    """Cells that a text takes."""
    from prompt_toolkit.utils import get_cwidth

    return sum(map(get_cwidth, text))


def cut(text: str, columns: int) -> str:
    """A text in at most so many cells, an ellipsis where it goes on."""
    if width(text) <= columns:
        return text
    kept, used = "", 1
    for one in text:
        used += width(one)
        if used > columns:
            break
        kept += one
    return f"{kept}…"


def folded(text: str, columns: int) -> list[str]:
    """A text in lines of at most so many cells, its own ones and others between words, or characters of Chinese."""
    own = [line for line in text.splitlines() if line.strip()]
    return [folded_line for line in own or [""] for folded_line in _folded(shown(line), columns)]


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
    """A date, in UTC; a dash where no calendar has one."""
    return str(datetime.fromtimestamp(created_at / 1000, UTC).date()) if 0 < created_at <= LAST_MS else "–"


def point(created_at: int) -> str:
    """A date and a time, in UTC; a dash where no calendar has one."""
    if not 0 < created_at <= LAST_MS:
        return "–"
    return f"{datetime.fromtimestamp(created_at / 1000, UTC):%Y-%m-%d %H:%M}"


def bar(text: str, columns: int, line: str = " ") -> list[Line]:
    """A line across the screen: a title in reverse, or a rule that says something."""
    text = shown(text)
    if line == " ":
        title = cut(f" {text}", columns)
        return [("reverse", title + " " * (columns - width(title)))]
    title = cut(f"── {text} " if text else "", columns)
    return [("", title + "─" * (columns - width(title)))]


def keys_line(text: str) -> Line:
    """What keys do."""
    return ("ansicyan", text)


def conversation_lines(recording: Recording, turn: Turn, columns: int) -> list[Line]:
    """The turn that is judged and what was said before it, the turn last and in bold."""
    lines: list[Line] = []
    session = ""
    for one in recording.turns[max(0, turn.seq - BEFORE) : turn.seq + 1]:
        if one.session != session:
            session = one.session
            lines.append(("ansicyan", f"session {shown(session)}, {day(one.time_ms)}"[:columns]))
        who = shown(one.speaker or one.role)
        style = "bold" if one is turn else ""
        first, *rest = folded(f"{'>' if one is turn else ' '} {who}: {one.text}", columns - 4)
        lines += [(style, first), *((style, f"    {line}") for line in rest)]
    return lines


def window(lines: list[Line], rows: int, back: int) -> tuple[list[Line], int]:
    """So many lines, and how far ``back`` they are: no further than there is something to read.

    That is from the last lines; from the beginning of the turn where it is longer than the window.
    """
    turn = sum(style == "bold" for style, _ in lines)
    last = max(0, len(lines) - rows)
    usual = min(last, len(lines) - turn)
    back = max(usual - last, min(back, usual))
    inside = lines[usual - back :][:rows]
    return [*[("", "")] * (rows - len(inside)), *inside], back


def listed(memory: Memory, sheet: Sheet, scope: str, columns: int, *, here: bool) -> Line:
    """A memory in the list: cursor, grade, a star where it has a note, scope where it is another, and its words."""
    mark = sheet.marks.get(memory.key, "·")
    note = "*" if sheet.notes.get(memory.key) else " "
    other = f"[{shown(memory.scope)}] " if memory.scope not in (scope, GLOBAL) else ""
    return ("reverse" if here else "", cut(f"{'>' if here else ' '} {mark}{note} {other}{shown(memory.text)}", columns))
