"""What the host put around a user's words, taken off again (spec 19.1).

A transcript holds what the model was shown: memories that the recorded run injected, and the envelopes of channels. The
prompt is what the person wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

SILENT = ("NO_REPLY", "HEARTBEAT_OK")
_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
# A block without an end was cut off by a budget, so what follows it is not the user's.
_TO_THE_END = r"(?:{end}|\Z)"


def _block(begin: str, end: str) -> re.Pattern[str]:
    return re.compile(
        re.escape(begin) + ".*?" + _TO_THE_END.format(end=re.escape(end)),
        re.IGNORECASE | re.DOTALL,
    )


_UNTRUSTED = r"[^\S\n]\(untrusted[^)\n]*\)"
_HEADING = (
    rf"(?:(?:Conversation info|Sender){_UNTRUSTED}"
    rf"|(?:Thread starter|Replied message|Forwarded(?:[ \w]*\w)?|Chat history(?:[ \w]*\w)?)(?:{_UNTRUSTED})?)"
)
# In the order in which they are taken off: a stamp leads once what was put before it is gone.
_PIECES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("receipt comment", re.compile(r"<!--\s*openclaw-mem-engine:autoRecall.*?-->", re.IGNORECASE | re.DOTALL)),
    (
        "internal context",
        _block("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"),
    ),
    ("relevant-memories block", _block("<relevant-memories>", "</relevant-memories>")),
    ("auto-recall block", _block("[auto-recall]", "[/auto-recall]")),
    ("active_memory_plugin block", _block("<active_memory_plugin>", "</active_memory_plugin>")),
    (
        "metadata block",
        re.compile(
            rf"^{_HEADING}:?[^\S\n]*\n\s*```(?:json)?[^\S\n]*\n\s*[{{\[].*?\n[^\S\n]*```[^\S\n]*$",
            re.IGNORECASE | re.DOTALL | re.MULTILINE,
        ),
    ),
    (
        "time stamp",
        re.compile(r"\A\s*\[[A-Z][a-z]{2,8} \d{4}-\d{2}-\d{2} \d{2}:\d{2}(?::\d{2})?(?: [^\]\n]*)?\]"),
    ),
    # Something is named in it, unlike in a test of a shell script or a list of lists.
    ("directive", re.compile(r"\[\[\s*[A-Za-z][^\[\]\n]*\]\]")),
)


class Cleaned(NamedTuple):
    """A text without its envelope, and how often each kind of piece was taken off."""

    text: str
    stripped: dict[str, int]


def clean_user_text(text: str) -> Cleaned:
    """What the person wrote. Its ends are trimmed; nothing else of it is touched."""
    stripped: dict[str, int] = {}
    for name, pattern in _PIECES:
        text, count = pattern.subn(_gap, text)
        if count:
            stripped[name] = count
    return Cleaned(text.strip(), stripped)


def clean_assistant_text(text: str) -> str | None:
    """A reply without its directives; None where the agent chose to say nothing."""
    said = _PIECES[-1][1].sub(_gap, text).strip()
    return None if said.strip("*`. \n") in SILENT else said


def _gap(found: re.Match[str]) -> str:
    """Nothing, or a space where two words would become one."""
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    return " " if before.strip() and after.strip() else ""


def language_of(texts: Iterable[str]) -> str:
    """``zh`` where at least a tenth of the letters are Chinese characters, else ``en``."""
    letters = chinese = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        chinese += len(_CHINESE.findall(text))
    return "zh" if chinese and chinese * 10 >= letters else "en"
