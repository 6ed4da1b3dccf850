"""Other runtimes for the default model: their speed beside the lab's embedder, and what they change.

python -m tests.trials.embedding_backends DATA --out FOLDER [--texts N] [--rounds N] [--limit N]

Needs onnxruntime, onnx and openvino beside the lab. sentence-transformers loads both through optimum, whose releases
do not admit the pinned transformers; so the graph is exported here, and quantised as its
``export_dynamic_quantized_onnx_model`` does for ``avx2`` (unsigned 8-bit weights for each channel).

Every backend embeds in the lab's batches. Times are of alternating samples; on a busy machine only those of the
processor mean something.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lab.embedding import embedder as embedders
from lab.embedding.embedder import BATCH, Role, SentenceTransformerEmbedder
from lab.replay.loop import replay
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import open_sources, play_of, prepare, tools_of
from lab.runs.request import ReplayRequest
from lab.systems.openclaw.select.policies import POLICIES
from tests.trials.lanes import announce, table

Network = Callable[[dict[str, np.ndarray]], np.ndarray]
SETS = (("operators", "lab"), ("realmem", "realmem"), ("locomo", "locomo"), ("beam", "beam"))
OWN = Path(__file__).parents[2] / "datasets" / "operators"


class Backend(SentenceTransformerEmbedder):
    """The default model, its network run by another runtime."""

    def __init__(self, name: str, network: Network) -> None:
        super().__init__()
        self.name, self.network = name, network

    def identity(self) -> dict[str, Any]:
        """Return the identity with the backend, so that vectors have a cache of their own."""
        return super().identity() | {"backend": self.name}

    def _embed(self, texts: Sequence[str], length: int, role: Role) -> np.ndarray:
        batch = self._cleaned(texts, role) + [""] * (BATCH - len(texts))
        with embedders._TOKENIZING:
            features = self._load().tokenizer(
                batch, padding="max_length", truncation=True, max_length=length, return_tensors="np"
            )
        tokens, mask = self.network(dict(features)), features["attention_mask"][..., None]
        pooled = (tokens * mask).sum(axis=1)[: len(texts)]
        unit: np.ndarray = (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).astype(np.float32)
        return unit


def backends(folder: Path) -> list[Backend]:
    """Export the network, quantise it, and open it in each runtime, one thread a call."""
    import onnxruntime
    import openvino
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder.mkdir(parents=True, exist_ok=True)
    full, small = folder / "model.onnx", folder / "model_quint8_avx2.onnx"
    model = SentenceTransformerEmbedder()._load()
    features = dict(model.tokenizer(["a text", "another one"], padding=True, return_tensors="pt"))

    class Tokens(torch.nn.Module):
        """The last layer, of inputs by position."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = model[0].auto_model

        def forward(self, *values: torch.Tensor) -> torch.Tensor:
            """Return the vector of every token."""
            found: torch.Tensor = self.inner(**dict(zip(features, values, strict=True))).last_hidden_state
            return found

    torch.onnx.export(
        Tokens(),
        tuple(features.values()),
        str(full),
        input_names=list(features),
        output_names=["tokens"],
        dynamic_axes={name: {0: "rows", 1: "length"} for name in (*features, "tokens")},
        opset_version=18,
        dynamo=False,
    )
    quantize_dynamic(str(full), str(small), per_channel=True, weight_type=QuantType.QUInt8)

    def onnx(path: Path) -> Network:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda given: session.run(None, given)[0]

    compiled = openvino.Core().compile_model(
        openvino.convert_model(str(full)), "CPU", {"INFERENCE_NUM_THREADS": 2, "NUM_STREAMS": 2}
    )

    def infer(given: dict[str, np.ndarray]) -> np.ndarray:
        found: np.ndarray = compiled.create_infer_request().infer(given)[0]
        return found

    return [
        Backend("onnx", onnx(full)),
        Backend("onnx, int8", onnx(small)),
        Backend("openvino", infer),
    ]


def plans_of(data: Path, limit: int | None) -> dict[str, Plan]:
    """Return both policies over each set, of at most so many conversations."""
    return {
        name: make_plan(
            ReplayRequest(str(OWN if form == "lab" else data / name), form, tuple(POLICIES), haystack=0, limit=limit)
        )
        for name, form in SETS
    }


