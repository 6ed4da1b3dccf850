"""Run replays with a fault: a copy of the package and of the cache for each, and a child process to replay it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.files import dump_json, read_json, read_toml, write_atomically
from lab.base.set_registry import shipped
from lab.embedding.cache import ChunkCache
from lab.embedding.embedder import DOCUMENT, Role, role_key, roles_of
from lab.gate.selftest.child import LOADED
from lab.gate.selftest.faults import PACKAGE, Fault, apply
from lab.replay.plan import make_plan
from lab.replay.sources import Announce, open_sources, prepare, texts_of
from lab.retrieval.retrievers import embedded_text, query_text
from lab.retrieval.tokens import Tokens, words_key
from lab.runs.request import ReplayRequest
from lab.systems.openclaw.arms import FlowArm
from lab.systems.openclaw.docs.lane import open_docs

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

HERE = Path(__file__).parent
# Settings that are paths in this folder.
_PATHS = ("golden", "memories_from")


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay of a shipped set; with ``only``, it runs only for faults in files that match one of these patterns."""

    name: str
    about: str
    asked: ReplayRequest
    only: tuple[str, ...] = ()

    def applies_to(self, fault: Fault) -> bool:
        """Return whether the replay runs for a fault."""
        return not self.only or any(fnmatchcase(file, pattern) for file in fault.files for pattern in self.only)


def shipped_replays(embedder: str | None = None) -> tuple[Replay, ...]:
    """Return the shipped replays, with ``embedder`` instead of the default model if given."""
    tables = read_toml(HERE / "replays.toml")["replay"]
    return tuple(_replay(table, embedder) for table in tables)


def _replay(value: dict[str, Any], embedder: str | None) -> Replay:
    name = value["set"]
    given = {
        "path": str(shipped("datasets", name)),
        "format": "lab",
        "arms": [_arm(arm) for arm in value["arms"]],
        "golden": str(shipped("golden", name)),
        # A fault is caught by the recordings' own memories; more of them would only take longer.
        "haystack": 0,
    }
    chosen = {"embedder": embedder} if embedder else {}
    settings = value.get("settings", {})
    paths = {key: str(HERE / settings[key]) for key in _PATHS if key in settings}
    asked = ReplayRequest.of_manifest(given | chosen | settings | paths)
    return Replay(value["name"], value["about"], asked, tuple(value.get("only", ())))


def _arm(text: str) -> str:
    """Return ``NAME``, or ``NAME=FILE`` with the path of a file in the folder ``arms``."""
    name, _, file = text.partition("=")
    return f"{name}={HERE / 'arms' / file}" if file else name


Compute = Callable[[list[str]], "pa.Array"]

# Files of the package that a copy does not need.
LEFT_OUT = ("shipped", "*.part")


class Ended(NamedTuple):
    """The result of a child process: why it failed, or None; and the files of the package that it loaded."""

    problem: str | None
    loaded: frozenset[str] = frozenset()


class Sandbox:
    """A folder with an unchanged copy of the package and a small cache with the vectors and words of the replays.

    Each faulty copy has its own cache, so that nothing it computes is reused.
    """

    def __init__(self, folder: Path, replays: Sequence[Replay], seconds: int) -> None:
        self.folder, self.replays, self.seconds = folder, tuple(replays), seconds
        self._sound = folder / "sound"

    def set_up(self, announce: Announce) -> None:
        """Copy the package, compile it once, and fill the cache."""
        import compileall

        shutil.copytree(PACKAGE, self._sound / "lab", ignore=shutil.ignore_patterns(*LEFT_OUT))
        compileall.compile_dir(self._sound / "lab", quiet=2)
        for replay in self.replays:
            self._fill(replay, announce)

    def replay(self, name: str, fault: Fault | None, replays: Sequence[Replay], out: Path) -> Ended:
        """Replay with a fault, or without one, into ``out/REPLAY``; delete the copy and keep the runs."""
        copy = self.folder / "copies" / name
        try:
            shutil.copytree(self._sound / "lab", copy / "lab")
            shutil.copytree(self._sound / "cache", copy / "cache", copy_function=_linked)
            if fault is not None:
                apply(copy / "lab", fault)
            plan = {
                "seconds": self.seconds,
                "replays": [{"asked": asdict(item.asked), "out": str(out / item.name)} for item in replays],
            }
            write_atomically(copy / "plan.json", dump_json(plan))
            return self._run(copy)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _run(self, copy: Path) -> Ended:
        environment = os.environ | {
            "PYTHONPATH": str(copy),
            "LAB_CACHE_DIR": str(copy / "cache"),
            "HF_HUB_OFFLINE": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "lab.gate.selftest.child", str(copy / "plan.json")]
        try:
            # The arguments are the lab's own; the code is the copy made above.
            done = subprocess.run(  # noqa: S603 - see above
                command,
                cwd=copy / "lab" / HERE.relative_to(PACKAGE),
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ended(f"not finished after {self.seconds} s")
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            return Ended(lines[-1] if lines else f"ended with {done.returncode}")
        return Ended(None, frozenset(read_json(copy / LOADED)))

    def _fill(self, replay: Replay, announce: Announce) -> None:
        """Fill the small cache with the vectors and words of a replay's texts."""
        with chdir(HERE):
            plan = make_plan(replay.asked)
            sources = open_sources(plan)
            prepare(plan, plan.recordings, sources, announce)
        texts = list(dict.fromkeys(text for recording in plan.recordings for text in texts_of(plan, recording)))
        limits = dict.fromkeys(retrieval.clamp for retrieval in plan.retrievals())
        forms = (form(text, limit) for form in (embedded_text, query_text) for limit in limits for text in texts)
        clamped = list(dict.fromkeys([*texts, *forms]))
        roles = roles_of(plan.embedder)
        for role in roles:
            sources.vectors.prepare(clamped, role=role)

        def embed(part: Sequence[str]) -> np.ndarray:
            clamped.extend(part)
            for role in roles:
                sources.vectors.prepare(part, role=role)
            return sources.vectors.of(part)

        with chdir(HERE):
            for number, arm in enumerate(arm for arm in plan.arms if isinstance(arm, FlowArm) and arm.documented):
                # The index itself is discarded; only the texts that it embeds are needed.
                index = self._sound / f"{replay.name}-{number}.sqlite"
                open_docs(arm.config.docs, index, embed, model=role_key(plan.embedder, DOCUMENT))

        import pyarrow as pa

        def vectors_as(role: Role) -> Compute:
            def vectors(part: list[str]) -> pa.Array:
                values = sources.vectors.of(part, role)
                return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel(), pa.float32()), values.shape[1])

            return vectors

        kind = pa.list_(pa.float32(), sources.vectors.dimension)
        for role in roles:
            self._keep(Path("vectors") / role_key(plan.embedder, role), kind, clamped, vectors_as(role))
        for text_settings, words in sources.words.items():
            if isinstance(words, Tokens):
                self._keep(Path("tokens") / words_key(text_settings), pa.list_(pa.string()), texts, _listed_by(words))

    def _keep(self, where: Path, kind: pa.DataType, texts: Sequence[str], compute: Compute) -> None:
        cache = ChunkCache(self._sound / "cache" / where, kind)
        cache.fill(cache.missing(texts), compute, lambda _: None)


def _listed_by(words: Tokens) -> Compute:
    import pyarrow as pa

    return lambda part: pa.array(words.of(part), pa.list_(pa.string()))


def _linked(source: str, target: str) -> str:
    """Hard-link a chunk of a cache, which never changes; copy it if links are not possible."""
    with suppress(OSError):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)
