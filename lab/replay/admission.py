"""Admission: before an arm counts, it proves that what it is named for takes place (LG-5, LG-6).

A live system may run without doing anything: its hook does not fire, its store stays empty, its embedder is never
queried. Its figures would look like those of a poor system. So every arm replays one short scripted conversation first,
always the same, with the embedder and the store of the run. An arm that cannot give a proof is refused: it is not
scored.

Names and places in the script are invented and occur nowhere else, so that a text holds one only if the system recalled
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.files import digest, dump_json, read_json
from lab.base.shape import to_json
from lab.embedding.embedder import DOCUMENT, Embedder, Role
from lab.embedding.vectors import Vectors
from lab.golden.model import Judgement, Probe
from lab.recordings.model import MUST, NICE, Memory, Recording, Turn
from lab.replay.loop import Answered, Play, RecallCall, Source, TurnWrites, replay
from lab.replay.timeline import RecallPoint
from lab.retrieval.retrievers import Retrieval, StoreRetriever, make_store
from lab.retrieval.tokens import words_under
from lab.systems.contract import Arm, ArmInfo, Claims, Prepares, Proves
from lab.systems.kit import Tools, Workshop
from lab.systems.openclaw.capture.secrets import holds_secret

if TYPE_CHECKING:
    from pathlib import Path

    from lab.replay.plan import Plan

NAME = "admission"
# What is stated, and what is queried on the next day: some systems search only sessions that have ended.
SESSIONS = (f"{NAME}/s1", f"{NAME}/s2")
# 5 January 2026, 09:00 UTC.
START, STEP, DAY = 1_767_603_600_000, 300_000, 86_400_000

RELEVANT = f"{NAME}/m0"
NEWEST = f"{NAME}/m11"
# The first is what the questions are about; the last is the newest.
MEMORIES = (
    "The user prefers Marguerite Oduya as the harbour pilot for the Kirkwall tide survey.",
    "The boiler of the Calliope needs nine copper gaskets before the Friday inspection.",
    "Invoices of the bakery are filed by supplier, in green folders.",
    "The choir rehearses in the old granary, because the church hall is too cold.",
    "The greenhouse thermostat was replaced in March by a battery model.",
    "Grandmother's plum cake uses buckwheat flour and no sugar.",
    "The bicycle lock has a red dot on its spare key.",
    "Parking behind the theatre is free after six in the evening.",
    "The printer in the library prints on both sides unless it is told otherwise.",
    "The puppy is afraid of thunder and sleeps beside the wardrobe.",
    "Two of the chairs on the terrace have to be painted again.",
    "The archive moved to the Rosneath depot, because the cellar floods in autumn.",
)
# Statements that a system that captures keeps: more preferences than a Working Set shows, so that one must be searched.
STATED = (
    ("user", "Please remember this: I prefer Marguerite Oduya as the harbour pilot for the Kirkwall tide survey."),
    ("assistant", "Noted. Marguerite Oduya is the harbour pilot whom you prefer for the Kirkwall tide survey."),
    ("user", "Please remember this as well: I prefer invoices of the bakery in green folders, by supplier."),
    ("assistant", "Noted. Invoices of the bakery go into green folders, one for each supplier."),
    ("user", "Please remember that I prefer buckwheat flour in the plum cake of my grandmother."),
    ("assistant", "Noted. The plum cake is baked with buckwheat flour."),
    ("user", "Please remember that I prefer two-sided printing in the library, unless I say otherwise."),
    ("assistant", "Noted. The printer in the library prints on both sides."),
    ("user", "Please remember that I prefer the spare key of the bicycle lock with a red dot."),
    ("assistant", "Noted. A red dot marks the spare key of the bicycle lock."),
    ("user", "We decided to move the archive to the Rosneath depot, because the cellar floods in autumn."),
    ("assistant", "Understood. The archive moves to the Rosneath depot, so that no flood reaches it."),
    ("user", "The weather was fine today, and the neighbours painted two chairs on their terrace."),
    ("assistant", "That sounds like a pleasant afternoon for everybody on the terrace."),
)
ASKED = (
    ("user", "Which harbour pilot do I prefer for the Kirkwall tide survey? Please give me the name of the pilot."),
    ("assistant", "I will look that up before the survey begins, and tell you the name."),
    ("user", "Where did we decide to move the archive, and is it because the cellar floods in autumn?"),
    ("assistant", "I will check which depot it was, and why."),
)
# The memory and the statement word by word: some systems search for all words, or inject only what is very similar.
REPEATED = (
    ("user", MEMORIES[0]),
    ("assistant", "That is what I have noted as well, thank you for the reminder."),
    STATED[0],
    ("assistant", "Noted once more, nothing has changed since."),
)
SAID = (*STATED, *ASKED, *REPEATED)
# The turns of the questions, and those of the repetitions.
FIRST, SECOND = len(STATED), len(STATED) + 2
AGAIN = (SECOND + 2, SECOND + 4)
# A name that the text injected at the first question, or at a repetition, must hold.
ANSWER = "Marguerite Oduya"


class Script(NamedTuple):
    """The recording and its recall points, with or without probes."""

    recording: Recording
    points: tuple[RecallPoint, ...]


def script(*, probes: bool) -> Script:
    """Return the conversation; with ``probes``, each prompt is also queried outside of it, just before."""
    turns = tuple(_turn(seq, role, text) for seq, (role, text) in enumerate(SAID))
    memories = tuple(
        Memory(f"{NAME}/m{number}", text, text, 0, START - STEP * (len(MEMORIES) - number), label=_label(number))
        for number, text in enumerate(MEMORIES)
    )
    points: list[RecallPoint] = []
    for turn in turns:
        if turn.role != "user":
            continue
        expected = {FIRST: RELEVANT, SECOND: NEWEST}.get(turn.seq)
        relevant = (Judgement(expected),) if expected else ()
        judged = Probe(turn.key, NAME, turn.key, None, relevant)
        if probes:
            key = f"{turn.key}/probe"
            outside = Probe(key, NAME, None, turn.text, relevant)
            points.append(RecallPoint(key, turn.seq, turn.text, None, turn.time_ms, False, outside))
        points.append(RecallPoint(turn.key, turn.seq, turn.text, turn.scope, turn.time_ms, True, judged, turn.session))
    return Script(Recording(NAME, turns, memories), tuple(points))


def _turn(seq: int, role: str, text: str) -> Turn:
    later = seq >= FIRST
    session = SESSIONS[later]
    return Turn(f"{session}/{seq}", seq, session, role, text, START + STEP * seq + DAY * later)


def _label(number: int) -> str:
    return MUST if number in (0, len(MEMORIES) - 1) else NICE


@dataclass(frozen=True, slots=True)
class Ground:
    """What arms are admitted with: the embedder, the store, the source of memories and the seed of the run."""

    embedder: Embedder
    store: str = "exact"
    source: Source = "given"
    seed: int = 0


class _Counted:
    """An embedder or its vectors; ``texts`` counts those queried, not those that the lab itself prepares."""

    def __init__(self, counted: Any) -> None:
        self._counted, self.texts = counted, 0

    def __getattr__(self, name: str) -> Any:
        """Return what the embedder or its vectors have."""
        return getattr(self._counted, name)

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> Any:
        """Count and return the vectors."""
        self.texts += len(texts)
        self._counted.prepare(texts, None, role)
        return self._counted.of(texts, role)

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> Any:
        """Count and embed."""
        self.texts += len(texts)
        return self._counted.encode(texts, role)


@dataclass(slots=True)
class Seen:
    """What one replay of the script showed: answers, writes, texts embedded, and the counters of the system."""

    answers: list[Answered] = field(default_factory=list)
    wrote: list[TurnWrites] = field(default_factory=list)
    embedded: int = 0
    counters: Mapping[str, Any] = field(default_factory=dict)

    def at(self, seq: int) -> Answered | None:
        """Return the answer at a recall turn."""
        return next(
            (answer for answer in self.answers if answer.point.is_recall_turn and answer.point.seq == seq), None
        )

    def of_turns(self, *, scores: bool) -> list[Any]:
        """Return what must not depend on probes: answers at recall turns, and writes."""
        answers = [
            (
                answer.point.key,
                answer.recall.status,
                answer.recall.injected,
                answer.recall.context,
                [(item.text, round(item.score, 9) if scores else 0) for item in answer.recall.items],
            )
            for answer in self.answers
            if answer.point.is_recall_turn
        ]
        kinds = ("created", "updated")
        writes = [
            (entry.turn.key, [[row.text for row in getattr(entry.writes, kind)] for kind in kinds], entry.derived)
            for entry in self.wrote
        ]
        return [answers, writes]


def play_script(arm: Arm, info: ArmInfo, ground: Ground, *, probes: bool) -> Seen:
    """Replay the script through an arm; ``probes``: each question is also posed outside of the conversation."""
    vectors: Any = _Counted(Vectors(ground.embedder))
    embedder: Any = _Counted(ground.embedder)

    def live(retrieval: Retrieval) -> StoreRetriever:
        words = words_under(retrieval.text, holds_secret)
        words.prepare([*MEMORIES, *(turn.text for turn in scripted.recording.turns)])
        scans = retrieval.text.lane == "scan"
        store = make_store(ground.store, vectors.dimension, retrieval.text)
        return StoreRetriever(store, vectors, words, retrieval.clamp, as_stored=scans)

    workshop = Workshop(ground.embedder, vectors)
    data = arm.prepare(workshop) if isinstance(arm, Prepares) else None
    prepared = {} if data is None else {info.name: data}
    scripted = script(probes=probes)
    tools = Tools(scripted.recording.conversation, embedder, vectors, live, live, ground.seed, prepared=prepared)
    play = Play(scripted.recording, scripted.recording.memories, scripted.points, tools, ground.source)
    seen = Seen()
    last = scripted.points[-1].key

    def on_recall(call: RecallCall) -> None:
        if call.ask.turn == last and isinstance(call.system, Proves):
            seen.counters = _counters(call.system)

    seen.answers = list(replay(play, [arm], seen.wrote.append, on_recall, [info]))
    seen.embedded = vectors.texts + embedder.texts
    return seen


def _counters(system: Proves) -> Mapping[str, Any]:
    try:
        counters = system.prove()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a system may raise anything; without counters, it proves nothing by them
        return {}
    return counters if isinstance(counters, Mapping) else {}


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
    """Return what an arm claims (:class:`lab.systems.contract.Claims`), or the default."""
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
