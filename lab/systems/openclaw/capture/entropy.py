"""Recognise random strings, such as keys of unknown providers, without a form of their own (E-80).

Identifiers, paths, hashes and encoded words are long as well. What sets a random string apart is that its letters do
not follow each other as in words, and that it changes between upper case, lower case and digits all the time.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from itertools import pairwise

from lab.base.regex import regex

# A string of letters and digits counts from this length on; one of all three kinds, or with signs, earlier.
MIN_LENGTH, MIN_MIXED, MIN_PASSWORD = 20, 16, 12
# Bits per character of Shannon entropy, as a share of what its length allows.
MIN_ENTROPY = 0.62
# Bits per pair of neighbours: below it a string is random. Short strings, strings of one kind, and short parts
# between separators, as of a path, need more.
MAX_LIKENESS, MAX_WITH_SIGNS, MAX_OF_PARTS, MAX_OF_ONE_KIND, PART = -0.1, 0.5, -0.6, -1.0, 16
# A change between letters and digits, and a capital after a small letter, are rarer in words than in random strings.
CHANGE, CAPITAL = -1.5, -0.5
_STRING = regex(rf"[A-Za-z0-9+/_=.~-]{{{MIN_MIXED},}}", re.ASCII)
_PASSWORD = regex(rf"(?<![!-~])[!-~]{{{MIN_PASSWORD},64}}(?![!-~])", re.ASCII)
_DATA = regex(r"\bdata:[^,\s]{1,99},[A-Za-z0-9+/=%]+", re.ASCII)
_URL = regex(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`）」]+|\bwww\.[^\s<>\"'`）」]+", re.IGNORECASE | re.ASCII)
_UUID = regex(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE | re.ASCII)
# A digest by its name, or what "commit" and the like name.
_DIGEST = regex(
    r"\bsha(?:1|224|256|384|512)?[-:.][A-Za-z0-9+/]{7,90}={0,2}"
    r"|\b(?:commit|revision|rev|checksum|digest|md5|build|patch)[\s:=#@`'\"(]{1,3}[0-9a-f]{7,64}\b",
    re.IGNORECASE | re.ASCII,
)
# The end of the name of a file.
_EXTENSION = regex(r"[A-Za-z0-9]\.[a-z]{2,5}[0-9]?$", re.ASCII)
_HEX = regex(r"[0-9a-f]+|[0-9A-F]+", re.ASCII)
# Lengths of the identifiers and digests that people write down: object ids, MD5, SHA-1, and SHA-2.
_DIGESTS = frozenset({24, 32, 40, 56, 64, 96, 128})
_SEPARATORS = regex("[/._=+~-]")
_BASE64 = regex(r"[A-Za-z0-9]+(?:[+/][A-Za-z0-9]*)+", re.ASCII)
_KINDS = (regex("[a-z]"), regex("[A-Z]"), regex("[0-9]"))
_SIGN = regex("[!@#$%^&*?~|]")
# How much likelier a letter (column, a to z) follows another (row) in words than in random strings: 6 is as likely,
# each step is a factor of 2. Counted over the distinct words of this project's pages and code.
_FOLLOWS = (
    "06760461614868060878554450",
    "85438431750842830774701150",
    "80518028617610920648601040",
    "74469250820532730674630040",
    "72785541410668364886254630",
    "71238820902724800756700030",
    "73309357700547610875711033",
    "93239100800441820657601140",
    "55766560213669750677060404",
    "72229222626222822272922222",
    "65349330803537430382505030",
    "83269411803731830266641060",
    "86039020803464780163500010",
    "62777580635435740378550042",
    "45663551425778661866766302",
    "82138215600821771867601050",
    "62252222422622222652922242",
    "83569351705465731676543060",
    "60638317705533663279725040",
    "72539207800521730776504161",
    "66667550600778470877220001",
    "80009230800232510010202020",
    "82038008800507812772002200",
    "74848312811641381159141251",
    "66617311611766781187416153",
    "72229225722422722262222226",
)
_NEUTRAL = 6


def random_strings(text: str) -> list[tuple[int, int]]:
    """Return the spans of random strings, outside of addresses, UUIDs and digests."""
    masked = text
    for pattern in (_DATA, _URL, _UUID, _DIGEST):
        masked = pattern.sub(lambda match: " " * len(match[0]), masked)
    spans = [match.span() for match in _STRING.finditer(masked) if is_random(match[0])]
    return spans + [match.span() for match in _PASSWORD.finditer(masked) if is_password(match[0])]


def is_random(token: str) -> bool:
    """Return whether a string of letters, digits and ``+/_=.~-`` is random."""
    bare = token.strip("=.~_-/+")
    digits = bare[2:] if bare[:2].lower() == "0x" else bare
    if _HEX.fullmatch(digits):
        return _is_random_hex(digits)
    kinds = sum(kind.search(bare) is not None for kind in _KINDS)
    parts = _SEPARATORS.split(bare)
    if max(map(len, parts)) < PART and _EXTENSION.search(bare):
        return False
    if len(bare) < MIN_LENGTH and (len(bare) < MIN_MIXED or len(parts) > 1):
        return False
    if bare.isdigit() or entropy(bare) < MIN_ENTROPY * math.log2(min(len(bare), 62)):
        return False
    if kinds == 1:
        limit = MAX_OF_ONE_KIND
    elif len(bare) < MIN_LENGTH:
        limit = MAX_OF_PARTS if kinds == 3 else MAX_OF_ONE_KIND
    else:
        in_parts = len(parts) > 2 and max(map(len, parts)) < PART and not (kinds == 3 and _is_base64(bare))
        limit = MAX_OF_PARTS if in_parts else MAX_LIKENESS
    return likeness(bare) < limit and not _is_readable(token)


def is_password(token: str) -> bool:
    """Return whether a string has all kinds of characters and signs, as generated passwords do, and is random."""
    bare = token.strip("\"'`()[]{}<>,.;:?")
    signs, kinds = len(set(_SIGN.findall(bare))), sum(kind.search(bare) is not None for kind in _KINDS)
    if len(bare) < MIN_PASSWORD or not signs or kinds < 2 or (len(bare) < MIN_MIXED and kinds + signs < 4):
        return False
    if re.search(r"[\\/(){}\[\]<>;,\"'`:]", bare):
        return False
    code = re.search(r"&&|\|\||[=!+*-]=", bare) is not None
    return likeness(bare) < (MAX_WITH_SIGNS if signs > 1 and not code else MAX_LIKENESS)


def entropy(text: str) -> float:
    """Return the Shannon entropy of the characters in bits per character."""
    length = len(text)
    return -sum(count / length * math.log2(count / length) for count in Counter(text).values())


def decoded(token: str) -> str | None:
    """Return the readable text that a string encodes in base64, if any."""
    bare = token.rstrip("=")
    if len(bare) < 12 or not re.fullmatch(r"[A-Za-z0-9+/_-]+", bare, re.ASCII):
        return None
    try:
        text = base64.b64decode(bare.replace("-", "+").replace("_", "/") + "=" * (-len(bare) % 4)).decode()
    except ValueError:
        return None
    return text if text.isprintable() or all(char.isprintable() or char in "\t\r\n" for char in text) else None


def _is_readable(token: str) -> bool:
    text = decoded(token)
    return text is not None and sum(map(str.isalnum, text)) + text.count(" ") >= 0.8 * len(text)


def _is_base64(text: str) -> bool:
    """Return whether slashes and plus signs may be digits of base64: a path has dots, dashes, or words in one case."""
    if not _BASE64.fullmatch(text):
        return False
    return sum(_in_one_case(part) for part in re.split("[/+]", text) if len(part) > 2) <= len(text) // 20


def _in_one_case(part: str) -> bool:
    """Return whether a part is a word or a number as paths have them, such as ``src``, ``Lib`` or ``2024``."""
    letters = part.strip("0123456789")
    return letters in (letters.lower(), letters.upper(), letters.title())


def _is_random_hex(text: str) -> bool:
    """Return whether hexadecimal digits are no digest by their length; without letters they are a number."""
    return MIN_LENGTH <= len(text) < 256 and len(text) not in _DIGESTS and re.search("[a-fA-F]", text) is not None


def likeness(text: str) -> float:
    """Return how likely the neighbours in a string are in words, against random ones: bits per pair of neighbours."""
    bits = pairs = 0.0
    for left, right in pairwise(text):
        if not (left.isalnum() and right.isalnum()):
            continue
        pairs += 1
        if left.isdigit() or right.isdigit():
            bits += 0.5 if left.isdigit() and right.isdigit() else CHANGE
        elif left.islower() and right.isupper():
            bits += CAPITAL
        else:
            bits += int(_FOLLOWS[ord(left.lower()) - 97][ord(right.lower()) - 97]) - _NEUTRAL
    return bits / pairs if pairs else 0.0
