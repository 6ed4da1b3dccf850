"""Tables as text: for a terminal, and for Markdown, LaTeX and HTML with everything escaped."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from textwrap import fill, wrap

from lab.base.formatting import cell_len, markdown, number
from lab.base.regex import regex

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "…": r"\ldots{}",
        "±": r"\(\pm\)",
        "×": r"\(\times\)",
        "–": "--",
        "\n": " ",
    }
)


# Columns of a table are apart by this many blanks.
GAP = 2
WIDTH = 80
_CJK = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"


def _rules(alone: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what finds the parts of a text that are not broken; the second breaks it after a hyphen within words, too.

    Lines are broken after a slash, and beside a character of ``alone``, a class of them without its brackets.
    """
    one, end = f"[{alone}]|" if alone else "", f"[ \t\n{alone}]"
    hyphen = "(?<=[a-z])-(?=[a-z0-9])"
    return (
        regex(rf"{one}[^/ \t\n{alone}]*/|[^/ \t\n{alone}]+"),
        regex(rf"{one}[^/ \t\n{alone}]*?(?:/|{hyphen})|[^/ \t\n{alone}]+?(?={end}|$)"),
    )


# Thousands of characters take long to compile, and few texts have one of them.
_PLAIN, _CHINESE = _rules(""), _rules(_CJK)
# A number and its unit stay on one line.
_JOINED = "\u00a0"
_UNIT = regex(r"(?<=\d) (?=(?:%|s|ms|min|h|MB|GB)(?!\w))")


def width() -> int:
    """Return the columns of the terminal, or 80 where the output is none; ``COLUMNS`` overrides both."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except (OSError, ValueError, AttributeError):
        return WIDTH


def folded(text: str, indent: str = "") -> str:
    """Return a text wrapped at 80 columns, or at those of a narrower terminal, every line with the indent.

    Nothing is broken inside a word, or between a number and its unit.
    """
    filled = fill(
        _UNIT.sub(_JOINED, text),
        min(WIDTH, width()),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return _parted(filled)


def _parted(text: str) -> str:
    """Return a text with a plain blank between each number and its unit."""
    return re.sub(rf"(?<=\d){_JOINED}(?=[%smhMG])", " ", text)


def text_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, *, whole_keys: bool = False
) -> str:
    """Return a table for a terminal, at most as wide as the terminal, with no word and no number broken.

    The first ``left`` columns are aligned left, the others right; None is a dash. A row of one cell is a heading of the
    rows below it, across all columns. Empty headers take no line. Cells are wrapped between words, and paths after a
    slash; with more than three columns, or with ``whole_keys``, the first column last. What still does not fit becomes
    several tables, or a list of rows.
    """
    cells = _cells(rows)
    room = width()
    for keeps_keys, hyphened in ((True, False), (False, False), (False, True)):
        widths = _fit(headers, cells, room, (whole_keys or len(headers) > 3) and keeps_keys, hyphened)
        if widths:
            return _drawn(headers, cells, widths, left)
    named = left if _columns(headers, cells, range(left)) <= room * 0.6 else 1
    names = [row[:named] for row in cells if len(row) > 1]
    groups = _groups(headers, cells, named, room)
    if groups is None or any(name in names[:at] for at, name in enumerate(names)):
        return _listed(headers, cells, room)
    return "\n\n".join(_drawn(*_part(headers, cells, group), left) for group in groups)


def _cells(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    """Return the texts of cells; a number is joined to its unit, so that both stay on one line."""
    return [[_UNIT.sub(_JOINED, show(cell)) for cell in row] for row in rows]


def _natural(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of every column without any wrapping."""
    return [
        max(cell_len(line) for row in (headers, *cells) if len(row) > 1 for line in row[column].split("\n"))
        for column in range(len(headers))
    ]


def _shortest(headers: Sequence[str], cells: Sequence[Sequence[str]], hyphened: bool) -> list[int]:
    """Return the least width of every column: its longest word, or part of a path outside the first column."""
    full = [row for row in (headers, *cells) if len(row) > 1]
    return [
        max((cell_len(piece) for row in full for piece in _pieces(row[column], column, hyphened)), default=0)
        for column in range(len(headers))
    ]


def _pieces(text: str, column: int, hyphened: bool) -> list[str]:
    """Return the parts of a cell that are not broken; a key is broken at blanks and, if it must be, after a slash."""
    if column:
        return _parts(text, hyphened)
    return _parts(text, False) if hyphened else re.split("[ \t\n]+", text)


def _parts(text: str, hyphened: bool) -> list[str]:
    return (_PLAIN if max(text, default="") < _CJK[0] else _CHINESE)[hyphened].findall(text)


def _columns(headers: Sequence[str], cells: Sequence[Sequence[str]], chosen: Iterable[int]) -> int:
    widths = _natural(headers, cells)
    return sum(widths[column] + GAP for column in chosen)


