"""Tables as text: for a terminal, and escaped for Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import fill

from lab.formatting import markdown, number

_LATEX = str.maketrans(
    {one: f"\\{one}" for one in "&%$#_{}"}
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


def folded(text: str) -> str:
    """A sentence, folded at 80 columns."""
    return fill(text, 80, break_long_words=False, break_on_hyphens=False)


def text_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, *, whole_keys: bool = False
) -> str:
    """A table for a terminal, as wide as that at most.

    The first ``left`` columns stand to the left, the others to the right; None is a dash. Headers that say nothing take
    no line. The first column is not broken where there are more than three, or ``whole_keys`` asks for it, unless it
    would take more than half of the width: what does not fit and may not be broken, rich cuts.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console, JustifyMethod
    from rich.table import Table

    # Without styles: every escape sequence in the output of the lab would be one that somebody else put there.
    console = Console(highlight=False, markup=False, emoji=False, color_system=None)
    longest = max((cell_len(show(row[0])) for row in rows), default=0)
    whole = (whole_keys or len(headers) > 3) and longest <= console.width // 2
    bare = not any(headers)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, show_header=not bare)
    for place, header in enumerate(headers):
        side: JustifyMethod = "left" if place < left else "right"
        table.add_column(header, justify=side, overflow="fold", no_wrap=place == 0 and whole)
    for row in rows:
        table.add_row(*(show(cell) for cell in row))
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def show(value: object) -> str:
    """A cell: floats as :func:`lab.formatting.number` has them, None as a dash."""
    return number(value) if value is None or isinstance(value, float) else str(value)


def latex(text: str) -> str:
    """Text as LaTeX shows it."""
    return text.translate(_LATEX)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table of GitHub's Markdown; the first ``left`` columns stand to the left, the others to the right."""
    sides = [":--" if place < left else "--:" for place in range(len(headers))]
    lines = [[markdown(cell) for cell in headers], sides, *([markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A tabular of the package booktabs."""
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
    """A table of HTML; the first cell of a row is its header."""

    def cell(name: str, place: int, text: str, scope: str = "") -> str:
        style = "text-align: left" if place < left else "text-align: right; white-space: nowrap"
        return f'<{name}{scope} style="{style}; padding: 0.2em 0.6em">{escape(text)}</{name}>'

    head = "".join(cell("th", place, text, ' scope="col"') for place, text in enumerate(headers))
    body = [
        "".join([cell("th", 0, row[0], ' scope="row"'), *(cell("td", *one) for one in enumerate(row[1:], 1))])
        for row in rows
    ]
    lines = "\n".join(f"<tr>{line}</tr>" for line in body)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
