"""The logic of the judging screen: what keys do and what the screen shows.

:class:`Desk` takes keys by name and returns lines of styled text. :func:`judge` drives the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.base.errors import UnusableInput
from lab.base.formatting import cell_len, counted, short_keys
from lab.base.regex import regex
from lab.golden.judging import FORBIDDEN, GRADES, Decision, Judging, Sheet
from lab.golden.model import NOTHING, TYPES
from lab.recordings.model import GLOBAL, Memory, Recording, Turn

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

# A style and a text.
Line = tuple[str, str]
# Number of turns shown before the judged one.
BEFORE = 12
# A word with the spaces after it; in scripts without spaces, one character.
WORD = regex(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+")
LAST_MS = 253_402_300_799_999
# Prefix of pasted text.
PASTED = "text:"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CAPTURE = "capture"
NAMES = {"0": "no", "1": "helps", "2": "needed", FORBIDDEN: "misleading"}
KEPT = {"0": "do not keep", "1": "useful", "2": "keep", FORBIDDEN: "never store"}
CAPTURE_HELP = """
Which of these lines of the turn should an assistant remember?

0  no: small talk, a question, a quotation, output of a tool, already said
1  useful       2  keep: the assistant does harm without it, or must ask again
f  never store: a password, a key, a token
n  note on the selected line            N  note on the turn
r  grade the rest 0                     x  nothing to keep: grade all 0
Enter  finish this turn                 s  skip this turn
u  undo the last decision               up down, j k  move in the list
left right  another turn                PgUp PgDn  scroll the conversation
space  page through a long line
q  quit; run the command again to continue

Every decision is saved at once.
"""
HELP = """
0  not relevant    1  helps    2  needed: wrong or unsafe without it
f  misleading: superseded, similar, of another project
n  note on the selected memory          N  note on what the turn needs
/  search all memories visible at the turn; Enter adds one to the list
r  grade the rest 0                     x  the turn needs nothing: grade all 0
Enter  finish this turn; memories without a grade stay unjudged
s  skip this turn                       u  undo the last decision
up down, j k  move in the list          left right  another turn
space  page through a long memory       PgUp PgDn  scroll the conversation
q  quit; run the command again to continue

