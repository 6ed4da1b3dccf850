"""What the lab knows about an arm: part of the contract, and of every manifest, which is read without the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArmInfo:
    """What the lab needs to know about an arm; the content of ``config`` is opaque to the lab.

    ``cutoff``: the number of items that it intends to inject, which is the k of the headline measures. ``at_most``: the
    largest number of items that it may inject; a recall that injects more has failed (None: no limit). ``depth``: how
    many ranks of its ranking are meaningful; measures with a larger cutoff are null. ``writes``: it captures memories
    itself. ``stateful``: earlier queries change later answers. ``needs_gold``: queries give it the grades of relevant
    memories. ``labelled``: importance labels change what it recalls. ``config``: its resolved configuration in plain
    JSON values, without secrets, from which the same arm can be made. ``inputs``: the sha256 of each file it reads, by
    name. ``embedder``: the embedding model that the configuration names, if any. ``seed``: the seed of its random
    numbers, if any. ``missing``: configuration keys that the lab does not support. ``derives``: its recalls store rows,
    never items. ``needs``: ``embedder`` or ``model``, if not without. ``off``: why it is never run.
    """

    name: str
    system: str
    cutoff: int = field(metadata={"about": "number of items that it intends to inject"})
    depth: int = field(metadata={"about": "number of meaningful ranks"})
    config: Mapping[str, object] = field(default_factory=dict, metadata={"about": "opaque to the lab"})
    version: str = field(default="", metadata={"about": "name, version and source hash of another package, if any"})
    at_most: int | None = field(default=None, metadata={"about": "largest number of items that it may inject"})
    writes: bool = field(default=False, metadata={"about": "whether it captures memories"})
    stateful: bool = True
    needs_gold: bool = False
    labelled: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict, metadata={"about": "sha256 of the files it reads, by name"})
    embedder: str | None = field(default=None, metadata={"about": "the embedding model that its configuration names"})
    seed: int | None = None
    missing: tuple[str, ...] = field(default=(), metadata={"about": "configuration keys that are not implemented"})
    derives: bool = field(default=False, metadata={"about": "whether its recalls store rows of their own"})
    needs: tuple[str, ...] | None = field(default=None, metadata={"about": "what it cannot work without"})
    off: str | None = field(default=None, metadata={"about": "why its host does not run it"})
