"""Find entities and relations in texts by rules (GR-2, GR-3). No model is used, and persons are never named."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from lab.memory.graph.model import BLOCKED_BY, CONCEPT, DECIDES, EVALUATES, PERSON, PROJECT, REPO, TOOL, TYPES, USES
from lab.retrieval.sentence_words import one_line
from lab.retrieval.stop_words import ENGLISH

# All repetitions are bounded, so that the time to search a text grows with its length only.
# A version such as redis@7.2.1 and the account in Git's addresses are not persons.
_NO_PERSON = r"git@|[\w.+-]{1,64}@\d{1,9}(?:\.\d{1,9}){1,2}(?![\w-]|\.\w)"
# The sign @, also as Chinese texts write it, and an address of any script with it.
_AT = "[@\uff20\ufe6b]"
_ADDRESS = rf"(?<![\w.+-])[\w.+-]{{1,64}}{_AT}[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}}"
_PERSON = rf"(?:(?!{_NO_PERSON}){_ADDRESS}|(?<![\w/]){_AT}\w[\w-]*)"
# An address is one name: its first part alone would name a person, also where no dot makes it an address of e-mail.
_NO_ACCOUNT = rf"(?![\w./+-]{{1,264}}{_AT}(?!\d))"
_NAME = rf"(?:{_PERSON}|(?<!{_AT}){_NO_ACCOUNT}[^\W_](?:[\w./+-]{{0,200}}\w)?)"
_FLAGS = re.IGNORECASE
# The forms that mark an entity, in the order in which they are tried at a place.
_MARKED = re.compile(
    rf"\b(?P<typed>{'|'.join(TYPES)}|entity):(?P<name>{_NAME})"
    r"|\b(?:github|gitlab)\.com[/:](?P<repo>[\w.-]+/[\w-]+(?:\.[\w-]+)*)"
    rf"|(?P<person>{_PERSON})"
    r"|\[\[(?P<page>[^\]\[|#\n]{1,60})[^\]\[\n]*\]\]"
    rf"|(?<![\w&/])#{_NO_ACCOUNT}(?P<tag>[^\W\d]\w{{1,40}})"
    r"|`(?P<code>[^\W\d][\w.-]{1,40})`"
    rf"|\b(?P<word>project|repo|repository|tool)\s+(?P<called>{_NAME})",
    _FLAGS,
)
# A verb between two names, the earlier one possibly missing.
_SUBJECT = rf"(?:(?P<subject>{_NAME})\s+)?"
_OBJECT = rf"(?:(?:the|a|an|project|repo|repository|tool)\s+)?(?P<object>{_NAME}(?::{_NAME})?)"
_VERBS = {
    BLOCKED_BY: r"(?:is|are|was|still)?\s*(?:blocked by|blocked on|waiting for|waits for)",
    DECIDES: r"(?:have |has |we )?(?:decided on|decided to use|chose|chosen|picked|adopted)",
    EVALUATES: r"(?:is |are |was )?(?:evaluat(?:es|ed|ing|e)|benchmark(?:s|ed|ing)?|compar(?:es|ed|ing|e)|tried)",
    USES: r"(?:now |is |are )?(?:uses|used|using|runs on|run on|depends on|requires)",
}
_RELATIONS = {kind: re.compile(rf"(?<!\w){_SUBJECT}{verb}\s+{_OBJECT}", _FLAGS) for kind, verb in _VERBS.items()}
# Texts that a sentence with such a verb must contain, so that most sentences need no search.
_HINTS = {
    BLOCKED_BY: re.compile("block|wait", _FLAGS),
    DECIDES: re.compile("decided|chose|pick|adopt", _FLAGS),
    EVALUATES: re.compile("evaluat|benchmark|compar|tried", _FLAGS),
    USES: re.compile("us[ei]|runs? on|depends|requires", _FLAGS),
}
_NO_NAMES = frozenset(ENGLISH) | frozenset(
    ("we", "it", "they", "she", "he", "you", "one", "project", "repo", "repository", "tool", "still", "now", "which")
)
_IS_PERSON = re.compile(_PERSON, _FLAGS)
_IS_ADDRESS = re.compile(rf"\w{_AT}(?![\d\s]|$)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|[。！？;\n]+")


class Relation(NamedTuple):
    """A relation in a sentence between names that have no type yet; ``subject`` None: of the text as a whole."""

    subject: str | None
    type: str
    object: str


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text that are not blank."""
    return [part for part in _SENTENCE.split(text) if part.strip()]


def marked(text: str) -> Iterator[str]:
    """Yield the entities that a text names by their form, in their order (GR-2). ``entity:X`` has no type yet."""
    for match in _MARKED.finditer(text):
        kind = str(match.lastgroup)
        if not is_name(match[kind]):
            continue
        if match["typed"]:
            yield reference(match["typed"].lower(), match["name"])
        elif kind == "repo":
            yield reference(REPO, match["repo"].removesuffix(".git"))
        elif kind == "person":
            yield reference(PERSON, match["person"])
        elif kind in ("page", "tag"):
            yield reference(CONCEPT, match[kind])
        elif kind == "code":
            yield reference(TOOL, match["code"])
        elif plain(match["called"]) not in _NO_NAMES:
            yield reference({"project": PROJECT, "tool": TOOL}.get(match["word"].lower(), REPO), match["called"])


def relations(sentence: str) -> Iterator[Relation]:
    """Yield the relations that a sentence states by a verb between names, such as "the gateway uses lancedb" (GR-3)."""
    # Marks around a name are no part of it.
    text = one_line(re.sub(r"[`\[\]#]", "", sentence))
    for kind, pattern in _RELATIONS.items():
        if not _HINTS[kind].search(text):
            continue
        for match in pattern.finditer(text):
            subject, target = match["subject"], match["object"]
            if plain(target) in _NO_NAMES or not is_name(target) or not is_name(subject or ""):
                continue
            yield Relation(subject if subject and plain(subject) not in _NO_NAMES else None, kind, target)


def is_name(text: str) -> bool:
    """Return whether a text may be the name of an entity.

    The replacement of a secret may not, and neither may an account at a machine, ``ann@host``.
    """
    if "redacted" in text.lower():
        return False
    return _IS_ADDRESS.search(text) is None or _IS_PERSON.search(plain(text)) is not None


def reference(kind: str, name: str) -> str:
    """Return the reference of an entity: its type and its name in lower case; a person's name becomes a digest.

    A name with an e-mail address or an @name is a person, whatever ``kind`` says.
    """
    name = plain(name)
    person = _IS_PERSON.search(name) if "@" in name else None
    if person is None and kind != PERSON:
        return f"{kind}:{name}"
    # A reference that is redacted already stays.
    if re.fullmatch("[0-9a-f]{12}", name):
        return f"{PERSON}:{name}"
    name = person[0] if person else name
    return f"{PERSON}:{hashlib.sha256(name.lstrip('@').encode('utf-8', 'replace')).hexdigest()[:12]}"


def plain(name: str) -> str:
    """Return a name in the form in which names are compared: NFKC, lower case, without blanks and signs around it."""
    return " ".join(unicodedata.normalize("NFKC", name).lower().split()).strip(" .-/")
