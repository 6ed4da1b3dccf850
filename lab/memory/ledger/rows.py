"""Turn a captured observation into the row of a ledger (LD-3), and name its kind and language where it has none."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from lab.base.errors import UnusableInput

# The fields that have a column; all others become part of the detail.
FIELDS = frozenset(
    ("ts", "kind", "summary", "summary_en", "text_en", "lang", "tool_name", "tool", "detail", "detail_json")
)
# Kinds that capture gives to everything; the sidecar replaces them.
OF_CAPTURE = ("note", "tool")
Row = tuple[str, str | None, str | None, str | None, str | None, str | None]

_HAN = re.compile("[\u3400-\u9fff]")
_WORD = re.compile("[A-Za-z]")
_STORE = ("memory_store", "memory.store")
_FLAGS = re.IGNORECASE
_PROBLEM = re.compile(r"\b(?:errors?|failed|failure|bug|broken|issue|problem)\b|錯誤|報錯|报错|失敗|故障|問題", _FLAGS)
_SOLUTION = re.compile(
    r"\b(?:fix(?:ed)?|solution|resolved?|workaround|repair(?:ed)?)\b|解法|修正|修復|解決|解决|繞過|绕过", _FLAGS
)
# In the order in which they are tried, each with its confidence.
_KINDS = (
    ("decision", 0.95, re.compile(r"\b(?:decided|decision|we choo?se|chosen)\b|決定|决定|決議|决议|採用|采用", _FLAGS)),
    (
        "preference",
        0.95,
        re.compile(r"\b(?:prefer(?:red|s)?|preference|always use|i like)\b|偏好|總是使用|总是使用|喜歡|喜欢", _FLAGS),
    ),
    (
        "plan",
        0.90,
        re.compile(
            r"\b(?:(?:plan|planned|planning) to|intend to|will|todo)\b|計畫|计划|打算|預計|预计|將會|将会|待辦|待办",
            _FLAGS,
        ),
    ),
)


def language(text: str | None) -> str:
    """Return ``zh``, ``mixed`` or ``en`` by the share of Chinese among a text's Chinese and ASCII characters."""
    text = text or ""
    han = len(_HAN.findall(text))
    if not han:
        return "en"
    share = han / (han + sum(sign.isascii() and sign.isalnum() for sign in text))
    return "zh" if share > 0.7 else "mixed" if share > 0.3 and _WORD.search(text) else "en"


def kind_of(text: str | None, tool: str | None) -> tuple[str, float, str]:
    """Return the kind of a text, how certain the rule is, and the rule's name, as the sidecar does (LD-3)."""
    text = unicodedata.normalize("NFKC", text or "")
    if _PROBLEM.search(text) and _SOLUTION.search(text):
        return "learning", 0.95, "rule:problem-solution"
    for kind, confidence, pattern in _KINDS:
        if pattern.search(text):
            return kind, confidence, f"rule:{kind}"
    stored = unicodedata.normalize("NFKC", tool or "").strip().lower() in _STORE
    return "note", 0.25, "fallback:memory-store" if stored else "fallback:note"


def detail_of(observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detail of an observation: what it gives as such, and every field without a column."""
    given = observation.get("detail")
    if given is None:
        given = observation.get("detail_json") or {}
    if isinstance(given, str):
        try:
            value = json.loads(given)
        except (ValueError, RecursionError):
            value = None
        detail = value if isinstance(value, dict) else {"_raw_detail": given}
    else:
        detail = dict(given) if isinstance(given, dict) else {"_detail": given}
    detail.update((key, value) for key, value in observation.items() if key not in FIELDS)
    return detail


def row_of(observation: Mapping[str, Any], detail: dict[str, Any], now: str, *, upstream: bool) -> Row:
    """Return ``ts, kind, summary, summary_en, lang, tool_name``; a missing time becomes ``now``.

    A blank language and kind are filled. With ``upstream`` the kinds ``note`` and ``tool`` are replaced as well, as the
    sidecar does. The rule that named the kind goes into ``detail``.
    """
    kind, summary = _text(observation.get("kind")), _text(observation.get("summary"))
    tool = _text(observation.get("tool_name") or observation.get("tool"))
    plain = (kind or "").strip().lower()
    if not plain or (upstream and plain in OF_CAPTURE):
        kind, confidence, method = kind_of(summary, tool)
        detail.setdefault("classification", {"method": method, "confidence": confidence})
    return (
        _text(observation.get("ts") or now) or now,
        kind,
        summary,
        _text(observation.get("summary_en") or observation.get("text_en")),
        _text(observation.get("lang")) if _filled(observation.get("lang")) else language(summary),
        tool,
    )


def scope_name(value: Any) -> str | None:
    """Return a scope as names are compared: NFKC, lower case, a hyphen for whatever is not of ``a-z 0-9 . _ : / -``.

    None if nothing is left, or there was nothing.
    """
    token = unicodedata.normalize("NFKC", "" if value is None else str(value)).strip().lower()
    token = re.sub("-+", "-", re.sub("[^a-z0-9._:/-]+", "-", token))
    return token.strip("-./:_") or None


def given_scope(scope: str | None) -> str | None:
    """Return the compared name of a given scope; None, which means all scopes, only for None (LD-7, EP-9).

    Raises :class:`UnusableInput` if :func:`scope_name` leaves nothing of it, or not all of its letters and digits.
    """
    name = scope_name(scope)
    if scope is not None and name is None:
        raise UnusableInput(
            f"--scope {scope!r}: has no ASCII letter or digit, and scopes are compared by these; give a scope that has "
            "one, or leave out --scope for all scopes"
        )
    if scope is not None and any(one.isalnum() and not one.isascii() for one in unicodedata.normalize("NFKC", scope)):
        raise UnusableInput(
            f"--scope {scope!r}: scopes are compared by their ASCII letters and digits, so this is scope {name!r}; "
            "give that name if you mean it"
        )
    return name


def storable(text: str) -> str:
    """Return a text without what SQLite cannot hold: lone surrogates and NUL become U+FFFD."""
    if "\0" not in text and text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def dumped(detail: Mapping[str, Any]) -> str:
    """Return a detail as the JSON that is stored."""
    text = json.dumps(detail, ensure_ascii=False)
    return storable(text)


def _filled(value: Any) -> bool:
    return value is not None and bool(str(value).strip())


def _text(value: Any) -> str | None:
    return None if value is None else storable(str(value))
