"""Which sentences of a user's message are stored: by rules (RS-17 to RS-21), or as recorded (RS-16).

The rules stand for the language model of the program, which the lab does not call. A candidate is a sentence as it was
written: its language and its person are kept. The markers are those of the program in English and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lab.base.errors import UnusableInput
from lab.base.files import read_json_lines
from lab.base.formatting import choices, folded
from lab.base.regex import regex
from lab.base.shape import expect, field, only_keys, optional
from lab.systems.rsclaw.document import KINDS

MIN_CONFIDENCE = 0.55
MOST_ITEMS, MOST_LESSONS = 6, 2
SHORTEST, LONGEST = 4, 4000
# A tool that gives the same result so often in one turn of the agent makes a failure.
REPEATED = 3
T = TypeVar("T")
_text_of = attrgetter("text")


class Candidate(NamedTuple):
    """What an extractor proposes to store. ``importance`` is None if the kind decides it."""

    kind: str
    text: str
    confidence: float = 1.0
    importance: float | None = None


def _words(english: str, chinese: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{english})\b|{chinese}", re.IGNORECASE)


# Traditional characters of the markers and their simplified forms.
_FOLD = str.maketrans(
    "習慣歡討厭們兒媽親記幫後對錯別項專線許會嗎",
    "习惯欢讨厌们儿妈亲记帮后对错别项专线许会吗",
)
_REMEMBER = _words(r"remember (?:that|to)", "记住|记一下|记下|帮我记")
_GATE = _words(
    r"my (?:name|wife|husband)|i live|i['’]m from|i am|i['’]m|i (?:like|prefer|hate|use|work)|call me",
    "我叫|我是|我的|我家|我住|住在|我用|我习惯|喜欢|讨厌|我想要|我希望|我们公司|我(?:妻子|老婆|丈夫|老公|太太|先生|"
    "女儿|儿子|妈妈|爸爸|父亲|母亲)|我生日|偏好|以后每次|每次都",
)
_LESSON = _words(r"that['’]s wrong|next time|you should|i meant|redo", "不对|错了|下次|以后不要|以后别")
# The document's own lesson is no marker of the program: how answers shall not be ("回答不要用表格", seed 002).
_STYLE = _words(
    r"(?:don['’]t|do not|stop|never) (?:\w+ ){0,4}(?:answers?|answering|replies|reply|replying|responses?|tables?|"
    r"bullets?|bullet points|emojis?|markdown)|(?:answers?|replies|reply|respond|responses?) (?:\w+ ){0,3}without",
    "(?:回答|回复|回覆|答复|答覆|输出)[^，。！？]{0,8}(?:不要|别|不用|不必)|(?:不要|别)用?(?:表格|列表|表情|格式)",
)
# Kinds in the order in which they are tried, with the words that show them.
_KINDS = (
    ("entity", _words(r"my name is|call me|my birthday", "我叫|我的名字|我生日|我的生日")),
    (
        "relationship",
        _words(
            r"my (?:wife|husband|partner|daughter|son|mother|father|boss|colleague)",
            "我(?:的)?(?:妻子|老婆|丈夫|老公|太太|先生|女儿|儿子|妈妈|爸爸|父亲|母亲|同事|老板)",
        ),
    ),
    ("procedure", _words(r"always|never|every time|whenever|from now on", "以后每次|每次都|一律")),
    ("preference", _words(r"i (?:like|prefer|hate|love|dislike)", "喜欢|讨厌|偏好|我习惯|我希望|我想要")),
    ("project_state", _words(r"project|repo|release|deadline|our (?:team|company)", "项目|专案|我们公司|上线")),
)
# Words of a weak claim: what someone is at present is mostly no lasting fact.
_WEAK = _words(r"i am|i['’]m", "我是|我的")
_DOUBT = _words(r"if|would|could|maybe|perhaps|wonder", "如果|要是|也许|可能|会不会")
_QUESTION = regex(r"[?？]\s*$|[吗嗎呢]\s*$")
_SENTENCES = regex(r"(?<=[。！？!?])|(?<=\.)\s+|\n+")
_IDENTIFIERS = regex(
    r"[\w.+-]+@[\w-]+\.[\w.-]*\w"  # an e-mail address
    r"|(?<![\d.])\+\d{1,3}[ -]?\d(?:[ -]?\d){6,12}(?!\d)"  # an international telephone number
    r"|(?<!\d)(?:1[3-9]\d{9}|09\d{2}-?\d{3}-?\d{3})(?!\d)"  # a mobile number of China or Taiwan
    r"|(?<!\w)(?:\d{17}[\dXx]|[A-Z][12]\d{8})(?!\w)"  # an identity number of China or Taiwan
)


def simplified(text: str, *, fold: bool) -> str:
    """Return a text as markers are looked for, with the characters of the markers in simplified Chinese if ``fold``."""
    return text.translate(_FOLD) if fold else text


def passes_gate(text: str, *, fold: bool) -> bool:
    """Return whether a message is worth an extraction (RS-17): 4 to 4,000 characters, and a marker."""
    plain = simplified(text, fold=fold)
    return SHORTEST <= len(text) <= LONGEST and bool(_GATE.search(plain) or _REMEMBER.search(plain))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without white space around them."""
    return [part for part in map(str.strip, _SENTENCES.split(text)) if len(part) >= SHORTEST]


