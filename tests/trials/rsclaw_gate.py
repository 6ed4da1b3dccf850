"""What rsclaw's gate lets through of shipped:capture: ``python -m tests.trials.rsclaw_gate``.

Prints, by language and profile, the share of the user's lines to keep, and of those not to keep, whose message passes
the gate, is a correction, or holds an identifier. No extractor behind the gate can keep more.
"""

from __future__ import annotations

from pathlib import Path

from lab.base.set_registry import golden_at, recordings_at
from lab.golden.files import read_golden
from lab.recordings.model import Turn
from lab.recordings.readers import read_library
from lab.systems.rsclaw.extract import entities, lessons, passes_gate

SET = "shipped:capture"


def is_read(turn: Turn, *, fold: bool) -> bool:
    """Return whether anything may be stored of a message."""
    text = turn.text
    return bool(passes_gate(text, fold=fold) or lessons(text, fold=fold) or entities(text))


def main() -> None:
    """Print the table."""
    library = read_library(Path(recordings_at(SET)), "lab")
    turns = {turn.key: turn for recording in library.recordings for turn in recording.turns}
    captures = [capture for capture in read_golden(Path(golden_at(SET))).captures if turns[capture.turn].role == "user"]
    print("| profile | language | to keep | let through | not to keep | let through |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for profile, fold in (("seed", True), ("code", False)):
        for language in ("English", "Chinese"):
            kept = dropped = kept_through = dropped_through = 0
            for capture in captures:
                turn = turns[capture.turn]
                if any("一" <= letter <= "鿿" for letter in turn.text) is (language == "English"):
                    continue
                through = is_read(turn, fold=fold)
                kept += len(capture.relevant)
                dropped += len(capture.irrelevant)
                kept_through += len(capture.relevant) * through
                dropped_through += len(capture.irrelevant) * through
            shares = kept_through / kept, dropped_through / dropped
            print(f"| {profile} | {language} | {kept} | {shares[0]:.3f} | {dropped} | {shares[1]:.3f} |")


if __name__ == "__main__":
    main()