def _fit(
    headers: Sequence[str], cells: Sequence[Sequence[str]], room: int, whole_keys: bool, hyphened: bool
) -> list[int] | None:
    """Return widths that fit into the room, taking from the widest columns first; None if there are none."""
    widths, least = _natural(headers, cells), _shortest(headers, cells, hyphened)
    if whole_keys and widths[0] <= room // 2:
        least[0] = widths[0]
    over = sum(widths) + GAP * (len(widths) - 1) - room
    while over > 0:
        wide = max(range(len(widths)), key=lambda column: (widths[column] > least[column], widths[column]))
        if widths[wide] <= least[wide]:
            return None
        widths[wide] -= 1
        over -= 1
    return widths


def _groups(
    headers: Sequence[str], cells: Sequence[Sequence[str]], named: int, room: int
) -> list[tuple[list[int], list[int]]] | None:
    """Return columns and their widths for each of several tables; None if a column does not fit beside the names."""
    widths = _natural(headers, cells)
    first = list(range(named))
    taken = sum(widths[column] + GAP for column in first)
    groups: list[list[int]] = []
    left_over = 0
    for column in range(named, len(widths)):
        if widths[column] + taken > room:
            return None
        if not groups or widths[column] + GAP > left_over:
            groups.append([*first])
            left_over = room - taken + GAP
        groups[-1].append(column)
        left_over -= widths[column] + GAP
    return [(group, [widths[column] for column in group]) for group in groups]


def _part(
    headers: Sequence[str], cells: Sequence[Sequence[str]], group: tuple[list[int], list[int]]
) -> tuple[list[str], list[list[str]], list[int]]:
    columns, widths = group
    rows = [[row[column] for column in columns] if len(row) > 1 else [*row] for row in cells]
    return [headers[column] for column in columns], rows, widths


def _listed(headers: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> str:
    """Return every row as its first cell and, indented below it, the others with their headers."""
    lines = []
    for row in cells:
        lines += wrap(row[0], room, break_long_words=False, break_on_hyphens=False) if len(row) > 1 else [row[0]]
        for header, cell in zip(headers[1:], row[1:], strict=False):
            text = f"{header}: {cell}" if header else cell
            lines += wrap(
                text,
                room,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return _parted("\n".join(lines))


def _drawn(headers: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int], left: int) -> str:
    """Return a table with columns of these widths."""
    lines = []
    if any(headers):
        lines += _row(headers, widths, left)
        lines.append("─" * (sum(widths) + GAP * (len(widths) - 1)))
    for row in cells:
        lines += _row(row, widths, left) if len(row) > 1 else [row[0]]
    return _parted("\n".join(lines))


def _row(row: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    """Return the lines of a row."""
    parts = [_wrapped(cell, room, column) for column, (cell, room) in enumerate(zip(row, widths, strict=True))]
    lines = []
    for at in range(max(map(len, parts))):
        line = [part[at] if at < len(part) else "" for part in parts]
        padded = [
            text + " " * (room - cell_len(text)) if column < left else " " * (room - cell_len(text)) + text
            for column, (text, room) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _wrapped(text: str, room: int, column: int) -> list[str]:
    """Return a cell on lines of at most ``room`` columns, broken between words and, outside keys, after a slash."""
    if cell_len(text) <= room and "\n" not in text:
        return [text]
    lines = [""]
    for word in re.split("[ \t\n]+", text.strip(" ")):
        pieces = [word]
        for hyphened in (False, True) if column else (False,):
            if max(map(cell_len, pieces)) > room:
                pieces = _parts(word, hyphened)
        for at, piece in enumerate(pieces):
            joined = lines[-1] + (" " if lines[-1] and not at else "") + piece
            if cell_len(joined) <= room or not lines[-1]:
                lines[-1] = joined
            else:
                lines.append(piece)
    # The blanks before a word are an indent.
    return [text[: len(text) - len(text.lstrip())] + lines[0], *lines[1:]]


def show(value: object) -> str:
    """Return a cell's text: floats by :func:`lab.base.formatting.number`, None as a dash."""
    return number(value) if value is None or isinstance(value, float) else str(value)


def latex(text: str) -> str:
    """Escape text for LaTeX."""
    return text.translate(_LATEX)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table in GitHub's Markdown; the first ``left`` columns are aligned left, the others right."""
    sides = [":--" if column < left else "--:" for column in range(len(headers))]
    lines = [[markdown(cell) for cell in headers], sides, *([markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a LaTeX tabular for the package booktabs."""
    body = [" & ".join(latex(cell) for cell in row) + r" \\" for row in (headers, *rows)]
    columns = "l" * left + "r" * (len(headers) - left)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            body[0],
            r"\midrule",
            *body[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def html_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return an HTML table; the first cell of a row is its header."""
    from html import escape

    def cell(name: str, column: int, text: str, scope: str = "") -> str:
        style = "text-align: left" if column < left else "text-align: right; white-space: nowrap"
        return f'<{name}{scope} style="{style}; padding: 0.2em 0.6em">{escape(text)}</{name}>'

    head = "".join(cell("th", column, text, ' scope="col"') for column, text in enumerate(headers))
    body = [
        "".join([cell("th", 0, row[0], ' scope="row"'), *(cell("td", *pair) for pair in enumerate(row[1:], 1))])
        for row in rows
    ]
    lines = "\n".join(f"<tr>{line}</tr>" for line in body)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