def main_pass(text: str, *, fold: bool) -> list[Candidate]:
    """Return a candidate for each sentence with a marker of the gate or a word of a kind (RS-18)."""
    pairs = ((sentence, simplified(sentence, fold=fold)) for sentence in sentences(text))
    return [
        Candidate(_kind(plain), sentence, _confidence(plain))
        for sentence, plain in pairs
        if _GATE.search(plain) or _REMEMBER.search(plain) or _kind(plain) != "fact"
    ]


def lessons(text: str, *, fold: bool, style: bool = False) -> list[Candidate]:
    """Return the sentences in which a user corrects the agent (RS-20); with ``style``, also the form of its answers."""
    pairs = ((sentence, simplified(sentence, fold=fold)) for sentence in sentences(text))
    return [
        Candidate("lesson", sentence, 0.5 if _QUESTION.search(plain) else 0.8)
        for sentence, plain in pairs
        if _LESSON.search(plain) or (style and _STYLE.search(plain))
    ]


def entities(text: str) -> list[Candidate]:
    """Return the sentences with an e-mail address, a telephone number or an identity number (RS-19)."""
    return [Candidate("entity", part) for part in sentences(text) if _IDENTIFIERS.search(part)]


def failure(results: Sequence[str]) -> Candidate | None:
    """Return a failure if the last results of tools are equal, exactly :data:`REPEATED` times (RS-21)."""
    last = [folded(text) for text in results[-REPEATED - 1 :]]
    if len(last) < REPEATED or not last[-1] or len(set(last[-REPEATED:])) > 1:
        return None
    if len(last) > REPEATED and last[0] == last[-1]:
        return None
    return Candidate("failure", f"The same result {REPEATED} times: {results[-1].strip()[:200]}")


def kept(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Return the candidates of sufficient confidence, without repetitions, at most ``most`` (RS-22)."""
    sure = [candidate for candidate in candidates if candidate.confidence >= MIN_CONFIDENCE]
    return distinct(sure)[:most]


def distinct(items: Iterable[T]) -> list[T]:
    """Return the items, which have a ``text`` each, with different texts, the first of each."""
    by_text: dict[str, T] = {}
    for item in items:
        by_text.setdefault(folded(_text_of(item)), item)
    return list(by_text.values())


def _kind(plain: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.search(plain)), "fact")


def _confidence(plain: str) -> float:
    """Return the confidence of the rules: .9 for a request, .8 for a word of the kind, else .65; .6 for a weak claim.

    A question or a supposition costs .3, so only a request to remember still reaches the minimum.
    """
    if _REMEMBER.search(plain):
        sure = 0.9
    elif _kind(plain) != "fact":
        sure = 0.8
    else:
        sure = 0.6 if _WEAK.search(plain) else 0.65
    return sure - 0.3 * bool(_QUESTION.search(plain) or _DOUBT.search(plain))


Extractions = Mapping[str, tuple[Candidate, ...]]


def read_extractions(path: Path) -> Extractions:
    """Return the candidates of a file by turn.

    A line is ``{"turn": KEY, "candidates": [{"kind": …, "text": …, "confidence": …}]}``; a candidate may also have an
    ``importance``. Raises :class:`UnusableInput`, naming the line.
    """
    if not path.is_file():
        raise UnusableInput(f"lab.extractions: {path}: no such file")
    extractions: dict[str, tuple[Candidate, ...]] = {}
    for number, record in read_json_lines(path):
        at = f"{path}:{number}"
        only_keys(record, ("turn", "candidates"), at)
        turn = field(record, "turn", str, at)
        if turn in extractions:
            raise UnusableInput(f"{at}: turn {turn!r} occurs twice")
        listed = field(record, "candidates", list, at)
        extractions[turn] = tuple(
            _candidate(item, f"{at}: candidate {position}") for position, item in enumerate(listed, 1)
        )
    return extractions


def _candidate(record: Any, at: str) -> Candidate:
    only_keys(expect(record, dict, at), Candidate._fields, at)
    kind, text = field(record, "kind", str, at), field(record, "text", str, at)
    if kind not in KINDS:
        raise UnusableInput(f"{at}: unknown kind {kind!r}; {choices(kind, KINDS)}")
    if not text.strip():
        raise UnusableInput(f"{at}: field 'text' is blank")
    return Candidate(kind, text, _share(record, "confidence", at) or 0.0, _share(record, "importance", at))


def _share(record: dict[str, Any], name: str, at: str) -> float | None:
    value = optional(record, name, object, None, at) if name == "importance" else field(record, name, object, at)
    if value is None and name == "importance":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UnusableInput(f"{at}: field {name!r}: expected a number from 0 to 1, found {value!r:.40}")
    return float(value)
