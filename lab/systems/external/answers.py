"""Recorded answers: what a host answered, so that a run can be repeated, resumed and scored without it (EX-20).

They hold texts, so they are in the cache, which only its owner may read, and never in a run. A folder
``answers/<key of the arm's settings>/`` has ``about.json`` with the identity of the host, and one file for every
sequence of requests of a conversation: JSON Lines of ``{"chain", "ns", "result"}`` or ``{"chain", "ns", "failure"}``,
after a head. ``chain`` is the digest of all requests so far, so that an answer is used only after the same requests.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.files import digest, dump_json, read_json, sha256_bytes, write_atomically
from lab.embedding.cache import ABOUT, cache_folder
from lab.systems.external.protocol import HostFailed
from lab.systems.openclaw.capture.secrets import redact_all

KIND = "answers"
# Hexadecimal digits of the digests in names.
DIGITS = 16
RECORD = "run the replay again with --answers live, which records them"


class Exchange(NamedTuple):
    """An answer: the digest of all requests up to it, its time in nanoseconds, and the result or the failure."""

    chain: str
    ns: int
    result: dict[str, Any] | None
    failure: tuple[str, str, str] | None = None

    def outcome(self) -> dict[str, Any]:
        """Return the result, or raise the failure."""
        if self.result is None:
            raise HostFailed(*(self.failure or ("died", "", "")))
        return self.result


class Chain:
    """The digest of all requests of an instance so far."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, op: str, body: bytes, faults: Iterable[str]) -> str:
        """Add a request and the faults of the lab's embedder meanwhile; return the digest."""
        self._digest.update(" ".join((op, str(len(body)), *sorted(faults), "\n")).encode())
        self._digest.update(body)
        return self._digest.copy().hexdigest()[: 2 * DIGITS]


class Recorder:
    """The exchanges of one conversation, written to the cache when it ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._exchanges: list[Exchange] = []

    def add(self, exchange: Exchange) -> None:
        """Add an answer."""
        self._exchanges.append(exchange)

    def save(self, errors: str) -> None:
        """Write the answers, with ``errors``, the end of the host's stderr; nothing if there was no request."""
        if not self._exchanges:
            return
        lines = [
            dump_json(
                {
                    "chain": exchange.chain,
                    "ns": exchange.ns,
                    **({"result": exchange.result} if exchange.failure is None else {"failure": exchange.failure}),
                },
                indent=None,
            )
            for exchange in self._exchanges
        ]
        body = b"".join(lines)
        head = dump_json({"kind": "lab.answers", "sha256": sha256_bytes(body), "stderr": errors}, indent=None)
        write_atomically(self.path(self._exchanges[-1].chain), head + body, private=True)

    def path(self, chain: str) -> Path:
        """Return the file of the exchanges whose last digest is ``chain``."""
        return self._folder / f"{self._name}-{chain[:DIGITS]}.jsonl"


class Player:
    """Recorded answers of one conversation, in place of a host.

    Several recordings may begin with the same requests. Those without failures come first.
    """

    def __init__(self, folder: Path, name: str, arm: str) -> None:
        self._arm, self._at = arm, 0
        recordings = [read_exchanges(path) for path in sorted(folder.glob(f"{name}-*.jsonl"))]
        self._left = sorted(recordings, key=lambda exchanges: any(exchange.failure for exchange in exchanges))

    def next(self, chain: str, op: str) -> Exchange:
        """Return the answer to the next request. Raises :class:`CannotMeasure` if it was not recorded."""
        at = self._at
        before = self._left[0] if self._left else []
        self._left = [some for some in self._left if len(some) > at and some[at].chain == chain]
        if not self._left:
            raise CannotMeasure(f"arm {self._arm}: no recorded answer to {op} (request {at + 1}); {RECORD}")
        if _answers(self._left[0][:at]) != _answers(before[:at]):
            raise CannotMeasure(
                f"arm {self._arm}: recordings of other runs answer the same requests differently; remove them with "
                f"`lab cache answers --remove {self._arm}`, then {RECORD}"
            )
        self._at += 1
        return self._left[0][at]


