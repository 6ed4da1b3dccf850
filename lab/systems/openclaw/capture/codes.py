"""Find codes that people dictate: PINs, door codes, combinations, cards, halves of a token (E-79).

Such a code is a few digits, often spaced or written out, so only the name near it tells it from a date or a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.base.utf16 import WHITESPACE

Found = tuple[int, int]
_FLAGS = re.IGNORECASE | re.ASCII
_S = f"[{WHITESPACE}]"
# Four to twelve digits, together, in groups, or one by one; also in Chinese numerals.
_DIGITS = r"(?<![\w.+/-])\d{1,8}(?:[ .–-]\d{1,8}){0,7}(?![\w%/])"
_NUMERALS = "[零〇一二兩两三四五六七八九]{4,12}"
_PLACE = (
    r"(?:gate|door|alarm|arming|disarm(?:ing)?|duress|entry|access|lock|padlock|lock ?box|key ?box|safe|vault|garage"
    r"|building|security|unlock|keypad|panel|sim|voicemail|shed|bike|locker|cabinet|intercom|door ?bell|elevator|lift"
    r"|telephone|phone|card|bank|debit|credit|atm|screen|tablet|laptop|one[ -]time|verification|login|sign-?in|2fa)"
)
_CODE = (
    rf"(?:\b{_PLACE}['’]?s?[ _-]{{1,2}}(?:code|combination|combo|pin)s?\b"
    r"|\b(?:pin(?:[ _-]?code)?|passcode|otp|cvv|cvc)\b"
    rf"|\b(?:code|combination|combo)s?{_S}{{1,2}}(?:of|for|to|on){_S}{{1,2}}(?:the|my|our|her|his|their){_S}{{1,2}}"
    rf"(?:[\w-]{{1,20}}{_S}{{1,2}}){{0,2}}?{_PLACE}\b)"
)
_HAN_CODE = (
    "(?:密碼|密码|驗證碼|验证码|授權碼|授权码|安全碼|安全码|通行碼|通行码|解鎖碼|解锁码|門禁碼|门禁码|開門碼|保全碼|撤防碼"
    "|提款碼|PIN ?碼|卡[^。，,\n]{0,6}末三碼|卡[^。，,\n]{0,6}末三码|背面三碼)"
)
# A number of something, of a time, or of a place is no code.
_NOT_BEFORE = re.compile(
    r"\b(?:in|by|since|until|till|at|before|after|on|per|every|port|year|page|room|version|issue|ticket|line|about"
    r"|than|over|least|most|error|http|within|for|from|between|under)\W{0,3}$|[第每約约過过超滿满近]\W{0,2}$",
    _FLAGS,
)
_NOT_AFTER = re.compile(
    rf"{_S}*(?:days?|hours?|minutes?|mins?|seconds?|secs?|weeks?|months?|years?|times?|users?|people|digits?|characters?"
    r"|chars?|bits?|tokens?|attempts?|years?|doors?|[ap]m\b|[年月日天次個个位碼码字人分秒小時时週周種种組组台筆笔])",
    _FLAGS,
)
_DATE = re.compile(r"(?:19|20)\d\d[ .–-]\d{1,2}[ .–-]\d{1,2}|\d{1,2}[ .–-]\d{1,2}[ .–-](?:19|20)\d\d")
_NAMED = (
    re.compile(rf"{_CODE}[^.!?;\n。；0-9]{{0,40}}?(?P<digits>{_DIGITS})", _FLAGS),
    re.compile(rf"{_HAN_CODE}[^.!?;\n。；0-9]{{0,12}}?(?P<digits>{_DIGITS})", re.ASCII),
    re.compile(
        rf"(?P<digits>{_DIGITS}){_S}{{1,2}}(?:is|opens|unlocks|disarms|works{_S}for){_S}{{1,2}}(?:(?:the|my|our|her|his|their)"
        rf"{_S}{{1,2}})?(?:[\w-]{{1,20}}{_S}{{1,2}}){{0,2}}?(?:{_PLACE}\b|(?:pin|combination|passcode)\b)",
        _FLAGS,
    ),
)
_WRITTEN_OUT = re.compile(
    rf"(?:{_HAN_CODE}|\b(?:OTP|PIN|CVV|CVC)\b)[^。；;！!？?\n]{{0,10}}?{_NUMERALS}", re.IGNORECASE
)
_WORD = "(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple)"
_SPELLED = re.compile(rf"{_CODE}[^.!?;\n0-9]{{0,30}}?\b(?:{_WORD}[ ,-]{{1,3}}){{3,11}}{_WORD}\b", _FLAGS)
# The turns of a dial.
_TURN = rf"(?:left|right|clockwise|anti-?clockwise|L|R){_S}?\d{{1,2}}"
_HAN_TURN = rf"[左右][轉转]?{_S}?\d{{1,2}}"
_TURNS = re.compile(
    rf"\b{_TURN}(?:[ ,;/–-]{{1,3}}(?:then{_S}|and{_S})?{_TURN}){{2,6}}"
    rf"|{_HAN_TURN}(?:[ ，,、]{{0,2}}{_HAN_TURN}){{2,6}}",
    re.IGNORECASE,
)
# A part of a token, named as a part.
_HALF = re.compile(
    rf"(?:前半|後半|后半|前段|後段|后段|上半|下半|\b(?:first|second|other|last){_S}(?:half|part)\b|\bthe{_S}rest(?:{_S}of{_S}(?:it|the{_S}\w+))?\b)"
    rf"[^.!?;\n。；]{{0,10}}?(?:是|為|为|{_S}is|{_S}|[:：=]){_S}{{0,3}}[\"'`「]?(?P<half>[\w+/=.~-]{{8,200}})",
    _FLAGS,
)
_LICENCE = re.compile(r"(?<![\w-])(?:[A-Z]{2,7}-)?[A-Z0-9]{4,7}(?:-[A-Z0-9]{4,7}){3,}(?![\w-])", re.ASCII)
_CARD = re.compile(r"(?<![\w.+/-])[3-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,7}(?![\w/-])", re.ASCII)
_CARD_NUMBER = re.compile(
    rf"(?:卡號|卡号|\bcard{_S}(?:number|no\.?|#))[^\d\n。.]{{0,8}}(?:\d{{4}}[ -]?){{2,}}\d{{0,4}}", _FLAGS
)
_WORDS = re.compile(
    r"(?:\b(?:seed|recovery|mnemonic|backup)[ _-]?(?:phrase|words?)\b|助記詞|助记词)[^\n]{0,30}?"
    r"(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}",
    _FLAGS,
)


def codes(text: str) -> Iterator[Found]:
    """Yield the spans of dictated codes with the names that they are given."""
    for pattern in _NAMED:
        yield from (match.span() for match in pattern.finditer(text) if _is_code(match, text))
    for pattern in (_WRITTEN_OUT, _SPELLED, _TURNS, _CARD_NUMBER, _WORDS):
        yield from (match.span() for match in pattern.finditer(text))
    for match in _HALF.finditer(text):
        if re.search("[A-Za-z]", match["half"]) and re.search("[0-9]", match["half"]):
            yield match.span()
    for match in _LICENCE.finditer(text):
        if sum(_is_mixed(part) for part in match[0].split("-")) >= 2:
            yield match.span()
    yield from (match.span() for match in _CARD.finditer(text) if passes_luhn(match[0]))


def passes_luhn(number: str) -> bool:
    """Return whether the digits of a payment card have a valid check digit (ISO/IEC 7812, annex B)."""
    digits = [int(char) for char in reversed(number) if char.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return 13 <= len(digits) <= 19 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_code(match: re.Match[str], text: str) -> bool:
    digits = match["digits"]
    if not 4 <= sum(char.isdigit() for char in digits) <= 12 or _DATE.fullmatch(digits):
        return False
    start, end = match.span("digits")
    return not (_NOT_BEFORE.search(text, max(0, start - 12), start) or _NOT_AFTER.match(text, end))


def _is_mixed(part: str) -> bool:
    return not part.isalpha() and not part.isdigit()
