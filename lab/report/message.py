"""A message about a verdict, for people who were not there: what was decided, why, and what to do.

One model for every form (:mod:`lab.report.message_forms`). It is made of verdicts alone, which hold names, keys and
numbers, and never the text of a turn or a memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json, read_text
from lab.base.formatting import counted, sentence, visible, without_credentials
from lab.base.shape import field
from lab.gate.action import Action, action_of, why
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE, PASS, Line
from lab.gate.outputs import by_reason, gravest_first, judged_notes, verdict_of
from lab.gate.verdict import SCHEMA as GATE
from lab.gate.verdict import Verdict
from lab.nightly.action import action_after
from lab.nightly.nightly_folder import KIND as NIGHTLY
from lab.nightly.nightly_folder import PAGE as NIGHTLY_PAGE
from lab.nightly.nightly_folder import RESULT
from lab.report.acceptance import PAGE as ACCEPTANCE_PAGE
from lab.runs.directory import REPORT, VERDICT
from lab.runs.notes import trial_line
from lab.studies.acceptance.verdict import SCHEMA as ACCEPTANCE

# Each status has a mark of its own, so that it does not depend on colour.
MARKS = {PASS: "✔", FAIL: "✖", INCONCLUSIVE: "?", ERROR: "!"}
# Rules in a message, and characters of each; the page has all of them.
MOST_RULES, MOST_CHARACTERS = 8, 400


@dataclass(frozen=True, slots=True)
class Message:
    """What a message says.

    ``title`` is one line; ``sentence`` says why; ``rules`` are the rules that decide, most severe first, each on one
    line; ``more`` counts those left out. ``page`` is the path or the address of the page with all of it.
    """

    status: str
    title: str
    sentence: str
    rules: tuple[str, ...]
    more: int
    action: Action
    facts: tuple[tuple[str, str], ...]
    page: str | None = None

    @property
    def headline(self) -> str:
        """Return the title with the mark of the status."""
        return f"{MARKS[self.status]} {self.title}"

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"action": self.action._asdict(), "facts": dict(self.facts)}


def message_at(path: Path, link: str | None = None, log: Path | None = None) -> Message:
    """Return the message about what a folder or a file holds.

    ``path`` is the folder of a nightly run, of a run that was judged, or of a verdict; or a file with what ``lab
    gate``, ``lab nightly run`` or ``lab acceptance`` wrote or printed with ``--json``. ``link`` replaces the path of
    the page. With ``log``, the standard error of the command, an empty or missing file becomes a message that says why
    there is no verdict. Raises :class:`UnusableInput` for anything else.
    """
    file = _file_in(path) if path.is_dir() else path
    if log is not None and (not file.exists() or not read_text(file).strip()):
        return _without_verdict(log, link)
    data = read_json(file)
    kind = data.get("schema") if isinstance(data, dict) else None
    makers = {GATE: _of_gate, NIGHTLY: _of_nightly, ACCEPTANCE: _of_acceptance}
    if kind not in makers:
        raise UnusableInput(f"{file}: not a verdict of lab gate, lab nightly run or lab acceptance of this version")
    known = data.get("folder") or data.get("run")
    folder = path if path.is_dir() else Path(known) if isinstance(known, str) else file.parent
    try:
        return makers[kind](data, str(file), folder, link)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnusableInput(f"{file}: not a verdict of this version ({error}); make it again") from None


def _file_in(folder: Path) -> Path:
    for name in (RESULT, VERDICT):
        if (folder / name).is_file():
            return folder / name
    raise UnusableInput(f"{folder}: has no verdict ({RESULT} or {VERDICT}); run lab gate or lab nightly run first")


def _without_verdict(log: Path, link: str | None) -> Message:
    lines = [line for line in read_text(log).splitlines() if line.strip()] if log.exists() else []
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    last = (said or lines or ["the command wrote nothing"])[-1]
    return Message(
        ERROR,
        "ERROR: the command ended without a verdict",
        _line(last),
        (),
        0,
        Action("Mend what the message names, and run the command again."),
        (),
        link,
    )


def _line(text: str) -> str:
    """Return a text on one line, cut, and without what controls a terminal or names a password."""
    text = _whole(text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _whole(text: str) -> str:
    return visible(without_credentials(" ".join(text.split())))


def _harmless(action: Action) -> Action:
    return Action(_line(action.sentence), None if action.command is None else _whole(action.command))


def _title(status: str, what: str, trial: Sequence[str]) -> str:
    reasons = trial_line(trial)
    return _line(f"{status.upper()}: {what}{f' [{reasons}]' if reasons else ''}")


def _page(folder: Path, name: str, link: str | None) -> str | None:
    return link or (str(folder / name) if (folder / name).is_file() else None)


def _rules(lines: Sequence[Line], of: str = "") -> list[str]:
    """Return the critical rules that did not pass, most severe first; those with one reason are one entry."""
    deciding = [replace(line, reason=_without_name(line)) for line in gravest_first(lines) if line.critical]
    return [_line(f"{of}{status}: {text}") for status, text in by_reason(deciding)]


def _without_name(line: Line) -> str:
    """Return the reason of a line without the arm and the measure, which a nightly run puts first."""
    return line.reason.removeprefix(f"{line.measure.replace(' ', ': ', 1)}: ")


def _of_gate(data: Mapping[str, Any], where: str, folder: Path, link: str | None) -> Message:
    verdict = verdict_of(data, where)
    what = f"gate {verdict.policy}"
    if verdict.candidate:
        against = f" against {_short(verdict.baseline)}" if verdict.baseline else ""
        what += f", {verdict.candidate}{against}"
    reasons = sentence(why(verdict))
    if verdict.control:
        reasons += f" {verdict.control.sentence}."
    rules = _rules(verdict.lines)
    facts = (*_receipts(verdict), *(("judged", note) for note in judged_notes(verdict)))
    return Message(
        verdict.status,
        _title(verdict.status, what, verdict.trial),
        _line(reasons),
        tuple(rules[:MOST_RULES]),
        len(rules[MOST_RULES:]),
        _harmless(action_of(verdict, folder=str(folder))),
        tuple((name, _line(value)) for name, value in facts),
        _page(folder, REPORT, link),
    )


def _receipts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    if verdict.audit:
        yield "receipts", f"{verdict.audit['receipts']}, {verdict.audit['answered']} of them answered"


def _short(arm: str) -> str:
    """Return an arm of another run without the folders above the run."""
    path, colon, name = arm.rpartition(":")
    return f"{Path(path).name}:{name}" if colon else arm


def _of_nightly(data: Mapping[str, Any], where: str, folder: Path, link: str | None) -> Message:
    sets = [
        (field(entry, "name", str, where), verdict_of(field(entry, "verdict", dict, where), where), entry)
        for entry in field(data, "sets", list, where)
    ]
    status = field(data, "status", str, where)
    of_status = [name for name, verdict, _ in sets if verdict.status == status]
    verdicts = sorted(sets, key=lambda entry: GRAVITY.index(entry[1].status))
    rules = [rule for name, verdict, _ in verdicts for rule in _rules(verdict.lines, f"{name}: ")]
    words = {PASS: "passed", FAIL: "failed", INCONCLUSIVE: "inconclusive", ERROR: "not measured"}
    summary = f"{len(of_status)} of {counted(len(sets), 'set')} {words[status]}: {', '.join(of_status)}."
    return Message(
        status,
        _title(status, f"nightly run of {data['date']}, plan {data['plan']}", data.get("trial", ())),
        _line(summary),
        tuple(rules[:MOST_RULES]),
        len(rules[MOST_RULES:]),
        _harmless(action_after(data)),
        (
            *((f"set {name}", _line(_changed(entry))) for name, _, entry in sets),
            ("commit", str(data["commit"])[:12] if data.get("commit") else "no repository"),
            ("lab", str(data["lab"])),
        ),
        _page(folder, NIGHTLY_PAGE, link),
    )


def _changed(entry: Mapping[str, Any]) -> str:
    """Return how many receipts of a set differ or changed."""
    again, exact = entry.get("reproduces"), entry.get("exact")
    parts = [str(entry["status"])]
    if again:
        parts.append(f"{again['changed']:,} of {again['turns']:,} receipts differ between two replays")
    parts.append(f"{exact['changed']:,} changed since the baseline" if exact else "not compared with a baseline")
    apart = (entry.get("apart") or {}).get("conversations", [])
    if apart:
        parts.append(f"{counted(len(apart), 'conversation')} compared apart")
    return ", ".join(parts)


def _of_acceptance(data: Mapping[str, Any], where: str, folder: Path, link: str | None) -> Message:
    status = field(data, "status", str, where)
    results = [
        result
        for result in field(data, "criteria", list, where)
        if result["applies"] and result["arm"] not in data["readings"]
    ]
    unmet = [result for result in results if result["status"] != PASS]
    unmet.sort(key=lambda result: GRAVITY.index(result["status"]))
    rules = [
        _line(f"{result['status']}: {result['arm']}, {result['criterion']}. {result['title']}: {result['reason']}")
        for result in unmet
    ]
    met = len(results) - len(unmet)
    settles = next((result["settles"] for result in unmet if result["status"] == status and result["settles"]), None)
    return Message(
        status,
        _title(status, f"acceptance of {', '.join(data['candidates'])}", data.get("trial", ())),
        f"{met} of {counted(len(results), 'requirement')} {'is' if met == 1 else 'are'} met.",
        tuple(rules[:MOST_RULES]),
        len(rules[MOST_RULES:]),
        Action(_line(f"What would settle the first: {settles}.") if settles else "Read the page."),
        (("set", _line(data["about"])),),
        _page(folder, ACCEPTANCE_PAGE, link),
    )
