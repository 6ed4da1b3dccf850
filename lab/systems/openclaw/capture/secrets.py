"""Find secrets in a text (E-35, E-79), and replace them (E-39).

:func:`looks_secret` and :func:`redact` know what the public plugin knows: keys, tokens and passwords by their form.
:func:`holds_secret` and :func:`redact_all` find more: other providers, names that a secret is given, Chinese, split
lines, codes that people dictate, and random strings (:mod:`lab.systems.openclaw.capture.entropy`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.capture.entropy import decoded, random_strings

_SPACE = f"[{WHITESPACE}]"
_PRIVATE_TAG = regex(r"\[(?:SECRET|PRIVATE|NOEXPORT|NOMEM)\]", re.IGNORECASE | re.ASCII)
_KEY = rf"(?:RSA|EC|DSA|OPENSSH|PGP)?{_SPACE}*PRIVATE KEY"
_FLAGS = re.IGNORECASE | re.ASCII
# The families of the plugin (E-35).
_FAMILIES = (
    regex(rf"-----BEGIN {_KEY}-----", _FLAGS),
    regex(
        r"\b(?:api[_-]?key|(?:access|refresh)[_-]?token|password|passwd|pwd|secret)\b"
        rf"{_SPACE}*[:=]{_SPACE}*[^{WHITESPACE}]",
        _FLAGS,
    ),
    regex(
        r"\b(?:sk-[A-Za-z0-9]{20,}|sk-proj-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}"
        r"|github_pat_[A-Za-z0-9_]{20,}|xox[baprs]-[A-Za-z0-9-]{10,})\b",
        re.ASCII,
    ),
    regex(
        rf"\b(?:aws[_-]?secret[_-]?access[_-]?key\b{_SPACE}*[:=]{_SPACE}*[A-Za-z0-9/+=]{{20,}}"
        rf"|authorization:{_SPACE}*bearer{_SPACE}+[A-Za-z0-9._=-]{{16,}})\b",
        _FLAGS,
    ),
    regex(rf"\bBearer{_SPACE}+[A-Za-z0-9._=-]{{24,}}\b", re.ASCII),
)
# Forms of the same families that the plugin does not know: blocks, quotes, and tokens with more behind them.
_LOOSER = (
    regex("-----BEGIN PGP PRIVATE KEY BLOCK-----", _FLAGS),
    regex(
        r"\b(?:sk-(?:[A-Za-z0-9]{20}|proj-[A-Za-z0-9_-]{16})|gh[pousr]_[A-Za-z0-9]{20}|github_pat_[A-Za-z0-9_]{20}"
        r"|xox[baprs]-[A-Za-z0-9-]{10})",
        re.ASCII,
    ),
    regex(
        rf"\b(?:aws[_-]?secret[_-]?access[_-]?key\b{_SPACE}*[:=]{_SPACE}*[\"']?[A-Za-z0-9/+=]{{20}}"
        rf"|authorization{_SPACE}*:{_SPACE}*bearer{_SPACE}+[A-Za-z0-9._~+/=-]{{16}})",
        _FLAGS,
    ),
    regex(rf"\bBearer{_SPACE}+[A-Za-z0-9._~+/=-]{{24}}", re.ASCII),
)


def looks_secret_to_plugin(text: str) -> bool:
    """Return whether the plugin takes a text for a key, a token or an assigned password."""
    return any(pattern.search(text) for pattern in _FAMILIES)


def looks_secret(text: str) -> bool:
    """Return whether a text contains a key, a token or an assigned password."""
    return any(pattern.search(text) for pattern in (*_FAMILIES, *_LOOSER))


def is_tagged_private(text: str) -> bool:
    """Return whether the author tagged a text as ``[SECRET]``, ``[PRIVATE]``, ``[NOEXPORT]`` or ``[NOMEM]``."""
    return _PRIVATE_TAG.search(text) is not None


Found = tuple[int, int]
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
_NOT_BEFORE = regex(
    r"\b(?:in|by|since|until|till|at|before|after|on|per|every|port|year|page|room|version|issue|ticket|line|about"
    r"|than|over|least|most|error|http|within|for|from|between|under)\W{0,3}$|[第每約约過过超滿满近]\W{0,2}$",
    _FLAGS,
)
_NOT_AFTER = regex(
    rf"{_S}*(?:days?|hours?|minutes?|mins?|seconds?|secs?|weeks?|months?|years?|times?|users?|people|digits?|characters?"
    r"|chars?|bits?|tokens?|attempts?|years?|doors?|[ap]m\b|[年月日天次個个位碼码字人分秒小時时週周種种組组台筆笔])",
    _FLAGS,
)
_DATE = regex(r"(?:19|20)\d\d[ .–-]\d{1,2}[ .–-]\d{1,2}|\d{1,2}[ .–-]\d{1,2}[ .–-](?:19|20)\d\d")
_NAMED = (
    regex(rf"{_CODE}[^.!?;\n。；0-9]{{0,40}}?(?P<digits>{_DIGITS})", _FLAGS),
    regex(rf"{_HAN_CODE}[^.!?;\n。；0-9]{{0,12}}?(?P<digits>{_DIGITS})", re.ASCII),
    regex(
        rf"(?P<digits>{_DIGITS}){_S}{{1,2}}(?:is|opens|unlocks|disarms|works{_S}for){_S}{{1,2}}(?:(?:the|my|our|her|his|their)"
        rf"{_S}{{1,2}})?(?:[\w-]{{1,20}}{_S}{{1,2}}){{0,2}}?(?:{_PLACE}\b|(?:pin|combination|passcode)\b)",
        _FLAGS,
    ),
)
_WRITTEN_OUT = regex(rf"(?:{_HAN_CODE}|\b(?:OTP|PIN|CVV|CVC)\b)[^。；;！!？?\n]{{0,10}}?{_NUMERALS}", re.IGNORECASE)
_NUMBER_WORD = "(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple)"
_SPELLED = regex(rf"{_CODE}[^.!?;\n0-9]{{0,30}}?\b(?:{_NUMBER_WORD}[ ,-]{{1,3}}){{3,11}}{_NUMBER_WORD}\b", _FLAGS)
# The turns of a dial.
_TURN = rf"(?:left|right|clockwise|anti-?clockwise|L|R){_S}?\d{{1,2}}"
_HAN_TURN = rf"[左右][轉转]?{_S}?\d{{1,2}}"
_TURNS = regex(
    rf"\b{_TURN}(?:[ ,;/–-]{{1,3}}(?:then{_S}|and{_S})?{_TURN}){{2,6}}"
    rf"|{_HAN_TURN}(?:[ ，,、]{{0,2}}{_HAN_TURN}){{2,6}}",
    re.IGNORECASE,
)
# A part of a token, named as a part.
_HALF = regex(
    rf"(?:前半|後半|后半|前段|後段|后段|上半|下半|\b(?:first|second|other|last){_S}(?:half|part)\b|\bthe{_S}rest(?:{_S}of{_S}(?:it|the{_S}\w+))?\b)"
    rf"[^.!?;\n。；]{{0,10}}?(?:是|為|为|{_S}is|{_S}|[:：=]){_S}{{0,3}}[\"'`「]?(?P<half>[\w+/=.~-]{{8,200}})",
    _FLAGS,
)
_LICENCE = regex(r"(?<![\w-])(?:[A-Z]{2,7}-)?[A-Z0-9]{4,7}(?:-[A-Z0-9]{4,7}){3,}(?![\w-])", re.ASCII)
_CARD = regex(r"(?<![\w.+/-])[3-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,7}(?![\w/-])", re.ASCII)
_CARD_NUMBER = regex(
    rf"(?:卡號|卡号|\bcard{_S}(?:number|no\.?|#))[^\d\n。.]{{0,8}}(?:\d{{4}}[ -]?){{2,}}\d{{0,4}}", _FLAGS
)
_WORDS = regex(
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
        if sum(_has_letters_and_digits(part) for part in match[0].split("-")) >= 2:
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


def _has_letters_and_digits(part: str) -> bool:
    return not part.isalpha() and not part.isdigit()


_Q = "[\"'`「『“‘]"
# Tokens by the form of their provider.
_PROVIDERS = regex(
    r"(?<![A-Za-z0-9_])(?:"
    r"sk-(?:ant|proj|svcacct|admin|or|lf)-[A-Za-z0-9_-]{16,}|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}|1//0[A-Za-z0-9_-]{20,}"
    r"|(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[0-9A-Z]{16}|gl(?:pat|dt|rt|ptt|ft|soat|cbt|imt|agent|oas)-[A-Za-z0-9_-]{16,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|(?:dop|doo|dor)_v1_[a-f0-9]{32,}"
    r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{20,}|SG\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|(?:SK|AC)[a-f0-9]{32}"
    r"|xapp-[0-9]-[A-Za-z0-9-]{10,}|xox[a-z]-[A-Za-z0-9-]{10,}|key-[a-f0-9]{32}|[a-f0-9]{32}-us[0-9]{1,2}"
    r"|[0-9]{8,12}:[A-Za-z0-9_-]{30,}|[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,}"
    r"|lin_api_[A-Za-z0-9]{20,}|(?:secret|ntn)_[A-Za-z0-9]{30,}|PMAK-[A-Za-z0-9-]{20,}|dapi[a-f0-9]{32}|sq0[a-z]{3}-[\w-]{20,}"
    r"|EAA[A-Za-z0-9]{40,}|AGE-SECRET-KEY-1[0-9A-Z]{50,}|rubygems_[a-f0-9]{40,}|tvly-[A-Za-z0-9-]{16,}|gsk_[A-Za-z0-9]{20,}"
    r"|r8_[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|vercel_[A-Za-z0-9]{20,}|sntrys_[\w=+/-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*"
    r")",
    re.ASCII,
)
_KEY_BLOCK = regex(
    r"-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----(?:(?:(?!-----BEGIN).)*?-----END [A-Z ]*-----|[A-Za-z0-9+/=\s]*)"
    r"|-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|PuTTY-User-Key-File-[23]:",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_PLACEHOLDER = (
    r"(?!\$|<|\{|%[A-Z]|\*{3}|\.{3}|process\.env|os\.(?:environ|getenv)|env\(|getenv|x{4}|null\b|none\b|undefined\b)"
)
# All repetitions are bounded, so that the time to search a text grows with its length only.
_WORD = f"[^{WHITESPACE}\"'`「」『』”’]"
# Addresses that carry a password or a token.
_IN_ADDRESS = (
    regex(
        rf"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{{1,20}}://[^{WHITESPACE}/:@]{{0,200}}:{_PLACEHOLDER}[^{WHITESPACE}/@]{{1,200}}@",
        _FLAGS,
    ),
    regex(
        r"[?&](?:[a-z_-]{0,30}token|api[_-]?key|key|sig|signature|x-amz-signature|secret|password|passwd|pwd|auth)="
        rf"{_PLACEHOLDER}[^{WHITESPACE}&#]{{6,}}",
        _FLAGS,
    ),
    regex(r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}", _FLAGS),
    regex(r"discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{20,}", _FLAGS),
)
_NAME = (
    r"(?:pass[ _-]?(?:word|wd|phrase|code|key)|pwd|pw|secret(?:[ _-]?(?:access[ _-]?)?(?:key|token))?"
    r"|(?:api|app|auth|access|account|private|signing|encryption|master|license|shared|storage|deploy|service|session"
    r"|client|refresh|bearer|bot|user|admin|webhook|id|sas|hmac|hash|aes|cipher|crypto|decryption|wpa2?|wi-?fi|network"
    r"|activation|product)[ _-]?(?:key|token|secret)|(?:hash|aes)[ _-]?iv|credentials?|cred|token"
    r"|memorable (?:word|place)"
    r"|connection[ _-]?string|otp|totp[ _-]?(?:seed|secret)|2fa[ _-]?code|pin(?:[ _-]?code)?|seed[ _-]?phrase"
    r"|recovery[ _-]?code|cvv)"
)
_HAN = (
    "(?:密碼|密码|口令|通行碼|通行码|暗號|暗号|金鑰|密鑰|密钥|私鑰|私钥|權杖|令牌|驗證碼|验证码|授權碼|授权码|助記詞|助记词"
    "|恢復碼|恢复码|憑證碼|存取碼|識別碼|PIN ?碼|帳密|账密|通關語|通关语|通關密語)"
)
# Names of something about a secret, such as where it is.
_ABOUT = r"(?![_.-]?(?:file|path|dir|url|name|hash|policy|length|ttl|expiry|field|column|type|version|count|limit)s?\b)"
# An assignment in code, configuration or a sentence: the name may be part of a longer one, and quoted.
_ASSIGNED = regex(
    rf"(?:(?<![A-Za-z])|(?-i:(?<=[a-z])(?=[A-Z]))){_NAME}s?{_ABOUT}(?:[_.-][A-Za-z0-9]{{1,40}}){{0,3}}[\"'`\]）)」』*]{{0,4}}"
    rf"{_S}{{0,20}}(?::=|=>|->|==|[:=：＝])[>:=]?{_S}{{0,20}}{_Q}{{0,3}}{_PLACEHOLDER}(?P<value>[^{WHITESPACE}\"'`」』,;，；。]+)",
    _FLAGS,
)
_COPULA = (
    "(?:is|was|are|be|becomes?|equals|reads|remains?|stays?|will be|should be|must be|to|as|into)"
    rf"(?:{_S}+(?:now|still|always|be|simply|just|currently|set to|called))?"
)
_SENTENCE = regex(
    rf"\b{_NAME}s?\b[\"'`*]{{0,3}}(?:{_S}{{1,3}}(?:for|of|to|on|in|at|from)(?:{_S}{{1,3}}[\w.@/-]{{1,40}}){{1,4}}?)?"
    rf"{_S}{{1,3}}{_COPULA}{_S}{{1,3}}(?P<quote>{_Q}?)(?P<value>{_WORD}{{1,200}})",
    _FLAGS,
)
_NEXT_TO = regex(
    rf"\b{_NAME}\b[\"'`*]{{0,3}}{_S}{{1,3}}(?P<quote>{_Q}?)(?P<value>{_WORD}{{1,200}})"
    rf"|{_HAN}(?:[（(][^（）()\n]{{1,12}}[）)])?{_S}{{0,3}}(?P<han>[!-~]{{4,200}})",
    _FLAGS,
)
_BEFORE_NAME = regex(
    rf"(?<!{_WORD})(?P<value>{_WORD}{{4,200}})[\"'`」』]?{_S}{{1,3}}(?:as|is|was|for|becomes){_S}{{1,3}}"
    rf"(?:the|my|our|your|his|her|their|a|new|an){_S}{{1,3}}(?:[\w-]{{1,40}}{_S}{{1,3}}){{0,2}}?{_NAME}\b",
    _FLAGS,
)
_FLAG = regex(
    rf"(?:--[a-z-]{{0,30}}(?:password|passwd|token|secret|api-?key|access-?key)(?:=|{_S}{{1,3}})|\bsshpass{_S}+-p{_S}*"
    rf"|\b(?:curl|wget|http)\b[^\n]{{0,200}}?{_S}(?:-u|--user){_S}+[^{WHITESPACE}:]{{1,100}}:"
    rf"|\bmysql\b[^\n]{{0,200}}?{_S}-p|\bidentified by{_S}+){_Q}?{_PLACEHOLDER}(?P<value>[^{WHITESPACE}\"'`]{{3,}})",
    _FLAGS,
)
_BASIC = regex(
    rf"\bauthorization[\"']?{_S}*[:=]{_S}*[\"']?(?:basic|token|digest|apikey|bearer){_S}+[A-Za-z0-9._~+/=-]{{8,}}",
    _FLAGS,
)
_BARE_BASIC = regex(rf"\bBasic{_S}+(?P<value>[A-Za-z0-9+/]{{12,}}={{0,2}})", re.ASCII)
_HAN_ASSIGNED = regex(
    rf"{_HAN}[^。！？!?\n:=：＝]{{0,12}}?{_S}{{0,3}}(?:[:：=＝]|->|→){_S}{{0,20}}(?P<value>[^{WHITESPACE}，。；、]+)",
    re.IGNORECASE,
)
_HAN_SENTENCE = regex(
    rf"(?:{_HAN}|\b{_NAME})[^。！？!?\n]{{0,14}}?(?:是|為|为|叫做|叫|設為|设为|設成|设成|設定為|改為|改为|改成|換成|换成|用|填|輸入|输入"
    rf"|就|給你|给你){_S}{{0,3}}(?:(?P<quote>{_Q})(?P<quoted>[^「」『』\"'`”’\n]{{2,64}})[」』\"'`”’]|(?P<value>[!-~]{{4,200}}))",
    _FLAGS,
)
# Something of the person or thing that a password belongs to, such as the order of the customer who lost it.
_OTHER_THING = regex(
    "那位|這位|这位|的人|訂單|订单|單號|单号|編號|编号|案號|型號|序號|頁面|页面|網址|欄位|字段|長度|长度|規則|规则"
)
# A password of Chinese and other characters.
_HAN_MIXED = regex(
    rf"{_HAN}[^。！？!?\n]{{0,8}}?[{WHITESPACE}:：=「『]{{1,3}}(?P<value>(?=[^{WHITESPACE}]{{0,40}}[A-Za-z])[!-~]{{1,40}}"
    rf"[一-鿿]{{1,20}}[!-~]{{0,40}}[0-9!@#$%^&*~])(?![^{WHITESPACE}。，、；」』])"
)
_HAN_SHORT = regex(rf"(?<![一-鿿])密[:：]{_S}{{0,3}}(?P<value>[!-~]{{4,200}})")
_LOGIN = regex(
    rf"\b(?:log(?:ged|ging)?{_S}?(?:in|on)|sign(?:ed|ing)?{_S}?(?:in|on)|login|unlocks?|authenticate|connect)\b[^.!?;\n]{{0,60}}?"
    rf"{_S}(?:with|using){_S}(?:the{_S}|my{_S}|our{_S})?{_Q}?(?P<value>{_WORD}{{8,200}})|登入[^。！？!?\n]{{0,12}}?用{_S}?(?P<han>[!-~]{{8,200}})",
    _FLAGS,
)
_PASS = regex(rf"(?:^|[_,/{WHITESPACE}-])pass{_S}{{0,2}}[:=]{_S}{{0,3}}(?P<value>[^{WHITESPACE},;]{{4,200}})", _FLAGS)
_HAN_BEFORE = regex(
    rf"(?<![!-~])(?P<value>[!-~]{{4,200}}){_S}{{0,3}}(?:是|當作|当作|作為|作为|當|当|設為|做為)"
    rf"{_S}{{0,3}}[^。！？!?\n]{{0,10}}?{_HAN}"
)
_JOIN = regex(
    r"(?P<left>[A-Za-z0-9+/_=.~:-])[\"'`]?[ \t]{0,20}(?:\\|\+|\.)?[ \t]{0,20}\r?\n"
    r"[ \t>*+]{0,40}[\"'`]?(?=[A-Za-z0-9+/_=.~-])"
)
_TRAILING = ".,;:!?)]}>\"'`。，；：！？）」』…"
# What follows "the password is" in sentences that tell no password.
_PLAIN = regex(
    r"v?[0-9]+(?:\.[0-9]+)*[a-z]{0,2}|[0-9]+-(?:char|digit|day|bit|hour|minute|word|letter)[a-z]*"
    r"|(?:md5|sha|bcrypt|argon|base|aes|rsa|oauth|utf|http|ipv|oidc|saml|jwt|pbkdf|hs|rs|es|ed|x)-?[0-9]{1,4}(?:-[a-z0-9]{1,5}|[a-z]{1,3})?"
    r"|1password|k8s|s3|ec2|i18n",
    _FLAGS,
)
_CODE_NAME = regex(r"\b(?:pin|otp|passcode|cvv|code)\b|碼|码", re.IGNORECASE)


def holds_secret(text: str) -> bool:
    """Return whether a text contains a secret, or is tagged as private by its author."""
    return is_tagged_private(text) or next(_found(text), None) is not None


def secret_spans(text: str) -> list[Found]:
    """Return where the secrets of a text are, with the names that they are assigned to; spans may overlap."""
    return sorted(set(_found(text)))


def redact_all(text: str, marker: str = "[REDACTED]") -> str:
    """Return a text with every secret replaced by a marker, with the name that it is assigned to."""
    parts: list[str] = []
    position = 0
    for start, end in secret_spans(text):
        if end <= position:
            continue
        if start >= position:
            parts += [text[position:start], marker]
        position = end
    return "".join(parts) + text[position:]


def _found(text: str) -> Iterator[Found]:
    yield from _in(text)
    joined, places = _joined(text)
    if places is not None:
        for start, end in _in(joined):
            yield places[start], places[end - 1] + 1


def _in(text: str) -> Iterator[Found]:
    yield from (match.span() for pattern in _FAMILIES for match in pattern.finditer(text))
    for pattern in (_PROVIDERS, _KEY_BLOCK, *_IN_ADDRESS, _FLAG, _BASIC):
        yield from (match.span() for match in pattern.finditer(text))
    yield from (match.span() for match in _ASSIGNED.finditer(text) if _is_assigned(match))
    yield from (match.span() for match in _SENTENCE.finditer(text) if _is_stated(match))
    for match in _NEXT_TO.finditer(text):
        if match["quote"] or _is_credential(match["value"] or match["han"], match[0]):
            yield match.span()
    yield from (match.span() for match in _BEFORE_NAME.finditer(text) if _is_credential(match["value"], match[0]))
    yield from (match.span() for match in _HAN_ASSIGNED.finditer(text))
    for match in _HAN_SENTENCE.finditer(text):
        if _is_stated(match) and not _OTHER_THING.search(text, match.start(), match.start(match.lastgroup or 0)):
            yield match.span()
    yield from (match.span() for match in _HAN_MIXED.finditer(text))
    for pattern in (_HAN_SHORT, _LOGIN, _PASS):
        for match in pattern.finditer(text):
            if _is_mixed(match.groupdict().get("han") or match["value"]):
                yield match.span()
    yield from codes(text)
    yield from (match.span() for match in _HAN_BEFORE.finditer(text) if _is_credential(match["value"], match[0]))
    yield from random_strings(text)
    for match in _BARE_BASIC.finditer(text):
        if ":" in (decoded(match["value"]) or ""):
            yield match.span()


def _joined(text: str) -> tuple[str, list[int] | None]:
    """Return a text with strings that a line break splits put together, and the original place of each character.

    None if there is nothing to join.
    """
    parts: list[str] = []
    places: list[int] = []
    position = 0
    for match in _JOIN.finditer(text):
        stop = match.end("left")
        parts.append(text[position:stop])
        places += range(position, stop)
        position = match.end()
    if not parts:
        return text, None
    places += range(position, len(text))
    return "".join(parts) + text[position:], places


def _is_assigned(match: re.Match[str]) -> bool:
    """Return whether what is assigned may be a secret: a plain word or number after a weak name is none."""
    value = match["value"].strip(_TRAILING)
    strong = re.search(r"pass(?:word|wd|phrase|code)|pwd|secret|(?:api|private|access)[ _-]?key", match[0], _FLAGS)
    return bool(value) if strong else _is_credential(value, match[0])


def _is_stated(match: re.Match[str]) -> bool:
    groups = match.groupdict()
    if groups.get("quoted") or groups.get("quote"):
        return True
    return _is_credential(groups["value"] or "", match[0])


def _is_mixed(raw: str) -> bool:
    """Return whether a word has letters and digits, and is no name of a version, a protocol or a product."""
    value = raw.strip(_TRAILING)
    has_both = re.search("[A-Za-z]", value) and re.search("[0-9]", value)
    return bool(has_both) and "://" not in value and not _PLAIN.fullmatch(value)


def _is_credential(raw: str, sentence: str) -> bool:
    """Return whether a word of a sentence is a password or a code, and no word of the language."""
    value = raw.strip(_TRAILING + "*")
    if len(value) < 4 or _PLAIN.fullmatch(value):
        return value.isdigit() and len(value) >= 3 and _CODE_NAME.search(sentence) is not None
    letters, digits = re.search("[A-Za-z]", value), re.search("[0-9]", value)
    if letters and digits:
        return "://" not in value
    if not letters:
        return bool(digits) and (value.isdigit() or len(value) >= 6) and "/" not in value
    if re.search("[!@#$%^&*?~|]", value):
        return True
    return re.search("[a-z][A-Z]", value) is not None and "." not in value


# Applied in this order. Without a flag the pattern is case-sensitive, as in the plugin.
_REPLACEMENTS = (
    (regex(r"\bsk-[A-Za-z0-9]{16,}\b", re.ASCII), "sk-[REDACTED]"),
    (regex(r"\bsk-proj-[A-Za-z0-9_-]{16,}\b", re.ASCII), "sk-proj-[REDACTED]"),
    (regex(rf"\bBearer{_SPACE}+[A-Za-z0-9._=-]{{8,}}\b", re.ASCII), "Bearer [REDACTED]"),
    (
        regex(rf"\bAuthorization:{_SPACE}*Bearer{_SPACE}+[A-Za-z0-9._=-]{{8,}}\b", re.IGNORECASE | re.ASCII),
        "Authorization: Bearer [REDACTED]",
    ),
    (
        regex(
            rf"\baws[_-]?secret[_-]?access[_-]?key\b{_SPACE}*[:=]{_SPACE}*[A-Za-z0-9/+=]{{20,}}\b",
            re.IGNORECASE | re.ASCII,
        ),
        "aws_secret_access_key=[REDACTED]",
    ),
    (regex(r"\b[0-9]{8,12}:[A-Za-z0-9_-]{20,}\b", re.ASCII), "[TELEGRAM_BOT_TOKEN_REDACTED]"),
    (
        regex(
            rf"-----BEGIN {_KEY}-----.*?-----END {_KEY}-----",
            re.IGNORECASE | re.ASCII | re.DOTALL,
        ),
        "[PRIVATE_KEY_REDACTED]",
    ),
    (regex(r"\bAKIA[0-9A-Z]{16}\b", re.ASCII), "[AWS_ACCESS_KEY_REDACTED]"),
    (regex(r"\bgh[pousr]_[A-Za-z0-9]{20,}\b", re.ASCII), "[GITHUB_TOKEN_REDACTED]"),
    (regex(r"\bgithub_pat_[A-Za-z0-9_]{20,}\b", re.ASCII), "[GITHUB_TOKEN_REDACTED]"),
    (regex(r"\bxox[baprs]-[A-Za-z0-9-]{10,}\b", re.ASCII), "[SLACK_TOKEN_REDACTED]"),
)


def redact(text: str) -> str:
    """Return a text with known forms of keys and tokens replaced by a marker of the kind."""
    for pattern, marker in _REPLACEMENTS:
        text = pattern.sub(marker, text)
    return text