def _answers(exchanges: Sequence[Exchange]) -> list[tuple[object, object]]:
    return [(exchange.result, exchange.failure) for exchange in exchanges]


def read_exchanges(path: Path) -> list[Exchange]:
    """Return the exchanges in a file. Raises :class:`CannotMeasure` if it is damaged."""
    damaged = CannotMeasure(f"{path}: is damaged; delete it, and {RECORD}")
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        if json.loads(head).get("sha256") != sha256_bytes(body):
            raise damaged
        records = [json.loads(line) for line in body.splitlines()]
        return [
            Exchange(
                record["chain"],
                record["ns"],
                record.get("result"),
                tuple(record["failure"]) if "failure" in record else None,
            )
            for record in records
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise damaged from None


def folder_of(settings: Mapping[str, object]) -> Path:
    """Return the folder of the answers of an arm's settings."""
    return cache_folder() / KIND / digest(settings)[:DIGITS]


def save_identity(folder: Path, arm: str, identity: Mapping[str, object]) -> None:
    """Write who answers, so that a repeated run needs no request."""
    about = {"kind": KIND, "arm": arm, "hello": dict(identity)}
    data = dump_json(about)
    path = folder / ABOUT
    with suppress(OSError):
        if path.read_bytes() == data:
            return
    write_atomically(path, data, private=True)


def read_identity(folder: Path, arm: str) -> dict[str, Any]:
    """Return the identity that was recorded last. Raises :class:`CannotMeasure` if there is none."""
    path = folder / ABOUT
    about = read_json(path) if path.is_file() else None
    identity = about.get("hello") if isinstance(about, dict) else None
    if not isinstance(identity, dict):
        raise CannotMeasure(f"arm {arm}: has no recorded answers; {RECORD}")
    return identity


class Held(NamedTuple):
    """Recorded answers in the cache: of which arm and system, the number of conversations recorded, and their bytes."""

    key: str
    arm: str
    system: str
    version: str
    recordings: int
    bytes: int


def held() -> list[Held]:
    """Return what is recorded, by arm."""
    root = cache_folder() / KIND
    held: list[Held] = []
    for folder in sorted(path for path in root.glob("[!.]*") if path.is_dir()):
        files = [path for path in folder.glob("*.jsonl") if not path.name.startswith(".")]
        arm = system = version = ""
        with suppress(OSError, ValueError, KeyError, TypeError):
            about = json.loads((folder / ABOUT).read_bytes())
            arm, system, version = (str(about["arm"]), str(about["hello"]["name"]), str(about["hello"]["version"]))
        held.append(Held(folder.name, arm, system, version, len(files), sum(path.stat().st_size for path in files)))
    return sorted(held, key=lambda entry: (entry.arm, entry.key))


def last_errors(chosen: Sequence[Held]) -> tuple[Path, str] | None:
    """Return the newest recording in which the host wrote to stderr, and the end of that; first where it died.

    It may quote texts of the recording.
    """
    errors_of: list[tuple[bool, float, Path, str]] = []
    for entry in chosen:
        for path in (cache_folder() / KIND / entry.key).glob("[!.]*.jsonl"):
            with suppress(OSError, ValueError, AttributeError):
                head, *lines = path.read_bytes().splitlines()
                errors = str(json.loads(head).get("stderr", "")).strip()
                has_died = any(json.loads(line).get("failure", [""])[0] == "died" for line in lines)
                if errors:
                    errors_of.append((has_died, path.stat().st_mtime, path, errors))
    if not errors_of:
        return None
    _, _, path, errors = max(errors_of)
    return path, redact_all(errors)


def remove(chosen: Sequence[Held]) -> None:
    """Remove recorded answers."""
    for entry in chosen:
        shutil.rmtree(cache_folder() / KIND / entry.key, ignore_errors=True)
