"""Trivial prompts (E-19): greetings, acknowledgements, emoji, heartbeats, slash commands."""

from __future__ import annotations

import re

from lab.base.utf16 import WHITESPACE, ascii_lower, js_length

_SPACE = f"[{WHITESPACE}]"
_EMOJI = "[\u2600-\u27bf\U0001f300-\U0001faff]"
_RUNS_OF_SPACE = re.compile(f"{_SPACE}+")
_SLASH_COMMAND = re.compile(r"/[A-Za-z0-9_-]")
_ONLY_EMOJI = re.compile(f"(?:{_SPACE}|{_EMOJI})+")
_RUNS_OF_EMOJI = re.compile(f"{_EMOJI}+")
_RUNS_OF_PUNCTUATION = re.compile("[!！。.,，?？…~～]+")
_WORDS = re.compile(
    "ok|okay|k+|got *it|roger|sure|thank|thanks|thx|ty|nudge|收到|好|好的|嗯|嗯嗯|了解|知道了|行|沒問題"
    "|hi|hello|hey|yo|morning|evening|good +(?:morning|afternoon|evening|night)|哈囉|你好|安安|早安|午安|晚安"
)


def is_trivial(prompt: str, *, skip: bool = True, min_chars: int = 8) -> bool:
    """Whether automatic recall skips a prompt.

    ``min_chars`` is the plugin's ``trivialMinChars``: despite its name, the maximum length in UTF-16 units of a cleaned
    text that can be an acknowledgement or a greeting. Length alone makes no prompt trivial: "1" triggers a recall.
    """
    if not skip:
        return False
    compact = ascii_lower(_RUNS_OF_SPACE.sub(" ", prompt.strip(WHITESPACE)))
    if not compact or "heartbeat" in compact or _SLASH_COMMAND.match(compact) or _ONLY_EMOJI.fullmatch(compact):
        return True
    bare = _RUNS_OF_PUNCTUATION.sub(" ", _RUNS_OF_EMOJI.sub(" ", compact))
    cleaned = _RUNS_OF_SPACE.sub(" ", bare).strip(WHITESPACE)
    return not cleaned or (js_length(cleaned) <= min_chars and _WORDS.fullmatch(cleaned) is not None)
