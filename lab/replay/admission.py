"""Admission: before an arm counts, it proves that what it is named for takes place (LG-5, LG-6).

A live system may run without doing anything: its hook does not fire, its store stays empty, its embedder is never
queried. Its figures would look like those of a poor system. So every arm replays one short scripted conversation first
(:mod:`lab.replay.admission_script`), with the embedder and the store of the run. An arm that cannot give a proof is
refused: it is not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.files import digest, dump_json, read_json
from lab.replay.admission_play import Ground, Seen, play_script
from lab.replay.admission_script import AGAIN, ANSWER, FIRST, MEMORIES, SECOND, STATED, script
from lab.replay.loop import Answered
from lab.runs.records import to_json
from lab.systems.contract import Arm, ArmInfo
from lab.systems.protocols import Claims

if TYPE_CHECKING:
    from pathlib import Path

    from lab.replay.plan import Plan

FILE, KIND = "admission.json", "lab.admission"
DEFAULT = ("relevant",)
# What systems call the two searches in their counters.
LANES = {"words": ("fts", "words"), "meaning": ("vec", "meaning")}
# The lists of hits in a receipt.
HITS = {"words": "ftsTop", "meaning": "vecTop"}
HOOK = "hook:"


class Refused(CannotMeasure):
    """An arm did not prove what it is named for; the message names the proofs that failed."""


class ProofResult(NamedTuple):
    """One proof: whether it ``held``, and what was seen."""

    name: str
    held: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Admission:
    """What an arm proved. ``needs`` are those of its description: an arm that needs a model is not ranked."""

    arm: str
    system: str
    proofs: tuple[ProofResult, ...]
    needs: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every proof held."""
        return all(proof.held for proof in self.proofs)

    @property
    def reason(self) -> str:
        """The proofs that failed, in one line; blank if none did."""
        return "; ".join(f"{proof.name}: {proof.seen}" for proof in self.proofs if not proof.held)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "arm": self.arm,
            "system": self.system,
            "passed": self.passed,
            "needs": list(self.needs),
            "proofs": [proof._asdict() for proof in self.proofs],
        }


def admit(arm: Arm, info: ArmInfo, ground: Ground) -> Admission:
    """Replay the script through an arm and return what it proved (LG-7); no exception of the arm escapes."""
    captures = ground.source == "captured" and info.writes
    claims = claims_of(arm)
    plain = play_script(arm, info, ground, probes=False)
    proofs = [_answers(plain)]
    if captures:
        count = sum(len(entry.writes.created) for entry in plain.wrote if not entry.derived)
        proofs.append(ProofResult("captures", count > 0, f"{count} memories stored from {len(STATED) // 2} statements"))
    if "embedder" in (info.needs or ()) and "embedder" not in claims:
        claims = (*claims, "embedder")
    proofs += [_claimed(claim, plain) for claim in claims]
    if proofs[0].held:
        proofs.append(_no_trace(plain, lambda probes: play_script(arm, info, ground, probes=probes)))
    return Admission(info.name, info.system, tuple(proofs), info.needs or ())


def claims_of(arm: Arm) -> tuple[str, ...]:
    """Return what an arm claims (:class:`lab.systems.protocols.Claims`), or the default."""
    claims = arm.claims if isinstance(arm, Claims) else None
    return DEFAULT if claims is None else tuple(claims)


def require_admitted(admissions: Sequence[Admission]) -> None:
    """Raise :class:`Refused`, naming the proofs that failed, unless all arms are admitted (LG-10)."""
    refused = [admission for admission in admissions if not admission.passed]
    if refused:
        lines = "; ".join(f"arm {admission.arm!r} is refused ({admission.reason})" for admission in refused)
        raise Refused(f"admission: {lines}. Nothing was scored; mend the system, or leave the arm out")


def _answers(seen: Seen) -> ProofResult:
    """Prove that no recall failed, and that none was degraded although nothing was injected as a fault."""
    for answer in seen.answers:
        if answer.failure is not None:
            return ProofResult("answers", False, f"the recall at turn {answer.point.seq} failed: {answer.failure}")
        if answer.recall.status == "degraded":
            return ProofResult("answers", False, f"the recall at turn {answer.point.seq} was degraded, without a fault")
    return ProofResult("answers", True, f"{len(seen.answers)} recalls answered")


