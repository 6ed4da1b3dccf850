"""Output of commands: text and tables or, with ``--json``, one JSON object on stdout; progress and errors on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from lab.base.formatting import CONTROL, cell_len, counted, visible, without_credentials
from lab.base.progress import Passing
from lab.base.regex import regex
from lab.report.tables import WIDTH, folded, text_table, width

if TYPE_CHECKING:
    from lab.gate.verdict import Verdict
    from lab.recordings.host_prompts import Suspect

# Number of findings of a kind to print.
SHOWN = 20
# Workflow commands of GitHub Actions: at the start of a line, or in the older form anywhere.
_COMMAND = regex(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
# Verdicts: at the start of a line, and alone in a cell of a table.
_COLOURS = {"pass": "32", "ok": "32", "go": "32", "fail": "31", "no-go": "31", "error": "35", "inconclusive": "33"}
_COLOURS |= {"no-go yet": "33", "warning": "33"}
_VERDICT = regex(
    r"^(?:GO|NO-GO YET|NO-GO|PASS|FAIL|INCONCLUSIVE|ERROR|error|warning)(?=[: ])"
    r"|(?<=^- )(?:pass|fail|inconclusive|error)(?=:)"
    r"|(?<=  )(?:pass|fail|inconclusive|error|ok)(?=  |$)",
    re.MULTILINE,
)
_CLEARED = "\r\x1b[2K"
# The passing line of progress that is on the terminal.
_passing: list[str] = []
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def escape_controls(text: str) -> str:
    """Return ``text`` with everything that could control a terminal or a CI log as a visible escape.

    Ids, notes, labels and messages of other programs are untrusted. Line breaks and tabs stay. A lone surrogate, which
    a terminal cannot show, becomes a question mark.
    """
    return _COMMAND.sub(lambda match: f"{match[1] or ''}\\u{ord(match[0][-1]):04x}", visible(text))


def emit_json(value: Any) -> None:
    """Print one JSON object. It starts with a brace, so a CI log cannot take it for a command.

    Where the encoding of stdout lacks one of its characters, all that are not ASCII are escaped, so that none is lost.
    """
    text = visible(json.dumps(value, ensure_ascii=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = visible(json.dumps(value))
    write(text)


def emit_indented(value: Any) -> None:
    """Print a JSON Schema, indented to be read."""
    emit(json.dumps(value, indent=2, ensure_ascii=False))


def emit(text: str = "") -> None:
    """Print a line, escaped by :func:`escape_controls`."""
    write(painted(escape_controls(text), sys.stdout))


def write(text: str) -> None:
    """Print a line as it is."""
    end_progress()
    sys.stdout.write(text + "\n")


def emit_folded(text: str, indent: str = "") -> None:
    """Print a sentence, folded at 80 columns, every line with the indent."""
    emit(folded(text, indent))


def emit_unless_written(written: bool) -> None:
    """Print that nothing was written, and how to do it, unless it was."""
    if not written:
        emit("Nothing was written; add --write to do it.")


def emit_counts(receipt: Mapping[str, Any], *texts: tuple[str, str]) -> None:
    """Print each count of a receipt that is not 0, after its text."""
    for name, text in texts:
        if receipt[name]:
            emit_folded(f"{text}: {receipt[name]}.")


def emit_hanging(text: str) -> None:
    """Print a line; on a narrower terminal its rest follows on lines with a deeper indent."""
    indent = " " * (len(text) - len(text.lstrip()))
    emit(fill(text, max(width(), len(indent) + 3), subsequent_indent=f"{indent}  ", break_long_words=False))


def emit_next(done: str, command: str | None) -> None:
    """Print what was done and the next command, which begins its own line unless one line has room for both."""
    line = f"{done} Next: {command}" if command else done
    if command and cell_len(line) > min(WIDTH, width()):
        emit_folded(done)
        line = f"Next: {command}"
    emit(line)


def emit_trial(reasons: Sequence[str]) -> None:
    """Print why a run is only a trial; print nothing if it is not."""
    from lab.runs.notes import trial_line

    if warning := trial_line(reasons):
        emit_folded(warning)


def emit_notes(notes: Sequence[str]) -> None:
    """Print sentences, each folded at 80 columns."""
    for note in notes:
        emit_folded(note)


def emit_list(kind: str, lines: Sequence[str]) -> None:
    """Print findings, one per line, up to :data:`SHOWN`."""
    for line in lines[:SHOWN]:
        emit_folded(f"{kind}: {line}")
    if len(lines) > SHOWN:
        emit(f"{kind}: … and {len(lines) - SHOWN} more (--json lists all)")


def announce(text: str) -> None:
    """Print a line of progress to stderr; on a terminal, folded, and a passing line where the last one stood."""
    line = escape_controls(without_credentials(text))
    if not is_terminal(sys.stderr):
        sys.stderr.write(line + "\n")
    elif isinstance(text, Passing):
        from rich.cells import set_cell_size

        end_progress()
        shown = set_cell_size(line, width() - 1).rstrip() if cell_len(line) >= width() else line
        sys.stderr.write(shown)
        _passing.append(shown)
    else:
        end_progress()
        sys.stderr.write("\n".join(painted(folded(part), sys.stderr) for part in line.split("\n")) + "\n")
    sys.stderr.flush()


def counting(noun: str) -> Callable[[int], None]:
    """Return a function that announces a count with its noun, on a passing line."""
    return lambda count: announce(Passing(counted(count, noun)))


def end_progress() -> None:
    """Remove the passing line of progress, if there is one, so that other output begins at the left."""
    if _passing:
        _passing.clear()
        sys.stderr.write(_CLEARED)
        sys.stderr.flush()


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, stream: TextIO) -> str:
    """Return a text with its verdicts in colour, if the stream is a terminal and ``NO_COLOR`` is not set.

    Colours only repeat what the words say. See https://no-color.org.
    """
    if os.environ.get("NO_COLOR") or not is_terminal(stream):
        return text
    return _VERDICT.sub(lambda match: f"\x1b[{_COLOURS[match[0].lower()]}m{match[0]}\x1b[0m", text)


def announce_folded(text: str) -> None:
    """Print a sentence to stderr, folded at 80 columns; later lines are indented."""
    announce(folded(text, "  ").lstrip(" "))


def report_to_ci(verdicts: Sequence[Verdict]) -> None:
    """On GitHub Actions, append verdicts to the step summary, and print them as workflow commands to stderr.

    Raises :class:`lab.base.errors.CannotWrite` if the summary cannot be written.
    """
    from lab.base.files import cannot_write
    from lab.gate.outputs import summary, workflow_commands

    step_summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not step_summary:
        return
    try:
        with Path(step_summary).open("a", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(map(summary, verdicts)))
    except OSError as error:
        raise cannot_write(Path(step_summary), error) from error
    for verdict in verdicts:
        for command in workflow_commands(verdict):
            sys.stderr.write(CONTROL.sub("?", command) + "\n")
    sys.stderr.flush()


def complain(text: str) -> None:
    """Print an error message to stderr: on one line, or folded on a terminal, with a command to copy on its own."""
    end_progress()
    line = escape_controls(without_credentials(f"error: {' '.join(text.split())}"))
    if is_terminal(sys.stderr):
        said, colon, command = line.partition(": lab ")
        line = painted(folded(said + colon.rstrip(" ")), sys.stderr)
        if command:
            line += f"\n  lab {command}"
    sys.stderr.write(line + "\n")


def emit_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, *, whole_keys: bool = False
) -> None:
    """Print a table; see :func:`lab.report.tables.text_table`."""
    emit(text_table(headers, rows, left, whole_keys=whole_keys))


def emit_suspects(suspects: Sequence[Suspect]) -> None:
    """Print what looks like a host's text and was kept as a person's, with one example of each shape."""
    if suspects:
        emit()
        rows = [[suspect.shape, suspect.example, suspect.turns] for suspect in suspects]
        emit_table(["may be the host's, kept as a person's", "begins", "turns"], rows, left=2)
