"""Ratios of embedding: the lab's embedder beside sentence-transformers' own ``encode``, and beside a busy process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from harness import PROJECT, Bench, Side, Sides, ratio

import lab
from lab.base.processes import processors
from lab.embedding.embedder import SentenceTransformerEmbedder, team_size

TEXTS = 768
Encode = Callable[[], object]


def encoders(bench: Bench) -> tuple[Encode, Encode]:
    """Return sentence-transformers' encoding of memories and prompts of the shipped set, and the lab's.

    Both may use all processors. Theirs sorts by length and pads 32 texts to the longest of them, by default.
    """

    def make() -> tuple[Encode, Encode]:
        import torch

        chats = lab.recordings.read(str(PROJECT / "datasets" / "operators"), "lab").recordings
        memories = [memory.index_text for chat in chats for memory in chat.memories]
        prompts = [turn.text for chat in chats for turn in chat.turns if turn.role == "user"]
        texts = list(dict.fromkeys(chain(memories, prompts)))
        texts = texts[:: len(texts) // TEXTS][:TEXTS]
        ours = SentenceTransformerEmbedder()
        model = ours._load()
        torch.set_num_threads(processors())
        return lambda: model.encode(texts, show_progress_bar=False), lambda: ours.encode(texts)

    found: tuple[Encode, Encode] = bench.keep("encoders", None, make)
    return found


@contextmanager
def neighbour() -> Iterator[None]:
    """Keep one other process busy, on whichever processor the system gives it."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@ratio("embed", at_least=1.2, about="SentenceTransformer.encode's time over the lab's, the same texts, all processors.")
def embed(bench: Bench) -> Sides:
    """On an otherwise idle machine: what waits for another program counts."""
    theirs, ours = encoders(bench)
    return Sides(Side("SentenceTransformer.encode", theirs, TEXTS), Side("the lab's encode", ours, TEXTS))


@ratio(
    "embed-busy",
    at_least=1,
    about="The lab's share of all processors beside one busy process, over the share of a process among two.",
)
def embed_busy(bench: Bench) -> Sides:
    """The share is processor seconds over seconds × processors; the notes have the ratio of times there.

    The fair share of one process among two is half of the machine, or less if the team is smaller.
    """
    theirs, ours = encoders(bench)
    times: list[float] = []

    def timed(encode: Encode) -> tuple[float, float]:
        clock, used = time.perf_counter(), time.process_time()
        encode()
        spent = time.perf_counter() - clock
        return spent, (time.process_time() - used) / spent / processors()

    def share() -> float:
        with neighbour():
            (other, _), (mine, found) = timed(theirs), timed(ours)
        times.append(other / mine)
        return found

    def fair() -> float:
        return min(team_size() / processors(), 1 / 2)

    def notes() -> dict[str, Any]:
        return {"SentenceTransformer.encode's time over ours there": f"{statistics.median(times):.2f}"}

    return Sides(
        Side("the lab's share", share, unit="of the machine"), Side("fair", fair, unit="of the machine"), notes
    )