def _claimed(claim: str, seen: Seen) -> ProofResult:
    if claim.startswith(HOOK):
        return _counted(claim, seen.counters.get("hooks"), claim.removeprefix(HOOK), "the hook fired")
    if claim in LANES:
        return _lane(claim, seen)
    check = _CHECKS.get(claim)
    if check is None:
        known = ", ".join((*_CHECKS, *LANES, f"{HOOK}NAME"))
        return ProofResult(claim, False, f"the arm claims what the lab cannot test; known: {known}")
    return check(claim, seen)


def _relevant(claim: str, seen: Seen) -> ProofResult:
    """Prove that a prompt brings the memory that has its words: the first question, or the memory word by word."""
    answers = [answer for seq in (FIRST, *AGAIN) if (answer := seen.at(seq)) is not None]
    held = any(ANSWER in _text(answer) for answer in answers)
    state = "is" if held else "is not"
    return ProofResult(claim, held, f"the memory with the words of the prompt {state} in the injected text")


def _embedder(claim: str, seen: Seen) -> ProofResult:
    count = seen.embedded + _number(seen.counters.get("embedder_asked"))
    return ProofResult(claim, count > 0, f"the embedder of the run was queried for {count} texts")


def _lane(claim: str, seen: Seen) -> ProofResult:
    """Prove that a search answered: by ranks of items, lists in receipts or counters of the system (LG-8)."""
    signals = [item.signals for answer in seen.answers for item in answer.recall.items]
    ranked = sum((signal.fts_rank if claim == "words" else signal.vec_rank) is not None for signal in signals)
    # What a search returned need not be injected: the Working Set may hold it already.
    ranked += sum(_hits(answer.recall.receipt, HITS[claim]) for answer in seen.answers)
    lanes = seen.counters.get("lanes")
    if isinstance(lanes, Mapping):
        ranked += sum(_number(lanes.get(name)) for name in LANES[claim])
    return ProofResult(claim, ranked > 0, f"the search by {claim} ranked {ranked} items")


def _something(claim: str, seen: Seen) -> ProofResult:
    count = sum(_holds_memory(answer) for answer in seen.answers)
    return ProofResult(claim, count > 0, f"{count} of {len(seen.answers)} injected texts hold a memory")


def _nothing(claim: str, seen: Seen) -> ProofResult:
    count = sum(bool(answer.recall.context or answer.recall.injected) for answer in seen.answers)
    return ProofResult(claim, count == 0, f"{count} of {len(seen.answers)} recalls injected something")


def _neutral(claim: str, seen: Seen) -> ProofResult:
    texts = sum(bool(answer.recall.context.strip()) for answer in seen.answers)
    holding = sum(_holds_memory(answer) for answer in seen.answers)
    return ProofResult(claim, texts > 0 and not holding, f"{texts} texts injected, {holding} of them hold a memory")


def _newest(claim: str, seen: Seen) -> ProofResult:
    answer = seen.at(FIRST)
    held = answer is not None and MEMORIES[-1] in _text(answer)
    return ProofResult(claim, held, f"the newest memory {'is' if held else 'is not'} in the injected text")


def _recent(claim: str, seen: Seen) -> ProofResult:
    answer = seen.at(SECOND)
    before = [turn.text for turn in script(probes=False).recording.turns if turn.seq < SECOND][-2:]
    turns = answer is not None and all(text in _text(answer) for text in before)
    # An arm that is given memories sees no turns as such: for it, the newest memory is what came last.
    newest = answer is not None and MEMORIES[-1] in _text(answer)
    if turns or newest:
        return ProofResult(claim, True, f"{'the two turns before the prompt' if turns else 'the newest memory'}: there")
    return ProofResult(claim, False, "neither the two turns before the prompt nor the newest memory are in the text")


def _stored(claim: str, seen: Seen) -> ProofResult:
    count = _number(seen.counters.get("stored"))
    return ProofResult(claim, count > 0, f"the system counts {count} stored memories")


def _counted(claim: str, counts: object, name: str, what: str) -> ProofResult:
    count = _number(counts.get(name)) if isinstance(counts, Mapping) else 0
    return ProofResult(claim, count > 0, f"{what} {count} times")


_CHECKS: dict[str, Callable[[str, Seen], ProofResult]] = {
    "relevant": _relevant,
    # An arm that is given the grades proves the same.
    "gold": _relevant,
    "embedder": _embedder,
    "something": _something,
    "nothing": _nothing,
    "neutral": _neutral,
    "newest": _newest,
    "recent": _recent,
    "stored": _stored,
}


