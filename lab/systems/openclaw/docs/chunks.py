"""Split a Markdown file into citable chunks (E-48): sections with ids and hashes, without private parts.

The rules are the sidecar's, and its sizes: characters (code points).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from lab.base.regex import regex
from lab.systems.openclaw.capture.secrets import is_tagged_private, looks_secret

MIN_CHUNK_CHARS = 200
DEFAULT_CHUNK_CHARS = 1400
FRONT_MATTER_LINES = 40
_HEADING = regex(r"\s{0,3}(#{1,6})\s(.*)")
_CLOSING = regex(r"\s#+$")
_UNTITLED = "(untitled)"
_FENCE = regex(r"\s{0,3}(?:```|~~~)")
_BLANK_LINES = regex(r"\n\s*\n")
_DATE = regex(r"date:\s*[\"']?(\d{4}-\d{2}-\d{2})(?!\d)")
_PATH_DATE = regex(r"(?<!\d)(20\d{2})[-_/](\d{2})[-_/](\d{2})(?!\d)")


class Chunk(NamedTuple):
    """A piece of a document. ``heading_path`` is the path of headings to its section, joined by `` / ``.

    ``title`` is the last of them, else the file's name.
    """

    chunk_id: str
    title: str
    heading_path: str
    text: str

    @property
    def content_hash(self) -> str:
        """The sha1 of heading path, title and text, each trimmed, by which chunks are compared and embedded."""
        parts = (self.heading_path, self.title, self.text)
        return hashlib.sha1("\n".join(part.strip() for part in parts).encode(), usedforsecurity=False).hexdigest()


def chunk_markdown(text: str, name: str, max_chars: int = DEFAULT_CHUNK_CHARS) -> tuple[list[Chunk], int]:
    """Return the chunks of a document in order, and how many were left out as private or secret-like.

    An id consists of the slug of the heading path, ``~n`` for its n-th repetition in the document, and the chunk's
    ordinal in its section.
    """
    limit = max(MIN_CHUNK_CHARS, max_chars)
    seen: Counter[str] = Counter()
    chunks: list[Chunk] = []
    excluded = 0
    for headings, body in _sections(text):
        title, heading_path = headings[-1] if headings else name, " / ".join(headings)
        anchor = slug(heading_path) or "root"
        seen[anchor] += 1
        if seen[anchor] > 1:
            anchor = f"{anchor}~{seen[anchor]}"
        for ordinal, (piece, source) in enumerate(_pieces(body, limit), 1):
            if is_private(f"{title}\n{heading_path}\n{source}"):
                excluded += 1
            else:
                chunks.append(Chunk(f"{anchor}:{ordinal:03d}", title, heading_path, piece))
    return chunks, excluded


def _sections(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the headings above each section with a non-blank body, and that body.

    A heading replaces those at its level and below by their number: without a level 1, two of level 3 are nested.
    """
    headings: list[str] = []
    body: list[str] = []
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else _HEADING.fullmatch(line)
        if heading is None:
            body.append(line)
            continue
        if content := "\n".join(body).strip():
            yield headings, content
        body.clear()
        name = _CLOSING.sub("", heading[2].strip()).strip() or _UNTITLED
        headings = [*headings[: len(heading[1]) - 1], name]
    if content := "\n".join(body).strip():
        yield headings, content


def _pieces(body: str, limit: int) -> Iterator[tuple[str, str]]:
    """Yield a section's body in pieces of at most ``limit`` characters, each with the full text it was cut from.

    The privacy check needs the full paragraph: a tag at its start, or a key that is cut in two, must exclude every
    piece.
    """
    if len(body) <= limit:
        yield body, body
        return
    packed = ""
    for paragraph in filter(None, (part.strip() for part in _BLANK_LINES.split(body))):
        if packed and len(packed) + 2 + len(paragraph) <= limit:
            packed = f"{packed}\n\n{paragraph}"
            continue
        if packed:
            yield packed, packed
        packed = paragraph
        if len(paragraph) > limit:
            for start in range(0, len(paragraph), limit):
                yield paragraph[start : start + limit].strip(), paragraph
            packed = ""
    if packed:
        yield packed, packed


def slug(text: str) -> str:
    """Return a text's ASCII letters and digits in lower case, with hyphens between; empty for a Chinese heading."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", ascii_text).strip("-")


def doc_kind(path: str) -> str:
    """Return the kind of a document by its path: decision, log, spec, roadmap or doc, the first that matches.

    A folder at the top of the repository does not count.
    """
    path = path.lower()
    name = PurePosixPath(path).name
    if "/decisions/" in path or name.startswith("decision"):
        return "decision"
    if "captain-log" in path or "/logs/" in path:
        return "log"
    if "/specs/" in path or "spec" in name or "prd" in name:
        return "spec"
    return "roadmap" if "/roadmap" in path or "roadmap" in name else "doc"


def ts_hint(text: str, path: str) -> str | None:
    """Return a document's date, ``YYYY-MM-DD``: ``date:`` in its front matter, else a date in its path, else None."""
    lines = text.split("\n")[:FRONT_MATTER_LINES]
    if lines[0].rstrip() == "---":
        for line in lines[1:]:
            if line.rstrip() == "---":
                break
            if match := _DATE.match(line.strip()):
                return match[1]
    match_in_path = _PATH_DATE.search(path)
    return "-".join(match_in_path.groups()) if match_in_path else None


def is_private(text: str) -> bool:
    """Whether a text must not be stored: its author tagged it, or it looks like a secret (E-35, E-48)."""
    return is_tagged_private(text) or looks_secret(text)
