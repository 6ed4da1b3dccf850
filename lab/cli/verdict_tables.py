"""A verdict on a terminal: what it is, what to do, why, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.cli.output import emit, emit_folded, emit_notes, emit_table
from lab.formatting import counted, interval, signed

if TYPE_CHECKING:
    from lab.gate.line import Line
    from lab.gate.verdict import Verdict


def emit_verdict(verdict: Verdict) -> None:
    """The verdict first, then what to do and why it is no pass, and then all figures."""
    from lab.gate.outputs import by_reason, gravest_first, headline, rollback

    emit_folded(headline(verdict))
    emit_notes(verdict.embedder)
    if said := rollback(verdict):
        emit_folded(said)
    if verdict.audit:
        known = verdict.audit
        when = f", {known['first_time']} to {known['last_time']}" if known["first_time"] else ""
        emit_folded(f"{counted(known['receipts'], 'receipt')}, {known['answered']} of them answered{when}")
    reasons = list(by_reason(gravest_first(verdict.lines)))
    decisive = [one for one in reasons if not one[0].startswith("(")]
    if verdict.status == "pass":
        held = (line.measure for line in verdict.lines if line.critical and line.status == "pass")
        emit_folded(f"Every rule that decides holds: {', '.join(held)}.")
    for status, why in decisive:
        emit_folded(f"- {status}: {why}")
    if len(decisive) < len(reasons):
        emit("Advisory rules, which decide nothing:")
    for status, why in reasons[len(decisive) :]:
        emit_folded(f"- {status}: {why}")
    emit()
    shown = [line for line in verdict.lines if line.status != "skipped"]
    differences = [line for line in shown if line.kind in ("guard", "improve")]
    figures = [line for line in shown if line not in differences]
    _differences(differences)
    if differences and figures:
        emit()
    _figures(figures)
    skipped = [line for line in verdict.lines if line.status == "skipped"]
    for why in dict.fromkeys(line.reason.partition(": ")[2] for line in skipped):
        names = ", ".join(line.measure for line in skipped if line.reason.endswith(why))
        emit_folded(f"skipped: {names}: {why}")
    if any(not line.critical for line in shown):
        emit("in brackets: advisory rules, which decide nothing")


def _differences(lines: Sequence[Line]) -> None:
    if lines:
        emit_table(
            ["rule", "measure", "verdict", "base", "cand", "diff", _levelled("interval", lines)],
            [
                [
                    line.kind,
                    line.measure if line.slice is None else f"  {line.slice}",
                    _status(line),
                    line.baseline,
                    line.candidate,
                    None if line.difference is None else signed(line.difference),
                    interval(line.low, line.high),
                ]
                for line in lines
            ],
            left=3,
        )


def _figures(lines: Sequence[Line]) -> None:
    if lines:
        emit_table(
            ["figure", "verdict", "value", "policy", _levelled("bounds", lines), "n"],
            [[line.measure, _status(line), line.candidate, _limit(line), _between(line), line.n] for line in lines],
            left=2,
        )


def _levelled(what: str, lines: Sequence[Line]) -> str:
    """A heading with the confidence of all the intervals below it, which is that of the policy."""
    known = {f"{100 * line.confidence:g} % " for line in lines if line.confidence is not None}
    return (known.pop() if len(known) == 1 else "") + what


def _status(line: Line) -> str:
    return line.status if line.critical else f"({line.status})"


def _between(line: Line) -> str | None:
    return None if line.low is None or line.high is None else f"{line.low:.2g} … {line.high:.2g}"


def _limit(line: Line) -> str | None:
    """The limit in signs, so that a verdict and its interval fit beside it in 80 columns."""
    return line.limit and line.limit.replace("at most ", "≤ ").replace("at least ", "≥ ").replace(" and ", ", ")