def _no_trace(plain: Seen, play: Callable[[bool], Seen]) -> ProofResult:
    """Prove that a probe changes nothing: turns are answered alike with probes between them and without (LG-9)."""
    probed = play(True)
    failed = _answers(probed)
    if not failed.held:
        return ProofResult("probe", False, f"with probes, {failed.seen}")
    names = ("stored",)
    same = plain.of_turns(scores=False) == probed.of_turns(scores=False)
    same_scores = plain.of_turns(scores=True) == probed.of_turns(scores=True)
    same_counts = all(plain.counters.get(name) == probed.counters.get(name) for name in names)
    if same and same_scores and same_counts:
        return ProofResult("probe", True, "probes left no trace")
    again = play(False)
    if again.of_turns(scores=False) != plain.of_turns(scores=False):
        return ProofResult("probe", False, "two equal conversations are answered differently, so nothing can be shown")
    left = ["answers"] * (not same)
    left += ["scores"] * (not same_scores and again.of_turns(scores=True) == plain.of_turns(scores=True))
    left += ["stored memories"] * (
        not same_counts and all(again.counters.get(name) == plain.counters.get(name) for name in names)
    )
    if not left:
        return ProofResult("probe", True, "probes change nothing beyond what differs between equal conversations")
    return ProofResult("probe", False, f"a probe changed later {' and '.join(left)}")


def _text(answer: Answered) -> str:
    return " ".join(unescape(answer.recall.context).split())


def _holds_memory(answer: Answered) -> bool:
    text = _text(answer)
    return any(memory in text for memory in MEMORIES)


def _hits(value: object, name: str) -> int:
    """Return the number of entries in all lists called ``name`` in a receipt."""
    if isinstance(value, Mapping):
        own = value.get(name)
        here = len(own) if isinstance(own, list | tuple) else 0
        return here + sum(_hits(part, name) for key, part in value.items() if key != name)
    return sum(_hits(part, name) for part in value) if isinstance(value, list | tuple) else 0


def _number(value: object) -> int:
    return value if type(value) is int else 0


def ground_of(plan: Plan) -> Ground:
    """Return what the arms of a replay are admitted with."""
    return Ground(plan.embedder, plan.request.store, plan.source, plan.request.seed)


def admitted(plan: Plan, known: Path, which: Callable[[Arm], bool] = lambda _: True) -> bytes | None:
    """Admit the arms of a replay for which ``which`` is true; return the content of the run's file, None without any.

    The file ``known`` of an earlier attempt stands if it is about the same arms under the same conditions. Raises
    :class:`Refused` if an arm is refused.
    """
    arms = [(arm, info) for arm, info in zip(plan.arms, plan.infos, strict=True) if which(arm)]
    if not arms:
        return None
    ground = ground_of(plan)
    key = digest(
        [plan.embedder.identity(), ground.store, ground.source, ground.seed, [to_json(info) for _, info in arms]]
    )
    if known.is_file():
        data = known.read_bytes()
        earlier = read_json(known)
        if isinstance(earlier, dict) and earlier.get("key") == key:
            return data
    admissions: list[Admission] = []
    known_proofs: dict[str, Admission] = {}
    for arm, info in arms:
        # A budget may be too small for what the proofs need, and is no part of what an arm is named for.
        base = getattr(arm, "base", arm)
        described = base.describe() if base is not arm else info
        described = replace(described, name=base.name, system=info.system, writes=info.writes)
        same = digest([described.system, described.version, dict(described.config), described.seed])
        if same not in known_proofs:
            known_proofs[same] = admit(base, described, ground)
        admissions.append(replace(known_proofs[same], arm=info.name))
    require_admitted(admissions)
    return dump_json(
        {"kind": KIND, "key": key} | about(ground) | {"arms": [admission.as_json() for admission in admissions]}
    )


def is_hosted(arm: Arm) -> bool:
    """Return whether an arm is a process or a service behind the lab's code, which must be admitted before a replay."""
    return bool(getattr(getattr(arm, "base", arm), "foreign", False))


def about(ground: Ground) -> dict[str, Any]:
    """Return the conditions of an admission as JSON values."""
    model = str(ground.embedder.identity().get("model", ""))
    return {"embedder": model, "store": ground.store, "source": ground.source, "seed": ground.seed}
