"""A message as plain text, as the payload of a Slack webhook, and as an e-mail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from html import escape
from itertools import accumulate
from textwrap import fill
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import sha256_bytes
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS
from lab.report.message import Message

# Columns of a line that e-mail programs do not wrap again (RFC 3676).
WIDTH = 72
# What Slack accepts in a header, and in the text of a section.
MOST_HEADER, MOST_SECTION = 150, 3000
# What Slack takes for control characters, wherever they are: a mention such as <!channel> begins with one.
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_COLOURS = {PASS: "#1a7f37", FAIL: "#b3261e", INCONCLUSIVE: "#8a5a00", ERROR: "#5b3aa8"}
# A long command is folded rather than cut, also on a phone.
_WRAPPED = "white-space:pre-wrap;overflow-wrap:anywhere"
_ADDRESS = re.compile(r"(?:[^<>@,;\x00-\x1f\x7f]* <[^\s<>@,;]+@[^\s<>@,;]+>|[^\s<>@,;]+@[^\s<>@,;]+)")
# Names of the parts, for all forms.
RULES, NEXT, PAGE = "What decides", "What to do", "Page"


def as_text(message: Message) -> str:
    """Return a message as plain text, lines of at most 72 columns but for commands and long words."""
    parts = [_folded(message.headline), _folded(message.sentence)]
    if message.rules:
        parts.append("\n".join([f"{RULES}:", *(_folded(rule, "* ") for rule in _rules(message))]))
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


def _rules(message: Message) -> list[str]:
    return [*message.rules, *([f"and {message.more} more, on the page"] if message.more else [])]


def as_slack(message: Message) -> dict[str, Any]:
    """Return the payload of a Slack webhook: blocks, and a text for notifications.

    All but commands is plain text, in which Slack formats nothing. The three characters that Slack treats as control
    characters are escaped everywhere, so that no name can mention or link anything.
    """
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(message.headline, MOST_HEADER)},
        _section(message.sentence),
        *(_section(f"• {rule}") for rule in _rules(message)),
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
    rules = "".join(f"<li>{escape(rule)}</li>" for rule in _rules(message))
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