Every decision is saved at once. Judge as a demanding user would: usually 0 to
4 memories are relevant. A superseded memory never is. A memory of the same
session is relevant only if the agent could have lost it. A star marks a memory
with a note.
"""


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


class Desk:
    """State of the screen: turn, selected memory and input line. :class:`Judging` holds the decisions.

    Raises :class:`UnusableInput` if the pool or the decisions name turns or memories that the recordings do not have.
    """

    def __init__(self, judging: Judging, recordings: Mapping[str, Recording]) -> None:
        for sheet in judging.sheets():
            _check(sheet, recordings.get(sheet.conversation), judging.out)
        self.judging = judging
        self.captures = judging.pool.captures
        self._recordings = recordings
        self.position = 0
        self.cursor = 0
        self.back = 0
        self.into = 0
        self.mode = "list"
        self.typed = ""
        self.message = ""
        self.ended = False
        self._kept = 0
        self._page = 1
        self._turns = [turn.turn for turn in judging.pool.turns]
        self._go(next((index for index, sheet in enumerate(judging.sheets()) if sheet.state == "open"), 0))

    @property
    def sheet(self) -> Sheet:
        """The judgements of the current turn."""
        return self.judging.sheet(self._turns[self.position])

    @property
    def recording(self) -> Recording:
        """The conversation of the current turn."""
        return self._recordings[self.sheet.conversation]

    @property
    def turn(self) -> Turn:
        """The current turn."""
        return next(turn for turn in self.recording.turns if turn.key == self._turns[self.position])

    def _memory(self, key: str) -> Memory:
        return next(memory for memory in self.recording.memories if memory.key == key)

    def _session_of(self, memory: Memory) -> str:
        """Return the session that created a memory. One of this session is rarely relevant; see :data:`HELP`."""
        before = self.recording.turns[: memory.visible_from]
        if not before:
            return "before the first session"
        session = before[-1].session
        return "this session" if session == self.turn.session else f"session {cut(shown(session), 20)}"

    def about(self, memory: Memory) -> str:
        """Return when and where a memory was made, its category and scope, and what superseded it."""
        newer = next((f"  superseded by {other.key}" for other in self.visible if memory.key in other.supersedes), "")
        made = f"{minute(memory.created_at)}  {self._session_of(memory)}"
        return f"{made}  {memory.category}  {memory.scope}{newer}"

    @property
    def visible(self) -> list[Memory]:
        """The memories that could be recalled at the turn: its scope and global first, then newest first."""
        turn = self.turn
        born = [memory for memory in self.recording.memories if memory.is_visible_at(turn.seq)]
        return sorted(born, key=lambda memory: (memory.scope not in (turn.scope, GLOBAL), -memory.created_at))

    @property
    def matches(self) -> list[Memory]:
        """The search results: visible memories that contain every typed word."""
        words = self.typed.casefold().split()
        return [memory for memory in self.visible if all(word in memory.text.casefold() for word in words)]

    def press(self, key: str) -> None:
        """Handle a key: a character, or ``enter escape backspace up down left right pageup pagedown``."""
        self.message = ""
        if self.mode in ("search", "note", "reason"):
            self._type(key)
        elif self.mode == "type":
            self._choose_type(key)
        elif self.mode == "help":
            self.mode = "list"
        else:
            self._act(key)

    def _act(self, key: str) -> None:
        items = self.sheet.items
        self.into = self.into + 1 if key == " " else 0
        if key == " ":
            return
        if key in ("up", "k", "down", "j"):
            self.cursor = max(0, min(self.cursor + (1 if key in ("down", "j") else -1), len(items) - 1))
        elif key in ("left", "right"):
            self._go(max(0, min(self.position + (1 if key == "right" else -1), len(self._turns) - 1)))
        elif key in ("pageup", "pagedown"):
            self.back += self._page if key == "pageup" else -self._page
        elif key in GRADES and items:
            self._grade(items[self.cursor], key)
        elif key == "n" and items:
            self.mode, self.typed = "note", self.sheet.notes.get(items[self.cursor], "")
        elif key == "N":
            self.mode, self.typed = "reason", self.sheet.reason
        elif key == "/" and not self.captures:
            self.mode, self.typed, self._kept, self.cursor = "search", "", self.cursor, 0
        elif key == "r":
            if self.sheet.unjudged:
                self._decide("rest", refused=tuple(self.sheet.unjudged))
            self._ask_type()
        elif key == "x" and self.sheet.relevant:
            # x would silently discard the grades.
            self.message = "a memory is graded relevant here; grade it 0 first, then press x"
        elif key == "x":
            sheet = self.sheet
            self._decide("nothing", refused=tuple(item for item in sheet.items if sheet.marks.get(item) != FORBIDDEN))
            self._next_turn()
        elif key == "s":
            self._decide("skip")
            self._next_turn()
        elif key == "u":
            self._undo()
        elif key == "enter":
            self._end_turn()
        elif key == "q":
            self.ended = True
        elif key == "?":
            self.mode = "help"
        elif key != "escape":
            self.message = f"{shown(key)} does nothing here; ? shows the keys"

    def _type(self, key: str) -> None:
        if key == "escape":
            self.cursor = self._kept if self.mode == "search" else self.cursor
            self.mode = "list"
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key in ("up", "down") and self.mode == "search":
            self.cursor = max(0, min(self.cursor + (1 if key == "down" else -1), len(self.matches) - 1))
        elif key == "enter":
            self._typed()
        elif (key.isprintable() and len(key) == 1) or key.startswith(PASTED):
            self.typed += " ".join(key.removeprefix(PASTED).split()) if len(key) > 1 else key
            self.cursor = 0 if self.mode == "search" else self.cursor

    def _typed(self) -> None:
        mode, text, self.mode = self.mode, self.typed.strip(), "list"
        if mode == "reason":
            self._decide("reason", value=text)
        elif mode == "note":
            self._decide("note", self.sheet.items[self.cursor], text)
        elif not self.matches:
            self.cursor, self.message = self._kept, "no match; nothing was added"
        else:
            key = self.matches[self.cursor].key
            if key not in self.sheet.items:
                self._decide("add", key)
            self.cursor = self.sheet.items.index(key)

    def _end_turn(self) -> None:
        """Ask for the type of the turn, unless nothing was judged: an accidental Enter must not be a judgement."""
        waiting = len(self.sheet.unjudged)
        if waiting and not self.sheet.relevant:
            self.message = f"{counted(waiting, 'memory')} without a grade; r grades them 0, x if nothing is needed"
        else:
            self._ask_type()

    def _grade(self, memory: str, grade: str) -> None:
        before = self.sheet.marks.get(memory, grade)
        self._decide("grade", memory, grade)
        if before != grade:
            names = KEPT if self.captures else NAMES
            self.message = f"{names[before]} before, {names[grade]} now: {shown(self._memory(memory).text)}"
        sheet = self.sheet
        if sheet.unjudged:
            ungraded = [index for index, item in enumerate(sheet.items) if item not in sheet.marks]
            self.cursor = next((index for index in ungraded if index > self.cursor), ungraded[0])
        elif sheet.state != "done":
            self._ask_type()

    def _ask_type(self) -> None:
        """Ask what the turn tests, unless it is judged for what to keep of it."""
        if self.captures:
            self._done(CAPTURE)
        else:
            self.mode = "type"

    @property
    def types(self) -> list[str]:
        """The types to choose from. A turn with relevant memories cannot need nothing."""
        return [name for name in TYPES if name != NOTHING or not self.sheet.relevant]

    def _choose_type(self, key: str) -> None:
        types = self.types
        if key == "escape":
            self.mode = "list"
        elif key == "enter" and not self.sheet.relevant:
            self._done(NOTHING)
        elif key == "u":
            self.mode = "list"
            self._undo()
        elif len(key) == 1 and key in LETTERS[: len(types)]:
            self._done(types[LETTERS.index(key)])
        else:
            self.message = f"press a letter from a to {LETTERS[len(types) - 1]}; Esc goes back to the list"

    def _done(self, kind: str) -> None:
        self.mode = "list"
        self._decide("done", value=kind)
        self._next_turn()

    def _decide(self, what: str, memory: str = "", value: str = "", refused: Sequence[str] = ()) -> None:
        self.judging.decide(Decision(self._turns[self.position], what, memory, value, tuple(refused)))

    def _undo(self) -> None:
        last = self.judging.undo()
        if last is None:
            self.message = "nothing to undo"
            return
        self._go(self._turns.index(last.turn))
        items = self.sheet.items
        self.cursor = items.index(last.memory) if last.memory in items else 0
        self.message = f"undone: {last.what} {last.value}".rstrip()

    def _go(self, position: int) -> None:
        self.position, self.back, self.mode = position, 0, "list"
        sheet = self.sheet
        self.cursor = next((index for index, item in enumerate(sheet.items) if item not in sheet.marks), 0)

    def go_to(self, turn: str) -> None:
        """Show a turn, unless it is shown already. Raises :class:`UnusableInput` if the pool does not have it."""
        if turn not in self._turns:
            raise UnusableInput(f"no turn {turn!r} in this pool")
        if self._turns[self.position] != turn:
            self._go(self._turns.index(turn))

    def _next_turn(self) -> None:
        waiting = [index for index, sheet in enumerate(self.judging.sheets()) if sheet.state == "open"]
        if waiting:
            self._go(next((index for index in waiting if index > self.position), waiting[0]))
        else:
            self._go(self.position)
            self.message = "every turn is judged or skipped; q quits, left and right go back"

    def lines(self, columns: int, rows: int) -> list[Line]:
        """Return the screen: ``rows`` lines of at most ``columns`` cells. It is designed for 80 by 24 and larger."""
        return [(style, cut(text, columns)) for style, text in self._lines(columns, rows)][:rows]

    def _lines(self, columns: int, rows: int) -> list[Line]:
        if self.mode == "help":
            body = [("", cut(line, columns)) for line in (CAPTURE_HELP if self.captures else HELP).splitlines()]
            return [*bar("keys", columns), *body, *[("", "")] * (rows - len(body) - 3), keys_line("any key: back")][
                :rows
            ]
        detail = max(4, rows // 6)
        left = max(7, rows - detail - 6)
        chat_rows = left * 3 // 5
        self._page = chat_rows - 1
        chat, self.back = window(conversation_lines(self.recording, self.turn, columns), chat_rows, self.back)
        middle = self._menu(columns) if self.mode == "type" else self._memories(columns, left - chat_rows, detail)
        middle += [("", "")] * (left - chat_rows + detail + 2 - len(middle))
        return [*self._title(columns), *chat, *middle, *self._foot(columns)]

    def _title(self, columns: int) -> list[Line]:
        progress, turn = self.judging.progress(), self.turn
        state = (
            ""
            if self.sheet.state == "open"
            else f" [{self.sheet.state}{': ' * bool(self.sheet.type)}{self.sheet.type}]"
        )
        left = f"{self.position + 1}/{len(self._turns)}, {progress['done']} done"
        left += f", {progress['skipped']} skipped" if progress["skipped"] else ""
        room = columns - cell_len(f"{left}    {turn.scope}{state} ")
        key = short_keys(self._turns, room)[turn.key]
        return bar(f"{left}  {key}  {turn.scope}{state}", columns)

    def _menu(self, columns: int) -> list[Line]:
        lines = [f"  {letter}  {name:<23} {TYPES[name]}" for letter, name in zip(LETTERS, self.types, strict=False)]
        return [*bar("what does this turn test?", columns, "-"), *(("", line) for line in lines)]

    def _memories(self, columns: int, rows: int, detail: int) -> list[Line]:
        """Return the lines of the list and of the selected memory's details."""
        sheet, turn = self.sheet, self.turn
        if self.mode == "search":
            memories, title = self.matches, f"{len(self.matches)} of {len(self.visible)} memories visible at the turn"
        else:
            by_key = {memory.key: memory for memory in self.recording.memories}
            memories, title = [by_key[key] for key in sheet.items], f"{len(sheet.marks)} of {len(sheet.items)} judged"
            title += f"   needs: {sheet.reason}" if sheet.reason else ""
        first = max(0, min(self.cursor - rows // 2, len(memories) - rows))
        lines = [
            listed(memory, sheet, turn.scope, columns, here=index == self.cursor)
            for index, memory in enumerate(memories[first : first + rows], first)
        ]
        lines = [*bar(title, columns, "-"), *lines, *[("", "")] * (rows - len(lines))]
        if not memories:
            return [
                *lines,
                *bar("no memory has these words" if self.mode == "search" else "no memories", columns, "-"),
            ]
        memory = memories[self.cursor]
        facts = self.about(memory)
        note = [f"note: {sheet.notes[memory.key]}"] if sheet.notes.get(memory.key) else []
        text, room = folded(memory.text, columns), detail - len(note)
        if len(text) > room:
            # Consecutive pages share a line.
            begins = range(0, len(text) - 1, max(room - 1, 1))
            first = begins[self.into % len(begins)]
            more = f"  lines {first + 1}-{min(first + room, len(text))} of {len(text)}, space: more"
            facts, text = cut(facts, columns - len(more) - 8) + more, text[first : first + room]
        return [*lines, *bar(facts, columns, "-"), *(("", cut(shown(line), columns)) for line in (*text, *note))]

    def _foot(self, columns: int) -> list[Line]:
        entry = {"search": "search", "note": "", "reason": "what the turn needs"}
        if self.mode == "note":
            entry["note"] = f"why “{cut(shown(self._memory(self.sheet.items[self.cursor]).text), 24)}”"
        if self.mode in entry:
            typed = shown(self.typed)
            while typed and width(typed) > columns - width(entry[self.mode]) - 4:
                typed = typed[1:]
            return [("bold", f"{entry[self.mode]}: {typed}_"), keys_line("Enter: save   Esc: cancel")]
        if self.mode == "type":
            more = "" if self.sheet.relevant else f"   Enter: {NOTHING}"
            return [("bold", self.message), keys_line(f"a letter: choose{more}   Esc: back   u: undo")]
        keys = "0 no  1 helps  2 needed  f forbid  n note  / search  r rest 0  Enter done"
        if self.captures:
            keys = "0 no  1 useful  2 keep  f never store  n note  r rest 0  Enter done"
        more = "x nothing  s skip  u undo  q quit  ? help"
        return [("bold", self.message) if self.message else keys_line(keys), keys_line(more)]


def _check(sheet: Sheet, recording: Recording | None, out: Path) -> None:
    turns = {turn.key for turn in recording.turns} if recording else set()
    memories = {memory.key for memory in recording.memories} if recording else set()
    unknown = [sheet.turn] if sheet.turn not in turns else [key for key in sheet.items if key not in memories]
    if unknown:
        raise UnusableInput(
            f"{unknown[0]}: is in the pool or in {out}, but not in the recordings; if it was judged for other "
            "recordings, choose another --out, or make the pool again"
        )


# prompt_toolkit's names of keys, and those of Desk.press.
KEY_NAMES = {
    **{name: name for name in ("up", "down", "left", "right", "pageup", "pagedown", "escape")},
    "c-m": "enter",
    "c-j": "enter",
    "c-h": "backspace",
}
# Seconds without further input after which Esc counts as a key, not as the start of an escape sequence.
ESC_WAIT = 0.1


def judge(desk: Desk, keyboard: Input | None = None, screen: Output | None = None) -> None:
    """Run the judging screen until the judge quits with q or Ctrl-C, or the terminal is closed.

    An exception of the desk, such as a full disk, ends the screen and is raised again after the terminal is restored.
    """
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.keys import Keys
    from prompt_toolkit.layout import FormattedTextControl, Layout, Window

    bindings = KeyBindings()

    def press(event: KeyPressEvent, key: str) -> None:
        try:
            desk.press(key)
        except Exception as error:  # the event loop would print it over the screen and continue
            event.app.exit(exception=error)
            return
        if desk.ended:
            event.app.exit()

    def bind(name: str, key: str) -> None:
        bindings.add(name, eager=name != "escape")(lambda event: press(event, key))

    for name, key in KEY_NAMES.items():
        bind(name, key)

    @bindings.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        press(event, event.data)

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        press(event, f"text:{event.data}")

    @bindings.add("c-c", eager=True)
    @bindings.add("c-d", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit()

    def lines() -> StyleAndTextTuples:
        size = app.output.get_size()
        return [(style, f"{text}\n") for style, text in desk.lines(size.columns, size.rows)]

    app: Application[Any] = Application(
        Layout(Window(FormattedTextControl(lines, focusable=True, show_cursor=False), always_hide_cursor=True)),
        key_bindings=bindings,
        full_screen=True,
        input=keyboard,
        output=screen,
    )
    app.ttimeoutlen = ESC_WAIT
    app.timeoutlen = ESC_WAIT
    with suppress(EOFError):
        app.run()
