"""Print a verdict: its status, what to do, the reasons and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote, split
from types import MappingProxyType
from typing import TYPE_CHECKING

from lab.base.formatting import counted, interval, signed
from lab.cli.output import emit, emit_folded, emit_notes, emit_table

if TYPE_CHECKING:
    from lab.gate.action import Action
    from lab.gate.line import Line
    from lab.gate.verdict import Verdict

# Characters of a command on one line, and what joins two commands.
WIDTH, AND = 72, "&&"


def emit_action(action: Action, named: Mapping[str, Path | None]) -> None:
    """Print what to do and its commands; ``named`` are the paths for the names in them, such as DIR."""
    emit_folded(action.sentence)
    if action.command:
        emit_command([AND if word == AND else quote(_placed(word, named)) for word in split(action.command)])


def _placed(word: str, named: Mapping[str, Path | None]) -> str:
    name, colon, rest = word.partition(":")
    return f"{path}{colon}{rest}" if (path := named.get(name)) else word


def policy_place(verdict: Verdict) -> dict[str, Path | None]:
    """Return where the file is that a command names as its policy; nothing for a shipped policy."""
    file = verdict.evidence.policy_file if verdict.evidence else None
    return {Path(file).name: Path(file)} if file else {}


def emit_command(words: Sequence[str]) -> None:
    """Print a command that can be copied, with a backslash where a line continues."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 1 > WIDTH or lines[-1].endswith(AND):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    emit("  " + " \\\n      ".join(lines))


def emit_verdict(
    verdict: Verdict,
    asked: Mapping[str, object] | None = None,
    named: Mapping[str, Path | None] = MappingProxyType({}),
    turn: str | None = None,
) -> None:
    """Print the verdict, what to do, the reasons if it is not a pass, and all figures.

    ``asked`` are the arguments of the judged run, ``turn`` one that became worse; ``named`` see :func:`emit_action`.
    """
    from lab.gate.action import action_of
    from lab.gate.line import deciding
    from lab.gate.outputs import by_reason, decided, gravest_first, headline, notes
    from lab.gate.policy import DIFFERENCES

    if verdict.audit and len(verdict.audit["files"]) == 1:
        named = {"LOG": Path(verdict.audit["files"][0]), **named}
    emit_folded(headline(verdict))
    emit_notes(notes(verdict))
    emit_action(action_of(verdict, asked, turn, shown=dict), {**named, **policy_place(verdict)})
    emit_notes(decided(verdict))
    if verdict.turning:
        emit_folded(verdict.turning)
    if audit := verdict.audit:
        period = f", {audit['first_time']} to {audit['last_time']}" if audit["first_time"] else ""
        emit_folded(f"{counted(audit['receipts'], 'receipt')}, {audit['answered']} with an answer{period}")
    reasons = list(by_reason(gravest_first(verdict.lines)))
    decisive = [reason for reason in reasons if not reason[0].startswith("(")]
    if verdict.status == "pass":
        passed = (line.label for line in deciding(verdict.lines, "pass"))
        which = " that was measured" if verdict.unmeasured else ""
        emit_folded(f"Every critical rule{which} passes: {', '.join(passed)}.")
    for status, reason in decisive:
        emit_folded(f"- {status}: {reason}")
    if len(decisive) < len(reasons):
        emit("Advisory rules, which do not affect the verdict:")
    for status, reason in reasons[len(decisive) :]:
        emit_folded(f"- {status}: {reason}")
    shown = [line for line in verdict.lines if line.status != "skipped"]
    differences = [line for line in shown if line.kind in DIFFERENCES]
    tables = (
        ("measure", [line for line in differences if line.slice is None]),
        ("slice", [line for line in differences if line.slice is not None]),
    )
    for first, lines in tables:
        if lines:
            emit()
            _differences(lines, first)
    # A line on drawn blocks has a difference and no figure, and a sentence above.
    if figures := [line for line in shown if line.kind not in DIFFERENCES and line.difference is None]:
        emit()
        _figures(figures)
    skipped = [line for line in verdict.lines if line.status == "skipped"]
    for reason in dict.fromkeys(line.reason.partition(": ")[2] for line in skipped):
        names = dict.fromkeys(line.measure for line in skipped if line.reason.endswith(reason))
        emit_folded(f"skipped: {', '.join(names)}: {reason}")
    if any(not line.critical for line in shown):
        emit("in brackets: advisory rules, which do not affect the verdict")


def _differences(lines: Sequence[Line], first: str) -> None:
    """Print the differences, grouped by kind of rule, compared arm and slice; the headings keep the rows narrow."""
    rows: list[list[object]] = []
    group = ""
    for line in lines:
        if group != (group := _group(line)):
            rows.append([group])
        rows.append(
            [
                f" {line.measure if line.slice is None else line.slice.partition('=')[2]}",
                line.word,
                line.baseline,
                line.candidate,
                None if line.difference is None else signed(line.difference),
                interval(line.low, line.high),
            ]
        )
    emit_table([first, "verdict", "base", "cand", "diff", _levelled("interval", lines)], rows, left=2)
    for note in _paired_apart(lines):
        emit_folded(note)


def _paired_apart(lines: Sequence[Line]) -> Iterator[str]:
    """Yield why the candidate has several figures for a measure, if it has."""
    figures: dict[str, dict[float, str]] = {}
    for line in lines:
        if line.slice is None and line.candidate is not None:
            turns = f"{line.candidate:.3f} over {line.n}"
            figures.setdefault(line.measure, {}).setdefault(line.candidate, turns)
    apart = [f"{measure} {' and '.join(each.values())}" for measure, each in figures.items() if len(each) > 1]
    if apart:
        yield (
            "A comparison covers the values that both of its arms have, so cand differs by what it is compared with: "
            f"{'; '.join(apart)}."
        )


def _group(line: Line) -> str:
    """Return the heading above a line: the kind of its rule, its measure if the rows are slices, and the control."""
    slices = f" {line.measure} by {line.slice.partition('=')[0]}" if line.slice else ""
    return f"{line.kind}{slices}{f' against {line.against}' if line.against else ''}"


def _figures(lines: Sequence[Line]) -> None:
    emit_table(
        ["figure", "verdict", "value", "policy", _levelled("bounds", lines), "n"],
        [[line.measure, line.word, line.candidate, _limit(line), _between(line), line.n] for line in lines],
        left=2,
    )


def _levelled(what: str, lines: Sequence[Line]) -> str:
    """Return a heading with the confidence level of the intervals below it, if they share one."""
    levels = {f"{100 * line.confidence:g} % " for line in lines if line.confidence is not None}
    return (levels.pop() if len(levels) == 1 else "") + what


def _between(line: Line) -> str | None:
    return None if line.low is None or line.high is None else f"{line.low:.2g} … {line.high:.2g}"


def _limit(line: Line) -> str | None:
    """Return the limit with signs in place of words, so that the table fits in 80 columns."""
    return line.limit and line.limit.replace("at most ", "≤ ").replace("at least ", "≥ ").replace(" and ", ", ")
