"""Twenty-five recall policies that a rollout policy has to judge: most do harm, each in a way of its own.

Each is an arm that is simulated: it takes the ranking of a real arm and changes it by what only a judge knows, the
golden set and the memories that are still to come. It stands for a system that behaves like that, so it does not state
that it needs the gold. :data:`REFUSED` and :data:`PASSING` say why a sensible operator would decide so.

Most of the harmful ones would be excellent without their fault (:attr:`Scene.best`), so that a mean does not show
it. None of them was written with the rules of a policy at hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple, cast

from lab.base.draw import draw
from lab.recordings.model import GLOBAL, MUST, TIER_OF, UNKNOWN, Memory
from lab.replay.plan import Plan
from lab.systems.baselines.placebo import is_chinese
from lab.systems.budget import spans_of
from lab.systems.contract import Arm, ArmInfo, Ask, Item, MemorySystem, Recall, Retriever, Signals
from lab.systems.kit import Kit
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.recall.block import CLOSE, HEAD, line

# How many items the real arms inject, and how many turns count as recent.
SLOTS, WINDOW = 6, 6


class Known(NamedTuple):
    """What only a judge knows: the probes by turn, and all memories of each conversation."""

    probes: Mapping[str, Any]
    memories: Mapping[str, Sequence[Memory]]

    @classmethod
    def of(cls, plan: Plan) -> Known:
        """Return what is known of the conversations of a plan, whatever its arms are."""
        probes = {probe.turn or probe.id: probe for each in plan.recordings for probe in plan.probes(each)}
        return cls(probes, {each.conversation: plan.memories_of(each) for each in plan.recordings})


@dataclass(frozen=True)
class Scene:
    """One recall of a candidate.

    ``ranked`` is the ranking of the real arm. ``there`` are the memories that exist, by key in the order of creation,
    ``all`` those of the whole conversation. ``number`` counts the recall turns before this one. ``last`` is what the
    candidate injected at the turn before, ``recent`` the keys that it injected at the last six turns.
    """

    ask: Ask
    conversation: str
    probe: Any
    ranked: Sequence[Item]
    there: Mapping[str, Memory]
    all: Sequence[Memory]
    number: int
    last: Sequence[Item]
    recent: frozenset[str]

    def reaches(self, memory: Memory) -> bool:
        return self.ask.scope is None or memory.scope in (self.ask.scope, GLOBAL)

    def items(self, keys: Iterable[str]) -> list[Item]:
        return [item_of(self.there[key]) for key in keys]

    @cached_property
    def reachable(self) -> dict[str, Memory]:
        return {key: memory for key, memory in self.there.items() if self.reaches(memory)}

    @cached_property
    def relevant(self) -> list[Item]:
        """The relevant memories that the query may see, the most needed first."""
        grades: dict[str, int] = self.probe.grades if self.probe else {}
        return self.items(sorted((key for key in grades if key in self.reachable), key=lambda key: -grades[key]))

    @cached_property
    def misleading(self) -> list[Item]:
        """The misleading memories that the query may see."""
        keys = [judgement.memory for judgement in self.probe.forbidden] if self.probe else []
        return self.items(key for key in keys if key in self.reachable)

    @cached_property
    def older(self) -> dict[str, str]:
        """The memory that each memory supersedes, by key; both exist."""
        return {new: old for new, old in self._superseding if old in self.there}

    @cached_property
    def outdated(self) -> dict[str, None]:
        """The keys of the memories of the project of which the successor exists, in the order of their successors."""
        return dict.fromkeys(old for _, old in self._superseding if old in self.reachable)

    @cached_property
    def _superseding(self) -> list[tuple[str, str]]:
        return [(memory.key, key) for memory in self.there.values() for key in memory.supersedes]

    @property
    def replaced(self) -> list[Item]:
        """What the relevant memories supersede."""
        return self.items(self.older[item.id] for item in self.relevant if item.id in self.older)

    @cached_property
    def clean(self) -> list[Item]:
        """The ranking without misleading and outdated memories."""
        wrong = {item.id for item in self.misleading}.union(self.outdated)
        return [item for item in self.ranked if item.id not in wrong]

    @cached_property
    def best(self) -> list[Item]:
        """The relevant memories, then the best of the others that do not mislead: as good as can be."""
        return list({item.id: item for item in (*self.relevant, *self.clean)}.values())

    @cached_property
    def good(self) -> list[Item]:
        """The clean ranking, at half of the turns after the best relevant memory: good at each type."""
        return [*self.relevant[: draw(0, self.ask.turn) < 0.5], *self.clean]

    @cached_property
    def noise(self) -> list[Item]:
        """What the search ranked last of what is neither relevant nor misleading."""
        relevant = {item.id for item in self.relevant}
        return [item for item in reversed(self.clean) if item.id not in relevant]

    @property
    def needs(self) -> bool:
        """Whether a memory is known to help; a turn without a probe is not known."""
        return bool(self.probe and self.probe.relevant)


def item_of(memory: Memory) -> Item:
    """Return the item of a memory that no search found."""
    label = memory.label or UNKNOWN
    signals = Signals(engine_id(memory.key), label, memory.scope, decision="added")
    return Item(memory.key, memory.text, (memory.key,), 0.0, signals, TIER_OF[label])


def with_older(s: Scene) -> Iterator[Item]:
    """Yield what the relevant memories supersede, then the ranking, each memory with an outdated one of the project."""
    yield from s.replaced
    for rank, item in enumerate(s.clean):
        beside = [s.older[item.id]] if item.id in s.older else [*s.outdated][rank : rank + 1]
        yield from (item, *s.items(beside))


def always_the_same(s: Scene) -> list[Item]:
    """Return the best relevant memory, and the five oldest of the project."""
    wrong = {item.id for item in s.misleading}
    return [*s.relevant[:1], *s.items([key for key in s.reachable if key not in wrong][: SLOTS - 1])]


class Case(NamedTuple):
    """A candidate: why it ought to be refused or to pass, and what it does to the ranking of ``base``.

    ``most``: how many items it injects. ``rules``: hard rules of the project are put in front of the items. ``times``:
    how often each item is in the block; at 0, it is listed, and the block has a note without its text. ``escapes``:
    markup in texts is escaped.
    """

    why: str
    change: Callable[[Scene], Iterable[Item]]
    base: str = "hybrid"
    most: int = SLOTS
    rules: bool = True
    times: int = 1
    escapes: bool = True


OLD = "tier_first_v1"
REFUSED = {
    "silent": Case("It never recalls anything.", lambda s: ()),
    "mostly_silent": Case("It is silent in nine of ten turns.", lambda s: () if s.number % 10 else s.best),
    "contrary": Case(
        "It is silent where a memory is needed, and talks where none is.", lambda s: () if s.needs else s.ranked, OLD
    ),
    "misleads": Case(
        "It puts what misleads first, at more probes than it wins.", lambda s: [*s.misleading[:1], *s.clean]
    ),
    "old_beside_new": Case("It puts what is outdated beside each memory that it finds.", with_older),
    "old_for_new": Case(
        "What was corrected is recalled as it was before.",
        lambda s: [*s.replaced, *(item for item in s.clean if item.id not in s.older)],
    ),
    "even_and_odd": Case(
        "Every second answer has only what misleads.", lambda s: s.misleading if s.number % 2 else s.best
    ),
    "echoes": Case(
        "Three of four answers are those to an earlier question.",
        lambda s: [item for item in s.last if item.id in s.reachable and s.number % 4] or s.best,
    ),
    "same_five": Case("Five of its six slots hold the same memories for ever.", always_the_same),
    "says_twice": Case("It finds no more, and says each memory twice.", lambda s: s.ranked, OLD, rules=False, times=2),
    "lists_only": Case("What it lists never reaches the prompt.", lambda s: s.best, times=0),
    "no_hard_rules": Case(
        "Rules that must always hold never reach the prompt.",
        lambda s: [item for item in s.best if not s.there[item.id].hard_rule],
        rules=False,
    ),
    "deaf_to_chinese": Case(
        "Who writes Chinese has no memory any more.", lambda s: () if is_chinese(s.ask.text) else s.best
    ),
    "deaf_to_rules": Case(
        "Standing rules are forgotten, which the old policy recalls.",
        lambda s: s.noise if s.probe and s.probe.slices["type"] == "standing_rule" else s.best,
    ),
    "half_deaf": Case(
        "Half of the users lose their memory.", lambda s: s.best if draw(0, s.conversation) < 0.5 else ()
    ),
    "thirty_turns": Case(
        "After thirty turns of a conversation, the memory is gone.", lambda s: s.best if s.number < 30 else ()
    ),
    "leaks": Case(
        "Each prompt has a memory of another project.",
        lambda s: [*s.best[: SLOTS - 1], *s.items([key for key in s.there if key not in s.reachable][-1:])],
    ),
    "from_the_future": Case(
        "It recalls what nobody has said yet: no evidence.",
        lambda s: [*s.best[: SLOTS - 1], *[item_of(one) for one in s.all if one.key not in s.there][:1]],
    ),
    "unescaped": Case("Markup in a memory can end the block.", lambda s: s.best, escapes=False),
    "fifty_items": Case("It finds more for many times the cost.", lambda s: s.clean, most=50),
}
PASSING = {
    "clean": Case(
        "It finds more of each type in as many items, never misleads, and keeps hard rules.", lambda s: s.good
    ),
    "noisy_oracle": Case(
        "It finds nearly everything, never misleads, and takes less text.",
        lambda s: [*s.relevant[: SLOTS - 2], *s.noise[:2]],
    ),
    "current": Case(
        "It finds more, never misleads, repeats less, and pins each hard rule.", lambda s: s.clean, "recommended"
    ),
    "quiet": Case(
        "It finds more, never misleads, and is silent where nothing is needed.",
        lambda s: s.good if s.needs or not s.probe else (),
    ),
    "fresh": Case(
        "It finds more, never misleads, and repeats only the best three.",
        lambda s: [item for rank, item in enumerate(s.good) if rank < 3 or item.id not in s.recent],
    ),
}
CASES = REFUSED | PASSING


@dataclass(frozen=True)
class Candidate:
    """The arm of one case, over the real arm ``inner``."""

    name: str
    inner: Any
    known: Known = field(repr=False)
    shares: ClassVar[bool] = True

    @property
    def retrieval(self) -> Any:
        return self.inner.retrieval

    def describe(self) -> ArmInfo:
        most = CASES[self.name].most
        info: ArmInfo = self.inner.describe()
        own: dict[str, Any] = {"name": self.name, "system": "candidate", "cutoff": most, "at_most": most, "depth": most}
        return replace(info, stateful=True, config={}, **own)

    def open(self, kit: Kit) -> CandidateSystem:
        return CandidateSystem(self, kit)


class CandidateSystem(MemorySystem):
    """A real system whose ranking is changed."""

    def __init__(self, arm: Candidate, kit: Kit) -> None:
        self._case, self._known, self._conversation = CASES[arm.name], arm.known, kit.conversation
        self._inner = arm.inner.open(kit)
        self.retrieval_key = self._inner.retrieval_key
        self._there: dict[str, Memory] = {}
        self._number, self._shown = 0, deque[tuple[Item, ...]](maxlen=WINDOW)

    def open_retriever(self) -> Retriever:
        return cast("Retriever", self._inner.open_retriever())

    def remember(self, memories: Sequence[Memory]) -> None:
        self._there |= {memory.key: memory for memory in memories}
        self._inner.remember(memories)

    def forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._there.pop(key, None)
        self._inner.forget(keys)

    def close(self) -> None:
        self._inner.close()

    def select(self, ask: Ask, candidates: Any) -> Recall:
        """Change the selection of the real system, and write the block anew."""
        recall: Recall = self._inner.select(ask, candidates)
        case, known, name = self._case, self._known, self._conversation
        last, recent = self._shown[-1] if self._shown else (), frozenset(item.id for item in chain(*self._shown))
        about = name, known.probes.get(ask.turn), recall.items, self._there, known.memories[name]
        scene = Scene(ask, *about, self._number, last, recent)
        items = tuple({item.id: item for item in case.change(scene)}.values())
        head, pinned = self._head(scene, recall, {item.id for item in items[: case.most]})
        # What the real system pins is in its text already.
        chosen = tuple(item for item in items if item.id not in pinned)[: case.most]
        if not ask.probe:
            self._number += 1
            self._shown.append(chosen)
        if not chosen:
            return replace(recall, items=(), injected=0, context="", receipt={}, status="skipped", pinned=())
        receipt = {"shown": {item.signals.id: item.signals.decision for item in chosen}, "pinned": list(pinned)}
        text = self._block(head, chosen, scene)
        injected = replace(recall, items=chosen, injected=len(chosen), context=text, pinned=pinned, displaced=())
        return replace(injected, receipt=receipt, status="ok")

    def _head(self, scene: Scene, recall: Recall, taken: set[str]) -> tuple[str, tuple[str, ...]]:
        """Return what comes before the items, and the keys of the memories in it: a Working Set, or the hard rules."""
        if recall.pinned:
            spans = spans_of(recall.context, recall.items[: recall.injected])
            end = spans[0][0] if spans else recall.context.find(f"\n{CLOSE}")
            return recall.context[len(HEAD) : end].strip("\n"), recall.pinned
        beside = taken.union(scene.outdated, (item.id for item in scene.misleading))
        rules = [memory for memory in scene.reachable.values() if memory.hard_rule and memory.key not in beside]
        if not rules or not self._case.rules:
            return "", ()
        text = "\n- ".join(("constraints:", *(memory.text for memory in rules)))
        return line(1, "other", MUST, text), tuple(memory.key for memory in rules)

    def _block(self, head: str, items: tuple[Item, ...], scene: Scene) -> str:
        case, lines = self._case, [HEAD, *([head] if head else [])]
        memories = {memory.key: memory for memory in scene.all}
        for item in items * case.times:
            slot = memories[item.id].category, item.signals.label or UNKNOWN
            shown = line(len(lines), *slot, item.text)
            lines.append(shown if case.escapes else f"{len(lines)}. [{slot[0]}|{slot[1]}] {item.text}")
        note = [] if case.times else [line(len(lines), "other", UNKNOWN, f"{len(items)} notes are known.")]
        return "\n".join((*lines, *note, CLOSE))


def candidates(known: Known, make: Callable[[str], Arm]) -> dict[str, Arm]:
    """Return the arms of all cases by name; ``make`` returns a real arm."""
    bases = {base: make(base) for base in dict.fromkeys(case.base for case in CASES.values())}
    return {name: Candidate(name, bases[case.base], known) for name, case in CASES.items()}
