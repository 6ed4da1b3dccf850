"""Measure how much of the published answers recall and packs put before the model: the last table of docs/pack.md.

python -m tests.trials.pack_answers DATA --out FOLDER [--set NAME …] [--arm NAME …]

FOLDER has the replays of pack_table, which are replayed again for their blocks. The words of an answer that count are
those that a relevant memory has and the question does not; a probe without such a word is left out. A word in the block
may come from another memory: a block with more text has more words by chance, whatever the arm.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.files import read_json
from lab.recordings import beam
from lab.recordings.model import Recording
from lab.replay.loop import replay
from lab.replay.plan import Plan, plan_of
from lab.replay.sources import Sources, play_of, prepared_sources, tools_of
from lab.retrieval.sentence_words import words
from lab.runs.directory import RunDirectory, open_run
from tests.trials.pack_table import ARMS, BUDGETS

Answers = dict[str, str]


class Seen(NamedTuple):
    """A probe at a budget: the share of the answer's words in the block, 0 to 1, and whether all of them are there."""

    budget: int
    share: float
    is_whole: bool


def main() -> None:
    """Print a table of the sets, arms and budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", choices=list(READERS))
    parser.add_argument("--arm", action="append", choices=list(ARMS))
    given = parser.parse_args()
    print(f"| set | arm | probes | {' | '.join(f'{budget:,} (all)' for budget in BUDGETS)} |")
    print(f"| --- | --- | ---: |{' ---: |' * len(BUDGETS)}")
    for name in given.set or READERS:
        answers = READERS[name](given.data / name.lower())
        for arm in given.arm or ("hybrid", "pack"):
            seen = list(judged(open_run(given.out / name / arm), answers))
            cells = []
            for budget in BUDGETS:
                own = [one for one in seen if one.budget == budget]
                share, whole = fmean(one.share for one in own), fmean(one.is_whole for one in own)
                cells.append(f"{share:.3f} ({whole:.3f})".replace("0.", "."))
            print(f"| {name} | `{arm}` | {len(seen) // len(BUDGETS)} | {' | '.join(cells)} |", flush=True)


def judged(run: RunDirectory, answers: Answers) -> Iterator[Seen]:
    """Yield every probe of a run at every budget, but for those whose answer has no word of a relevant memory."""
    plan = plan_of(run)
    sources = prepared_sources(plan)
    for recording in plan.recordings:
        yield from _conversation(plan, recording, sources, answers)


def _conversation(plan: Plan, recording: Recording, sources: Sources, answers: Answers) -> Iterator[Seen]:
    play = play_of(plan, recording, tools_of(plan, recording, sources))
    texts = {memory.key: memory.text for memory in recording.memories}
    with closing(replay(play, plan.arms)) as recalls:
        for recall in recalls:
            probe = recall.point.probe
            if recall.failure:
                raise CannotMeasure(f"{recall.point.key}: {recall.arm} failed: {recall.failure}")
            if probe is None or probe.id not in answers:
                continue
            relevant = {word for key in probe.grades for word in words(texts[key])}
            counted = set(words(answers[probe.id])) & relevant - set(words(recall.point.text))
            if counted:
                found = counted & set(words(recall.recall.context))
                yield Seen(int(recall.arm.partition("@")[2]), len(found) / len(counted), found == counted)


def _locomo(folder: Path) -> Answers:
    """Return the answers by probe id; adversarial questions have none."""
    return {
        f"{sample['sample_id']}/q{number:03d}": str(question["answer"])
        for file in folder.glob("*.json")
        for sample in read_json(file)
        for number, question in enumerate(sample["qa"], 1)
        if "answer" in question
    }


def _beam(folder: Path) -> Answers:
    """Return the answers by probe id; where a summary, an order or a contradiction is asked for, the ideal text."""
    answers = {}
    for chat in folder.glob("*/*/chat.json"):
        for ability, questions in read_json(beam.questions_of(chat)[0]).items():
            for number, question in enumerate(questions, 1):
                found = next(
                    (question[key] for key in ("answer", "ideal_answer", "ideal_summary") if key in question), ""
                )
                answers[f"{chat.parent.parent.name}-{chat.parent.name}/{ability}-{number}"] = str(found)
    return answers


def _realmem(folder: Path) -> Answers:
    """Return the assistant's answer to every query by probe id."""
    answers = {}
    for file in folder.glob("*.json"):
        value = read_json(file)
        for session in value["dialogues"]:
            spoken = session["dialogue_turns"]
            for number, (turn, after) in enumerate(pairwise(spoken)):
                if turn.get("is_query"):
                    name = value["_metadata"]["person_name"]
                    answers[f"{name}/{session['session_uuid']}/{number}"] = after["content"]
    return answers


READERS = {"LoCoMo": _locomo, "BEAM": _beam, "RealMem": _realmem}

if __name__ == "__main__":
    main()
