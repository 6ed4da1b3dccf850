"""Read the documents of a running rsclaw over its HTTP API (RS-26): ``--memories-from http://HOST:PORT``.

Only a command that is given the address sends a request. What was read is kept in the cache, so that runs are repeated
and explained without the server; a manifest or a pool, which may come from others, never causes a request.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest, dump_json, private_folder, read_json, write_atomically
from lab.base.shape import expect, field, json_type
from lab.base.times import SECONDS as IN_SECONDS
from lab.base.times import as_datetime, epoch_ms
from lab.embedding.address import stays_private
from lab.embedding.cache import cache_folder

TOKEN = "LAB_RSCLAW_TOKEN"  # noqa: S105 - the name of a variable
SECONDS = 30.0
# The most documents that the API returns to one request.
MOST = 1000
_API = "/api/v1/memory"
_Row = tuple[dict[str, Any], str]


def is_address(text: str) -> bool:
    """Return whether a store is named by an address instead of a path."""
    return text.lower().startswith(("http://", "https://"))


def rows_at(address: str, *, cached: bool) -> Iterator[_Row]:
    """Yield the rows of a running rsclaw with their positions for messages.

    ``cached``: read what the last request returned. Raises :class:`UnusableInput` for an unusable address or a refused
    token, and :class:`CannotMeasure` if the server does not answer in full.
    """
    base = _base(address)
    kept = kept_at(base)
    if cached:
        if not kept.is_file():
            raise CannotMeasure(f"{base}: what it returned is not in the cache; replay with --memories-from again")
        documents = expect(read_json(kept), list, str(kept))
    else:
        documents = _documents(base)
        private_folder(kept.parent)
        write_atomically(kept, dump_json(documents, indent=None), private=True)
    yield from rows_of(documents, base)


def rows_of(documents: list[Any], where: str) -> Iterator[_Row]:
    """Yield the rows of documents as the API returns them; ``where`` names their source in messages."""
    for number, document in enumerate(documents, 1):
        at = f"{where}: docs[{number - 1}]"
        expect(document, dict, at)
        created = epoch_ms(field(document, "created_at", object, at), IN_SECONDS)
        if created is None:
            found = json_type(document["created_at"])
            raise UnusableInput(f"{at}: field 'created_at': expected seconds since 1970, found {found}")
        row = {name: field(document, name, str, at) for name in ("id", "text", "scope")}
        row |= {"category": field(document, "kind", str, at), "createdAt": as_datetime(created)}
        yield row | {"importance": document.get("importance"), "trust_tier": "user"}, at


def kept_at(base: str) -> Path:
    """Return the file of the cache that keeps what an address returned; the server's texts are readable in it."""
    return cache_folder() / "stores" / f"{digest(base)[:16]}.json"


def _documents(base: str) -> list[Any]:
    """Return all documents, in parts by scope and kind if there are more than one request returns."""
    counts = _asked(base, "stats", {})
    total = field(counts, "total", int, base)
    documents, there = _part(base, {})
    if there > len(documents):
        documents = []
        for scope in sorted(field(counts, "by_scope", dict, base)):
            for kind in sorted(field(counts, "by_kind", dict, base)):
                part, there = _part(base, {"scope": scope, "kind": kind})
                if there > len(part):
                    raise CannotMeasure(
                        f"{base}: has {there} documents of kind {kind} in one scope, and returns only {len(part)} at a "
                        "time; export them there, and give the file"
                    )
                documents += part
    if len(documents) != total:
        raise CannotMeasure(
            f"{base}: counts {total} documents and returns {len(documents)}; it changed meanwhile, so try again"
        )
    return documents


def _part(base: str, query: Mapping[str, str]) -> tuple[list[Any], int]:
    answer = _asked(base, "docs", {**query, "limit": str(MOST)})
    return field(answer, "docs", list, base), field(answer, "total", int, base)


def _asked(base: str, what: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer to one request, a JSON object. Messages quote nothing of it."""
    from lab.embedding.http import NoAnswer, get

    url = f"{base}{_API}/{what}{'?' + urlencode(query) if query else ''}"
    name = f"{base}{_API}/{what}"
    try:
        answer = get(url, _headers(), SECONDS)
    except NoAnswer as error:
        raise CannotMeasure(f"{name}: {error}") from None
    status = answer.status
    if status in (401, 403):
        sent = f"refuses the token in {TOKEN}" if os.environ.get(TOKEN, "").strip() else f"needs a token; set {TOKEN}"
        raise UnusableInput(f"{name}: {sent} (status {status})")
    if status == 404:
        raise UnusableInput(f"{name}: is not there (status 404); give the address of the gateway, without a path")
    if 300 <= status < 400:
        raise UnusableInput(f"{name}: redirects (status {status}), which is not followed; give the other address")
    if status != 200:
        raise CannotMeasure(f"{name}: fails (status {status})")
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise CannotMeasure(f"{name}: the response is not JSON") from None
    if not isinstance(value, dict):
        raise CannotMeasure(f"{name}: the response is not a JSON object")
    return value


def _headers() -> dict[str, str]:
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        return {}
    if not re.fullmatch(r"[!-~]+", token):
        raise UnusableInput(f"{TOKEN}: contains characters that a token cannot have; set it again, or unset it")
    return {"Authorization": f"Bearer {token}"}


def _base(address: str) -> str:
    """Return scheme, host and port of an address; loopback unless it is https, because memories are private."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or not host.isascii() or parts.username is not None or parts.query or parts.fragment:
        raise UnusableInput("--memories-from: the address must be http://HOST:PORT, without user name, query or '#'")
    if parts.path.rstrip("/") not in ("", _API, f"{_API}/docs"):
        raise UnusableInput("--memories-from: give the address of the gateway without a path: http://HOST:PORT")
    shown = f"[{host}]" if ":" in host else host
    base = f"{parts.scheme}://{shown}{f':{port}' if port else ''}"
    if not stays_private(base):
        raise UnusableInput(f"{base}: memories would cross the network unencrypted; give an https:// address")
    return base
