"""The conversation in which every arm proves that it works: memories, turns and questions, always the same.

Names and places in it are invented and occur nowhere else, so that a text holds one only if the system recalled it.
"""

from __future__ import annotations

from typing import NamedTuple

from lab.golden.model import Judgement, Probe
from lab.recordings.model import MUST, NICE, Memory, Recording, Turn
from lab.replay.recall_points import RecallPoint

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
    """Return the conversation; with ``probes``, each prompt is also asked outside of it, just before."""
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
