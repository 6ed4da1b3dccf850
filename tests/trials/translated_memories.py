"""What a translated memory costs: hits with prompts and memories in the same and in different languages (seed 002).

python -m tests.trials.translated_memories DATA

DATA/madial holds MADial-Bench in English and in Chinese, with the same memories under the same numbers and the same
dialogues. The archive of one language is searched with the prompts of either.

The shipped Chinese conversations exist in one language only. Of their memories, what no translation changes is kept
for the search: names, numbers and identifiers in Latin letters. So the search by words finds in them what it would
find in a translation.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

from lab.recordings.model import Recording
from tests.trials.lanes import ARMS, Hit, Loaded, difference, mean_of, shown, table

OPERATORS = Path(__file__).resolve().parents[2] / "datasets" / "operators"
LANGUAGES = {"en": "English", "zh": "Chinese"}
# Letters and digits that stay as they are in a translation into English, with what joins them.
LATIN = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/:#@%+-]*")


def latin_only(recording: Recording) -> Recording:
    """Return a recording whose memories are searched by their Latin words and numbers only."""
    memories = tuple(
        replace(memory, index_text=" ".join(LATIN.findall(memory.index_text)) or "-") for memory in recording.memories
    )
    return replace(recording, memories=memories)


def with_memories_of(recording: Recording, other: Recording) -> Recording:
    """Return a recording with the texts of another one's memories of the same number."""
    texts = {memory.key.partition("#")[2]: memory.text for memory in other.memories}
    numbers = {memory.key: memory.key.partition("#")[2] for memory in recording.memories}
    memories = tuple(
        replace(memory, text=texts[number], index_text=texts[number])
        for memory in recording.memories
        if (number := numbers[memory.key]) in texts
    )
    return replace(recording, memories=memories)


def madial(data: Path) -> None:
    """Print the hits of MADial by the languages of prompts and memories."""
    loaded = {code: Loaded.of(data / "madial", "madial", code) for code in LANGUAGES}
    hits: dict[tuple[str, str], list[Hit]] = {}
    for asked, one in loaded.items():
        for stored, other in loaded.items():
            others = {each.conversation[2:]: each for each in other.plan.recordings}
            hits[asked, stored] = one.hits(
                change=lambda recording, others=others: with_memories_of(recording, others[recording.conversation[2:]])
            )
    probes = len(hits["en", "en"]) // len(ARMS)
    print(f"\nMADial, {probes} probes in each language, one user\n")
    rows = [
        [LANGUAGES[asked], LANGUAGES[stored], *(shown(mean_of(found, arm)) for arm in ARMS)]
        for (asked, stored), found in hits.items()
    ]
    print(table(("prompts", "memories", *ARMS), rows))


def shipped() -> None:
    """Print the hits of the shipped Chinese conversations, with memories as they are and as if translated."""
    one = Loaded.of(OPERATORS, "lab")
    chinese = [recording for recording in one.plan.recordings if "zh" in recording.language]
    one = one._replace(plan=replace(one.plan, recordings=chinese))
    kept, translated = one.hits(), one.hits(change=latin_only)
    probes = len(kept) // len(ARMS)
    print(f"\nshipped:operators, {len(chinese)} Chinese conversations, {probes} probes\n")
    rows = [
        ["as stored", *(shown(mean_of(kept, arm)) for arm in ARMS)],
        ["what a translation keeps", *(shown(mean_of(translated, arm)) for arm in ARMS)],
        ["difference", *(shown(difference(kept, translated, arm), signed=True) for arm in ARMS)],
    ]
    print(table(("memories", *ARMS), rows))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    madial(parser.parse_args().data)
    shipped()


if __name__ == "__main__":
    main()