def sample(plans: Sequence[Plan], count: int) -> list[str]:
    """Return so many texts, an equal part of each plan: memories and prompts, evenly over it."""
    found = []
    for plan in plans:
        texts = list(
            dict.fromkeys(
                text
                for one in plan.recordings
                for text in (
                    *(memory.index_text for memory in one.memories),
                    *(turn.text for turn in one.turns if turn.role == "user"),
                )
            )
        )
        part = min(count // len(plans), len(texts))
        found += [texts[number * len(texts) // part] for number in range(part)]
    return found


def speed(texts: Sequence[str], others: Sequence[Backend], rounds: int) -> str:
    """Return a table of texts a second, by processor time and by the clock, measured by turns."""
    import torch

    ours = SentenceTransformerEmbedder()
    model = ours._load()

    def plain(threads: int) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        model.encode(list(texts), show_progress_bar=False)
        torch.set_num_threads(before)

    def team(embedder: SentenceTransformerEmbedder, threads: int) -> None:
        embedder.threads = threads
        embedder.encode(texts)

    works: dict[str, Callable[[int], None]] = {"SentenceTransformer.encode": plain, "the lab": partial(team, ours)}
    works |= {one.name: partial(team, one) for one in others}
    spent: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for turn in range(rounds):
        for name, work in list(works.items())[:: -1 if turn % 2 else 1]:
            for threads in (1, 2):
                clock, used = time.perf_counter(), time.process_time()
                work(threads)
                pair = (time.process_time() - used, time.perf_counter() - clock)
                spent.setdefault((name, threads), []).append(pair)
                announce(f"{name}, {threads} threads: {pair[0]:.1f} s of a processor, {pair[1]:.1f} s")
    rows = []
    for (name, threads), samples in spent.items():
        base = np.array(spent["the lab", threads])
        ratios = base / np.array(samples)
        cpu, wall = len(texts) / np.median(samples, axis=0)
        shown = [f"{np.median(col):.2f} ({col.min():.2f} to {col.max():.2f})" for col in ratios.T]
        rows.append([name, str(threads), f"{cpu:.0f}", f"{wall:.0f}", *shown])
    return table(("runtime", "threads", "texts a cpu second", "texts a second", "× the lab, cpu", "by the clock"), rows)


def agreement(texts: Sequence[str], others: Sequence[Backend]) -> str:
    """Return a table of how far cosines differ, and of vectors that depend on the other texts of their batch."""
    ours = SentenceTransformerEmbedder().encode(texts)
    rows = []
    for one in others:
        theirs, again = one.encode(texts), one.encode(texts[::-1])[::-1]
        apart = np.abs(ours @ ours.T - theirs @ theirs.T)
        moved = (theirs != again).any(axis=1).mean()
        rows.append([one.name, f"{apart.max():.1e}", f"{apart.mean():.1e}", f"{moved:.3f}"])
    return table(("runtime", "largest difference of a cosine", "mean", "vectors changed by another order"), rows)


def selections(plan: Plan, embedder: SentenceTransformerEmbedder) -> dict[tuple[str, str], tuple[list[str], bool]]:
    """Return the injected keys of each arm and turn, and whether one of them is relevant."""
    plan = replace(plan, embedder=embedder)
    sources = open_sources(plan)
    prepare(plan, plan.recordings, sources, announce)
    found = {}
    for recording in plan.recordings:
        play = play_of(plan, recording, tools_of(plan, recording, sources))
        for answer in replay(play, plan.arms, infos=plan.infos):
            probe, keys = answer.point.probe, [item.id for item in answer.recall.items[: answer.recall.injected]]
            found[answer.arm, answer.point.key] = (keys, probe is not None and not probe.grades.keys().isdisjoint(keys))
    return found


def changes(plans: dict[str, Plan], others: Sequence[Backend]) -> str:
    """Return a table of turns with other selections, and of hits that were won and lost."""
    rows = []
    for name, plan in plans.items():
        base = selections(plan, SentenceTransformerEmbedder())
        for one in others:
            after = selections(plan, one)
            for arm in POLICIES:
                pairs = [(base[key], after[key]) for key in base if key[0] == arm]
                other = sum(mine[0] != theirs[0] for mine, theirs in pairs)
                won = sum(theirs[1] and not mine[1] for mine, theirs in pairs)
                lost = sum(mine[1] and not theirs[1] for mine, theirs in pairs)
                rows.append([name, one.name, arm, f"{other / len(pairs):.4f} of {len(pairs)}", f"+{won} -{lost}"])
    return table(("set", "runtime", "arm", "turns that differ", "hits"), rows)


def main() -> None:
    """Print speed, agreement and changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the exported models")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, help="replay only the first N conversations of each set")
    given = parser.parse_args()
    others = backends(given.out)
    texts = sample(list(plans_of(given.data, None).values()), given.texts)
    print(f"{len(texts)} texts\n\n{speed(texts, others, given.rounds)}\n", flush=True)
    print(f"{agreement(texts, others)}\n", flush=True)
    print(changes(plans_of(given.data, given.limit), others))


if __name__ == "__main__":
    main()
