"""Admission: an arm that does not do what it is named for is refused, with the proof that failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab.embedding.embedder import HashingEmbedder
from lab.recordings.model import Memory, Turn
from lab.replay.admission import ANSWER, FILE, MEMORIES, Admission, Ground, Refused, admit, require_admitted
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.systems.budget import within
from lab.systems.contract import NOTHING, ArmInfo, Ask, Item, MemorySystem, Recall, Signals, Stored, Writes
from lab.systems.kit import Kit
from lab.systems.registry import info_of, make_arm, systems
from lab.systems.spec import ArmSpec
from tests.playing import OPERATORS

GIVEN = Ground(HashingEmbedder())
CAPTURED = replace(GIVEN, source="captured")


def words(text: str) -> set[str]:
    return {word.strip(".,?:").lower() for word in text.split()}


@dataclass(frozen=True)
class SoundArm:
    """An arm that works: it stores what it is given or what users say, embeds it, and recalls what shares words."""

    name: str = "sound"
    kind: str = "sound"
    claims: tuple[str, ...] = ("relevant", "words", "meaning", "embedder", "stored", "hook:before_prompt_build")
    foreign: bool = True

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "sound", 6, 6, at_most=6, writes=True)

    def open(self, kit: Kit) -> Sound:
        return KINDS[self.kind](self, kit)


class Sound(MemorySystem):
    """The system; the subclasses below each fail at one thing."""

    signals = Signals(fts_rank=1, vec_rank=1)

    def __init__(self, arm: SoundArm, kit: Kit) -> None:
        self.kit, self.stored = kit, dict[str, str]()
        self.fired = 0

    def embed(self, texts: Sequence[str]) -> None:
        self.kit.embedder.encode(texts)

    def remember(self, memories: Sequence[Memory]) -> None:
        self.stored |= {memory.key: memory.text for memory in memories}
        self.embed([memory.text for memory in memories])

    def ranked(self, ask: Ask) -> list[str]:
        shared = {key: len(words(text) & words(ask.text)) for key, text in self.stored.items()}
        return sorted(shared, key=lambda key: (-shared[key], key))[:6]

    def recall(self, ask: Ask) -> Recall:
        self.fired += 1
        self.embed([ask.text])
        items = tuple(Item(key, self.stored[key], score=1.0, signals=self.signals) for key in self.ranked(ask))
        return Recall(items, len(items), self.written(items))

    def written(self, items: Sequence[Item]) -> str:
        return "\n".join(item.text for item in items)

    def observe(self, turn: Turn) -> Writes:
        if not self.kit.captures or turn.role != "user":
            return NOTHING
        row = Stored(f"own-{turn.seq}", turn.text, (turn.key,))
        self.stored[row.id] = row.text
        return Writes((row,))

    def prove(self) -> Mapping[str, Any]:
        return {"stored": len(self.stored), "hooks": {"before_prompt_build": self.fired}, "lanes": {}}


class NeverEmbeds(Sound):
    def embed(self, texts: Sequence[str]) -> None:
        return


class DeafToWords(Sound):
    signals = Signals(vec_rank=1)


class DeafToMeaning(Sound):
    signals = Signals(fts_rank=1)


class StoresNothing(Sound):
    def observe(self, turn: Turn) -> Writes:
        return NOTHING


class HookThatDoesNotFire(Sound):
    def prove(self) -> Mapping[str, Any]:
        return {**super().prove(), "hooks": {"agent_end": 3}}


class ForgetsWhatItIsGiven(Sound):
    def remember(self, memories: Sequence[Memory]) -> None:
        self.embed([memory.text for memory in memories])


class RecallsTheWrongOnes(Sound):
    def ranked(self, ask: Ask) -> list[str]:
        return [key for key in sorted(self.stored) if ANSWER not in self.stored[key]][:6]


class WritesNoText(Sound):
    def written(self, items: Sequence[Item]) -> str:
        return "see the attachment" if items else ""


class RememberingProbes(Sound):
    """A system that lowers what it injected, and counts probes as well."""

    def __init__(self, arm: SoundArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self.seen: set[str] = set()

    def ranked(self, ask: Ask) -> list[str]:
        ranked = sorted(super().ranked(ask), key=lambda key: key in self.seen)
        self.seen.update(ranked[:2])
        return ranked


class ScoringProbes(Sound):
    """A system whose scores, not its order, depend on earlier queries."""

    def recall(self, ask: Ask) -> Recall:
        answer = super().recall(ask)
        items = tuple(item._replace(score=1.0 / self.fired) for item in answer.items)
        return replace(answer, items=items)


class StoringProbes(Sound):
    """A system that stores queries, which no recall shows."""

    asked = 0

    def recall(self, ask: Ask) -> Recall:
        self.asked += ask.probe
        return super().recall(ask)

    def prove(self) -> Mapping[str, Any]:
        return {**super().prove(), "stored": len(self.stored) + self.asked}


class Restless(Sound):
    """A system that answers equal conversations differently."""

    opened = 0

    def __init__(self, arm: SoundArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        Restless.opened += 1
        self.turn = Restless.opened

    def written(self, items: Sequence[Item]) -> str:
        return f"{super().written(items)}\nopened {self.turn}"


class Raises(Sound):
    def recall(self, ask: Ask) -> Recall:
        raise RuntimeError("the secret text of a memory")


class Degraded(Sound):
    def recall(self, ask: Ask) -> Recall:
        return replace(super().recall(ask), status="degraded")


class RaisesAtProof(Sound):
    def prove(self) -> Mapping[str, Any]:
        raise OSError


KINDS: dict[str, Callable[[SoundArm, Kit], Sound]] = {"sound": Sound}
# Each broken system, the source of memories that shows it, and the proof that it fails.
BROKEN = [
    (NeverEmbeds, GIVEN, "embedder: the embedder of the run was queried for 0 texts"),
    (DeafToWords, GIVEN, "words: the search by words ranked 0 items"),
    (DeafToMeaning, GIVEN, "meaning: the search by meaning ranked 0 items"),
    (StoresNothing, CAPTURED, "captures: 0 memories stored from 7 statements"),
    (HookThatDoesNotFire, GIVEN, "hook:before_prompt_build: the hook fired 0 times"),
    (ForgetsWhatItIsGiven, GIVEN, "stored: the system counts 0 stored memories"),
    (RecallsTheWrongOnes, GIVEN, "relevant: the memory with the words of the prompt is not in the injected text"),
    (WritesNoText, GIVEN, "relevant: the memory with the words of the prompt is not in the injected text"),
    (RememberingProbes, GIVEN, "probe: a probe changed later answers"),
    (ScoringProbes, GIVEN, "probe: a probe changed later scores"),
    (StoringProbes, GIVEN, "probe: a probe changed later stored memories"),
    (Restless, GIVEN, "probe: two equal conversations are answered differently"),
    (Raises, GIVEN, "answers: the recall at turn 0 failed: RuntimeError in recall"),
    (Degraded, GIVEN, "answers: the recall at turn 0 was degraded, without a fault"),
    (RaisesAtProof, GIVEN, "stored: the system counts 0 stored memories"),
]
KINDS |= {kind.__name__: kind for kind, _, _ in BROKEN}


def admission_of(kind: str, ground: Ground, **changed: Any) -> Admission:
    arm = SoundArm(kind, kind, **changed)
    return admit(arm, arm.describe(), ground)


@pytest.mark.parametrize("ground", [GIVEN, CAPTURED], ids=["given", "captured"])
def test_working_arm_is_admitted(ground: Ground) -> None:
    admission = admission_of("sound", ground)
    assert admission.passed, admission.reason
    assert {proof.name for proof in admission.proofs} >= {"answers", "relevant", "words", "meaning", "probe"}
    assert ("captures" in {proof.name for proof in admission.proofs}) == (ground is CAPTURED)


@pytest.mark.parametrize(("kind", "ground", "reason"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_arm_that_lacks_one_thing_is_refused(kind: type[Sound], ground: Ground, reason: str) -> None:
    admission = admission_of(kind.__name__, ground)
    assert not admission.passed
    assert reason in admission.reason
    # No message of an exception, which may hold a text.
    assert "secret" not in json.dumps(admission.as_json())
    with pytest.raises(Refused, match=kind.__name__):
        require_admitted([admission])


def test_unknown_claim_is_refused_with_the_known_ones() -> None:
    admission = admission_of("sound", GIVEN, claims=("telepathy",))
    assert "telepathy: the arm claims what the lab cannot test; known: relevant" in admission.reason


def test_arm_that_needs_the_embedder_must_query_it() -> None:
    arm = SoundArm("NeverEmbeds", "NeverEmbeds", claims=("relevant",))
    assert admit(arm, arm.describe(), GIVEN).passed
    needing = admit(arm, replace(arm.describe(), needs=("embedder",)), GIVEN)
    assert [proof.name for proof in needing.proofs if not proof.held] == ["embedder"]


@pytest.mark.parametrize("ground", [GIVEN, CAPTURED], ids=["given", "captured"])
@pytest.mark.parametrize("system", [name for name in systems() if name not in ("external", "plugin")])
def test_built_in_system_is_admitted(system: str, ground: Ground) -> None:
    spec = ArmSpec(system, system)
    arm = make_arm(spec)
    info = info_of(spec, arm)
    admission = admit(arm, info if ground is CAPTURED else replace(info, writes=False), ground)
    assert admission.passed, admission.reason
    # Every system is named for something besides answering without a trace.
    assert len(admission.proofs) > 2


@pytest.mark.parametrize("system", ["tier_first_v1", "engine", "hybrid"])
def test_admission_holds_in_the_profile_of_the_plugin(system: str) -> None:
    spec = ArmSpec(system, system, profile="upstream")
    arm = make_arm(spec)
    assert admit(arm, info_of(spec, arm), GIVEN).reason == ""


def replay_of(kind: str, out: Path) -> None:
    arm = SoundArm(kind, kind)
    request = ReplayRequest(str(OPERATORS), "lab", (kind,), embedder="hashing", limit=1, haystack=0)
    run_replay(request, out, made={kind: arm})


def test_replay_refuses_an_external_arm_that_fails_a_proof(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"arm 'NeverEmbeds' is refused \(embedder: "):
        replay_of("NeverEmbeds", tmp_path / "run")
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert Refused.exit_code == 4


def test_arm_under_a_small_budget_is_admitted_by_what_it_is_without(tmp_path: Path) -> None:
    base = SoundArm("sound", "sound")
    arms = {f"sound@{tokens}": within(replace(base, name=f"sound@{tokens}"), tokens) for tokens in (16, 64)}
    request = ReplayRequest(str(OPERATORS), "lab", tuple(arms), embedder="hashing", limit=1, haystack=0)
    run_replay(request, tmp_path / "run", made=arms)
    value = json.loads((tmp_path / "run" / FILE).read_text())
    assert [(arm["arm"], arm["passed"]) for arm in value["arms"]] == [("sound@16", True), ("sound@64", True)]


def test_replay_keeps_the_proofs_of_an_external_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay_of("sound", tmp_path / "run")
    value = json.loads((tmp_path / "run" / FILE).read_text())
    assert [(arm["arm"], arm["passed"]) for arm in value["arms"]] == [("sound", True)]
    assert not any(memory in (tmp_path / "run" / FILE).read_text() for memory in MEMORIES)

    def never(*_: object) -> Admission:
        raise AssertionError

    # A resumed replay does not repeat them.
    monkeypatch.setattr("lab.replay.admission.admit", never)
    replay_of("sound", tmp_path / "run")
