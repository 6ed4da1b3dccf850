"""Trivial prompts (E-19): greetings, acknowledgements, emoji, heartbeats, slash commands.

:func:`is_trivial` is the public plugin's rule. It misses emoji with joiners, flags and most greetings, and skips every
prompt that contains the word heartbeat or begins with a path. :func:`is_trivial_for_seed` follows seed 001 (M1).
"""

from __future__ import annotations

import re

from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE, ascii_lower, js_length

_SPACE = f"[{WHITESPACE}]"
_EMOJI = "[\u2600-\u27bf\U0001f300-\U0001faff]"
_RUNS_OF_SPACE = regex(f"{_SPACE}+")
_SLASH_COMMAND = regex(r"/[A-Za-z0-9_-]")
_ONLY_EMOJI = regex(f"(?:{_SPACE}|{_EMOJI})+")
_RUNS_OF_EMOJI = regex(f"{_EMOJI}+")
_RUNS_OF_PUNCTUATION = regex("[!！。.,，?？…~～]+")
_WORDS = regex(
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


# Pictographs, arrows, symbols, keycaps, flags, skin tones; with the joiners, selectors and tags that combine them.
_EMOJI_SIGNS = regex(
    "[0-9#*]\ufe0f?\u20e3"
    "|[\u200d\u203c\u2049\u20e3\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff]"
    "|[\u3030\u303d\u3297\u3299\ufe0e\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f]"
)
_PUNCTUATION = regex("[!！。.,，、?？…~～:：;；'’\"“”()（）^_*-]+")
_ACK = (
    "o+k(?:ay|ie|ey)?|k+|yes|yep|yeah|yup|sure(?: thing)?|got (?:it|that|you)|gotcha|roger(?: that)?|noted|understood"
    "|i see|makes sense|sounds good|alright|all right|fine|cool|nice|great|perfect|good|awesome|excellent|will do|done"
    "|np|no problem|no worries|never ?mind|you re welcome|youre welcome|lol|haha(?:ha)*|nudge|ping"
    "|(?:many )?thanks(?: (?:a lot|so much|again))?|thank(?: you)?(?: (?:very|so) much| again)?|thx|ty|cheers"
    "|hi+|hello|hey+|yo|hiya|welcome back|bye|goodbye|see (?:you|ya)(?: later)?|(?:good )?(?:morning|evening|night)"
    "|good afternoon|there|everyone|all|team"
)
# No word is a sequence of others: a text that is repeated laughter then has one reading, and matching stays linear.
_ACK_CJK = (
    "好[的吧滴呢了]?|[嗯恩哦喔噢啊哈呵嘿嗨]|行[吧了]?|可以|對的?|对的?|是的?|收到了?|了解了?|明白了?|知道了|懂了?|沒問題|没问题"
    "|沒事|没事|不客氣|不客气|辛苦了?|哈囉|哈喽|[你您]好|大家好|安安|早安?|早上好|午安|下午好|晚安|晚上好|再見|再见|拜拜"
    "|(?:謝謝|多謝|感謝|谢谢|多谢|感谢)[你您]?|感恩|太好了|太棒了|很好|不錯|不错|讚|赞"
)
_ACKS = regex(f"(?:(?:{_ACK})(?= |$)|{_ACK_CJK}| )+")
# At the end of "good evening team" a word is part of the greeting; alone it is none.
_ADDRESSEES = frozenset(("there", "everyone", "all", "team"))
# A command's name is one word. A path has a second slash or a dot, or is a folder at the root.
_COMMAND = regex(rf"/([A-Za-z][A-Za-z0-9_-]*)(?=$|{_SPACE}|:)")
_ROOT_FOLDERS = frozenset(
    (
        *("bin", "boot", "dev", "etc", "home", "lib", "media", "mnt", "opt", "proc", "root", "run", "sbin", "srv"),
        *("sys", "tmp", "usr", "users", "var", "volumes"),
    )
)
# What the host sends as a heartbeat: the bare word, or its instruction, which names the file and the reply.
_HEARTBEAT = regex(r"heartbeat|read heartbeat\.md\b.*|.*\bheartbeat_ok\b.*", re.IGNORECASE | re.DOTALL)
_HEARTBEAT_LINE = regex(r"\[?HEARTBEAT\]?(?=[:\]]|$)")


def is_trivial_for_seed(prompt: str, *, skip: bool = True, max_chars: int = 24) -> bool:
    """Whether automatic recall skips a prompt.

    ``max_chars`` is the plugin's ``trivialMinChars``: the maximum length in UTF-16 units of the text that is compared
    with known greetings and acknowledgements, without emoji and punctuation. A prompt of none of these words is never
    trivial, however short.
    """
    if not skip:
        return False
    text = prompt.strip(WHITESPACE)
    command = _COMMAND.match(text)
    if command:
        return command[1].lower() not in _ROOT_FOLDERS
    bare = _PUNCTUATION.sub(" ", _EMOJI_SIGNS.sub(" ", text).replace("'", "").replace("’", ""))
    cleaned = _RUNS_OF_SPACE.sub(" ", bare).strip(WHITESPACE).lower()
    if not cleaned or _HEARTBEAT.fullmatch(text.strip("[]!。. ")) or _HEARTBEAT_LINE.match(text):
        return True
    if js_length(cleaned) > max_chars or cleaned in _ADDRESSEES:
        return False
    return _ACKS.fullmatch(cleaned) is not None
