"""A message about a verdict, for people who were not there: what was decided, why, and what to do.

One model for every form: text, Slack and e-mail. It is made of verdicts alone, which hold names, keys and
numbers, and never the text of a turn or a memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from email.message import EmailMessage
from email.policy import SMTP
from html import escape
from itertools import accumulate
from pathlib import Path
from textwrap import fill
from typing import Any

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import read_json, read_text, sha256_bytes
from lab.base.formatting import counted, sentence, visible, without_credentials
from lab.base.regex import regex
from lab.base.shape import field
from lab.compare.changes import cause
from lab.gate.action import Action, action_of, why
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE, NOT_HERE, PASS, Line
from lab.gate.outputs import by_reason, gravest_first, judged_notes, verdict_of
from lab.gate.rejudge import Stale, Unchecked, judge_again, rejudge
from lab.gate.verdict import SCHEMA as GATE
from lab.gate.verdict import Verdict, on_what, overall
from lab.nightly.baselines import BEGUN
from lab.nightly.nightly_folder import KIND as NIGHTLY
from lab.nightly.nightly_folder import PAGE as NIGHTLY_PAGE
from lab.nightly.nightly_folder import RESULT, action_after
from lab.report.acceptance import PAGE as ACCEPTANCE_PAGE
from lab.runs.directory import MANIFEST, REPORT, VERDICT
from lab.runs.notes import trial_line
from lab.studies.acceptance.verdict import SCHEMA as ACCEPTANCE

# Each status has a mark of its own, so that it does not depend on colour.
MARKS = {PASS: "✔", FAIL: "✖", INCONCLUSIVE: "?", ERROR: "!"}
# Rules in a message, rules named for one reason, and characters of each; the page has all of them.
MOST_RULES, MOST_NAMES, MOST_CHARACTERS = 8, 8, 400


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
    there is no verdict. A verdict of ``lab gate`` or of a nightly run is judged again; one whose run, audit or plan is
    not there is marked as not checked. Of an acceptance, every status must follow from what is below it. Raises
    :class:`CannotMeasure` for a verdict that is stale, and :class:`UnusableInput` for anything else.
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
    # A verdict that lies in a run is that run's, whatever it says.
    in_run = (file.parent / MANIFEST).is_file() or not isinstance(known, str)
    folder = path if path.is_dir() else file.parent if in_run else Path(str(known))
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


def _title(word: str, what: str, trial: Sequence[str], unchecked: str = "") -> str:
    beside = [note for note in (trial_line(trial), unchecked) if note]
    return _line(" ".join([f"{word}: {what}", *(f"[{note}]" for note in beside)]))


def _require_derived(status: str, below: Iterable[str], where: str) -> None:
    """Raise :class:`CannotMeasure` unless a status is the gravest of those below it."""
    derived = min(below, key=GRAVITY.index, default=status)
    if status != derived:
        raise CannotMeasure(f"{where}: is stale: its status {status} does not follow from what is below it, {derived}")


def _page(folder: Path, name: str, link: str | None) -> str | None:
    return link or (str(folder / name) if (folder / name).is_file() else None)


def _rules(lines: Sequence[Line], of: str = "") -> list[str]:
    """Return the critical rules that did not pass, most severe first; those with one reason are one entry."""
    deciding = [replace(line, reason=_without_name(line)) for line in gravest_first(lines) if line.critical]
    return [_line(f"{of}{status}: {text}") for status, text in by_reason(deciding, MOST_NAMES)]


def _without_name(line: Line) -> str:
    """Return the reason of a line without the arm and the measure, which a nightly run puts first."""
    return line.reason.removeprefix(f"{line.measure.replace(' ', ': ', 1)}: ")


def _of_gate(data: Mapping[str, Any], where: str, folder: Path, link: str | None) -> Message:
    verdict, unchecked = verdict_of(data, where), ""
    try:
        verdict = rejudge(verdict, folder)
    except Unchecked as error:
        unchecked = f"not checked: {error}"
    except Stale as error:
        raise CannotMeasure(f"{where}: is stale: {error}; {judge_again(verdict)}") from None
    what = f"gate {verdict.policy}"
    if verdict.candidate:
        against = f" against {_short(verdict.baseline)}" if verdict.baseline else ""
        what += f", {verdict.candidate}{against}"
    reasons = sentence(why(verdict))
    if verdict.control:
        reasons += f" {sentence(verdict.control.sentence)}"
    rules = _rules(verdict.lines)
    facts = (*_receipts(verdict), *(("judged", note) for note in judged_notes(verdict)))
    return Message(
        verdict.status,
        _title(f"{verdict.status.upper()}{verdict.on_what}", what, verdict.trial, unchecked),
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
    from lab.nightly.nightly_run import require_derived

    sets = [
        (field(entry, "name", str, where), verdict_of(field(entry, "verdict", dict, where), where), entry)
        for entry in field(data, "sets", list, where)
    ]
    status = field(data, "status", str, where)
    for name, verdict, _ in sets:
        _require_derived(verdict.status, [overall(verdict.lines)], f"{where}: set {name!r}")
    _require_derived(status, [verdict.status for _, verdict, _ in sets], where)
    names = {name for name, _, _ in sets}
    begun = set(field(read_json(folder / BEGUN), "sets", dict, BEGUN)) if (folder / BEGUN).is_file() else names
    if not names or names != begun:
        others = ", ".join(sorted(names ^ begun)) or "none"
        raise CannotMeasure(f"{where}: is stale: its sets are not those of the nightly run (which differ: {others})")
    try:
        unchecked = require_derived(data, {name: verdict for name, verdict, _ in sets}, folder)
    except Stale as error:
        raise CannotMeasure(f"{where}: is stale: {error}; run it again") from None
    notes = dict.fromkeys(note for _, verdict, _ in sets for note in verdict.embedder)
    word = f"{status.upper()}{on_what(verdict for _, verdict, _ in sets)}"
    of_status = [name for name, verdict, _ in sets if verdict.status == status]
    verdicts = sorted(sets, key=lambda entry: GRAVITY.index(entry[1].status))
    rules = [rule for name, verdict, _ in verdicts for rule in _rules(verdict.lines, f"{name}: ")]
    words = {PASS: "passed", FAIL: "failed", INCONCLUSIVE: "inconclusive", ERROR: "not measured"}
    summary = f"{len(of_status)} of {counted(len(sets), 'set')} {words[status]}: {', '.join(of_status)}."
    moved = [
        text for _, _, entry in sets if (exact := entry.get("exact")) and exact["changed"] for text in exact["moved"]
    ]
    if moved:
        summary = f"Since the baseline: {cause(list(dict.fromkeys(moved)))}. {summary}"
    return Message(
        status,
        _title(
            word,
            f"nightly run of {data['date']}, plan {data['plan']}",
            data.get("trial", ()),
            f"not checked: {unchecked}" if unchecked else "",
        ),
        _line(summary),
        tuple(rules[:MOST_RULES]),
        len(rules[MOST_RULES:]),
        _harmless(action_after(data)),
        (
            *((f"set {name}", _line(_changed(entry, verdict))) for name, verdict, entry in sets),
            *(("note", _line(note)) for note in notes),
            ("commit", str(data["commit"])[:12] if data.get("commit") else "no repository"),
            ("lab", str(data["lab"])),
        ),
        _page(folder, NIGHTLY_PAGE, link),
    )


def _changed(entry: Mapping[str, Any], verdict: Verdict) -> str:
    """Return how many receipts of a set differ or changed, and what passed without being measured."""
    again, exact = entry.get("reproduces"), entry.get("exact")
    parts = [str(entry["status"])]
    if again:
        parts.append(f"{again['changed']:,} of {again['turns']:,} receipts differ between two replays")
    parts.append(f"{exact['changed']:,} changed since the baseline" if exact else "not compared with a baseline")
    apart = (entry.get("apart") or {}).get("conversations", [])
    if apart:
        parts.append(f"{counted(len(apart), 'conversation')} compared apart")
    if verdict.status == PASS and verdict.unmeasured:
        parts.append(f"{NOT_HERE}: {', '.join(verdict.unmeasured)}")
    return ", ".join(parts)


def _of_acceptance(data: Mapping[str, Any], where: str, folder: Path, link: str | None) -> Message:
    status = field(data, "status", str, where)
    results = [
        result
        for result in field(data, "criteria", list, where)
        if result["applies"] and result["arm"] not in data["readings"]
    ]
    _require_derived(status, [result["status"] for result in results], where)
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
        _title(status.upper(), f"acceptance of {', '.join(data['candidates'])}", data.get("trial", ())),
        f"{met} of {counted(len(results), 'requirement')} {'is' if met == 1 else 'are'} met.",
        tuple(rules[:MOST_RULES]),
        len(rules[MOST_RULES:]),
        Action(_line(f"What would settle the first: {settles}.") if settles else "Read the page."),
        (("set", _line(data["about"])),),
        _page(folder, ACCEPTANCE_PAGE, link),
    )


# Columns of a line that e-mail programs do not wrap again (RFC 3676).
WIDTH = 72
# What Slack accepts in a header, and in the text of a section.
MOST_HEADER, MOST_SECTION = 150, 3000
# What Slack takes for control characters, wherever they are: a mention such as <!channel> begins with one.
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_COLOURS = {PASS: "#1a7f37", FAIL: "#b3261e", INCONCLUSIVE: "#8a5a00", ERROR: "#5b3aa8"}
# A long command is folded rather than cut, also on a phone.
_WRAPPED = "white-space:pre-wrap;overflow-wrap:anywhere"
_ADDRESS = regex(r"(?:[^<>@,;\x00-\x1f\x7f]* <[^\s<>@,;]+@[^\s<>@,;]+>|[^\s<>@,;]+@[^\s<>@,;]+)")
# Names of the parts, for all forms.
RULES, NEXT, PAGE = "What decides", "What to do", "Page"


def as_text(message: Message) -> str:
    """Return a message as plain text, lines of at most 72 columns but for commands and long words."""
    parts = [_folded(message.headline), _folded(message.sentence)]
    if message.rules:
        parts.append("\n".join([f"{RULES}:", *(_folded(rule, "* ") for rule in _listed_rules(message))]))
    parts.append("\n".join([f"{NEXT}:", _folded(message.action.sentence, "  "), *_command(message)]))
    facts = [_folded(f"{name}: {value}") for name, value in message.facts]
    if message.page:
        facts.append(f"{PAGE}: {message.page}")
    return "\n\n".join([*parts, *(["\n".join(facts)] if facts else [])]) + "\n"


def _folded(text: str, first: str = "") -> str:
    later = " " * len(first)
    return fill(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def _command(message: Message) -> list[str]:
    return [f"  {message.action.command}"] if message.action.command else []


def _listed_rules(message: Message) -> list[str]:
    return [*message.rules, *([f"and {message.more} more, on the page"] if message.more else [])]


def as_slack(message: Message) -> dict[str, Any]:
    """Return the payload of a Slack webhook: blocks, and a text for notifications.

    All but commands is plain text, in which Slack formats nothing. The three characters that Slack treats as control
    characters are escaped everywhere, so that no name can mention or link anything.
    """
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(message.headline, MOST_HEADER)},
        _section(message.sentence),
        *(_section(f"• {rule}") for rule in _listed_rules(message)),
        _section(f"{NEXT}: {message.action.sentence}"),
    ]
    if message.action.command:
        # A backtick would end the block of code.
        code = message.action.command.replace("`", "'").translate(_SLACK)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"```{code}```", "verbatim": True}})
    facts = [f"{name}: {value}" for name, value in message.facts]
    if message.page:
        facts.append(f"{PAGE}: {message.page}")
    if facts:
        blocks.append({"type": "context", "elements": [_plain(" · ".join(facts), MOST_SECTION)]})
    return {"text": f"{message.headline}: {message.sentence}".translate(_SLACK), "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _plain(text, MOST_SECTION)}


def _plain(text: str, most: int) -> dict[str, Any]:
    """Return a text object, cut so that it fits after it was escaped."""
    escaped = text.translate(_SLACK)
    if len(escaped) > most:
        ends = accumulate(len(mark.translate(_SLACK)) for mark in text)
        escaped = f"{text[: sum(end < most for end in ends)].translate(_SLACK)}…"
    return {"type": "plain_text", "text": escaped, "emoji": False}


def as_email(message: Message, to: Sequence[str], sender: str | None = None) -> bytes:
    """Return an e-mail with a text and an HTML part, for ``sendmail -t``: lines end with a line feed.

    It has neither a date nor a message id, which the program that sends it adds, so that equal verdicts give equal
    messages. Raises :class:`UnusableInput` for an address that could add a header or a recipient.
    """
    for address in (*to, *([sender] if sender else [])):
        if not _ADDRESS.fullmatch(address):
            raise UnusableInput(f"{address!r}: not one e-mail address; write NAME@HOST or 'Name <NAME@HOST>'")
    if not to:
        raise UnusableInput("--to: is required for an e-mail")
    mail = EmailMessage(policy=SMTP.clone(linesep="\n", max_line_length=78))
    if sender:
        mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Subject"] = f"[lab] {message.title}"
    # Programs that answer letters by themselves do not answer this one (RFC 3834).
    mail["Auto-Submitted"] = "auto-generated"
    text = as_text(message)
    mail.set_content(text, cte="quoted-printable")
    mail.add_alternative(_html(message), subtype="html", cte="quoted-printable")
    mail.set_boundary(f"lab-{sha256_bytes(text.encode())[:32]}")
    return bytes(mail)


def _html(message: Message) -> str:
    rules = "".join(f"<li>{escape(rule)}</li>" for rule in _listed_rules(message))
    command = f"<pre style='{_WRAPPED}'>{escape(message.action.command)}</pre>" if message.action.command else ""
    facts = [*message.facts, *([(PAGE, message.page)] if message.page else [])]
    rows = "".join(
        f"<tr valign='top'><th align='left'>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts
    )
    return (
        "<!doctype html><html lang='en'><body style='font-family:sans-serif;max-width:44em'>"
        f"<h2 style='color:{_COLOURS[message.status]}'>{escape(message.headline)}</h2>"
        f"<p>{escape(message.sentence)}</p>"
        + (f"<h3>{RULES}</h3><ul>{rules}</ul>" if rules else "")
        + f"<h3>{NEXT}</h3><p>{escape(message.action.sentence)}</p>{command}"
        + (f"<table>{rows}</table>" if rows else "")
        + "</body></html>\n"
    )
