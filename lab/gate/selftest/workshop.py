"""Where faults are tried: copies of the package, a cache of its own for each, and child processes that replay them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.embedding.cache import ChunkCache
from lab.embedding.embedder import DOCUMENT, Role, role_key, roles_of
from lab.files import dump_json, read_json, write_atomically
from lab.gate.selftest.child import LOADED
from lab.gate.selftest.faults import PACKAGE, Fault, apply
from lab.gate.selftest.replays import HERE, Replay
from lab.replay.plan import make_plan
from lab.replay.sources import Announce, open_sources, prepare, texts_of
from lab.retrieval.retrievers import embedded_text
from lab.retrieval.tokens import Tokens, words_key
from lab.systems.openclaw.arms import FlowArm
from lab.systems.openclaw.docs.lane import open_docs

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Compute = Callable[[list[str]], "pa.Array"]

# What of the package a copy does without.
LEFT_OUT = ("shipped", "*.part")


class Ended(NamedTuple):
    """How a child ended: why it did not replay everything, or None; and the files of the package that it loaded."""

    problem: str | None
    loaded: frozenset[str] = frozenset()


class Workshop:
    """A folder with a sound copy of the package and a small cache: the vectors and the words of what is replayed.

    A faulty copy reads and writes a cache of its own, so nothing that it computes is ever met again.
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
        """Replay with a fault, or with none, into ``out/REPLAY``; the copy goes, the runs stay."""
        place = self.folder / "copies" / name
        try:
            shutil.copytree(self._sound / "lab", place / "lab")
            shutil.copytree(self._sound / "cache", place / "cache", copy_function=_linked)
            if fault is not None:
                apply(place / "lab", fault)
            plan = {
                "seconds": self.seconds,
                "replays": [{"asked": asdict(one.asked), "out": str(out / one.name)} for one in replays],
            }
            write_atomically(place / "plan.json", dump_json(plan))
            return self._run(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _run(self, place: Path) -> Ended:
        environment = os.environ | {
            "PYTHONPATH": str(place),
            "LAB_CACHE_DIR": str(place / "cache"),
            "HF_HUB_OFFLINE": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "lab.gate.selftest.child", str(place / "plan.json")]
        try:
            # The words are ours; the code is the copy that we made.
            done = subprocess.run(  # noqa: S603 - see above
                command,
                cwd=place / "lab" / HERE.relative_to(PACKAGE),
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ended(f"not done after {self.seconds} s")
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            return Ended(lines[-1] if lines else f"ended with {done.returncode}")
        return Ended(None, frozenset(read_json(place / LOADED)))

    def _fill(self, replay: Replay, announce: Announce) -> None:
        """Put into the small cache what this process's own has of a replay's texts, or makes for them."""
        with chdir(HERE):
            plan = make_plan(replay.asked)
            sources = open_sources(plan)
            prepare(plan, plan.recordings, sources, announce)
        texts = list(dict.fromkeys(text for one in plan.recordings for text in texts_of(plan, one)))
        limits = dict.fromkeys(one.clamp for one in plan.retrievals())
        clamped = list(dict.fromkeys([*texts, *(embedded_text(text, limit) for limit in limits for text in texts)]))
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
                # The index goes with the folder: only the texts that it embeds are wanted.
                index = self._sound / f"{replay.name}-{number}.sqlite"
                open_docs(arm.config.docs, index, embed, model=role_key(plan.embedder, DOCUMENT))

        import pyarrow as pa

        def vectors_as(role: Role) -> Compute:
            def vectors(part: list[str]) -> pa.Array:
                found = sources.vectors.of(part, role)
                return pa.FixedSizeListArray.from_arrays(pa.array(found.ravel(), pa.float32()), found.shape[1])

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
    """A chunk of a cache is never changed, so a link is a copy; where links cannot be made, one is."""
    with suppress(OSError):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)
