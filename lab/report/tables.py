"""Tables as text: for a terminal, and for Markdown, LaTeX and HTML with everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import fill

from lab.formatting import markdown, number

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


def folded(text: str, indent: str = "") -> str:
    """Return a text wrapped at 80 columns, every line with the indent."""
    return fill(
        text, 80, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def text_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, *, whole_keys: bool = False
) -> str:
    """Return a table for a terminal, at most as wide as the terminal.

    The first ``left`` columns are aligned left, the others right; None is a dash. A row of one cell is a heading of the
    rows below it, across all columns. Empty headers take no line. With more
    than three columns, or with ``whole_keys``, the first column is not wrapped unless it would take more than half of
    the width; rich cuts what does not fit.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console, JustifyMethod
    from rich.table import Table

    # Without styles, so that the lab's output contains no escape sequences.
    console = Console(highlight=False, markup=False, emoji=False, color_system=None)
    longest = max((cell_len(show(row[0])) for row in rows if len(row) > 1), default=0)
    no_wrap = (whole_keys or len(headers) > 3) and longest <= console.width // 2
    has_no_header = not any(headers)
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, show_header=not has_no_header
    )
    for column, header in enumerate(headers):
        side: JustifyMethod = "left" if column < left else "right"
        table.add_column(header, justify=side, overflow="fold", no_wrap=column == 0 and no_wrap)
    headings = [show(row[0]) for row in rows if len(row) == 1]
    for row in rows:
        table.add_row(*(show(cell) for cell in row) if len(row) > 1 else ())
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    # rich has no cells across columns, so a heading takes the place of an empty row.
    return "\n".join(line or headings.pop(0) for line in lines) if headings else "\n".join(lines)


def text_tables(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table whose columns are whole: those that do not fit beside each other follow in further tables.

    Each of them begins with the first column.
    """
    from rich.cells import cell_len
    from rich.console import Console

    columns = [list(cells) for cells in zip(headers, *rows, strict=True)]
    widths = [max(cell_len(show(cell)) for cell in cells) for cells in columns]
    groups: list[list[int]] = []
    room = 0
    for column in range(1, len(widths)):
        if widths[column] + 2 > room:
            groups.append([0])
            room = Console().width - widths[0]
        groups[-1].append(column)
        room -= widths[column] + 2
    return "\n\n".join(
        text_table([headers[column] for column in group], [[row[column] for column in group] for row in rows])
        for group in groups
    )


def show(value: object) -> str:
    """Return a cell's text: floats by :func:`lab.formatting.number`, None as a dash."""
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
