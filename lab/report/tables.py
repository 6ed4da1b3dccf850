"""Tables as text that is pasted elsewhere: Markdown and LaTeX, escaped."""

from __future__ import annotations

from collections.abc import Sequence

_MARKDOWN = {one: f"\\{one}" for one in "\\`*_|[]"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "}
_LATEX = {one: f"\\{one}" for one in "&%$#_{}"} | {
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


def markdown(text: str) -> str:
    """Text as Markdown shows it, in a cell or outside."""
    return _escaped(text, _MARKDOWN)


def latex(text: str) -> str:
    """Text as LaTeX shows it."""
    return _escaped(text, _LATEX)


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


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in text)
