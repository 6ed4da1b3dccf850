"""The data card (README.md) and the checksum file of a folder of recordings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.recordings.readers import Library

CARD, SUMS = "README.md", "SHA256SUMS"


def counts(library: Library) -> str:
    """Return a Markdown table with one row per conversation: its language and sizes."""
    rows = [
        "| conversation | language | sessions | turns | memories | probes |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for recording in library.recordings:
        probes = len(library.golden.of(recording.conversation))
        numbers = f"{len(recording.sessions)} | {len(recording.turns)} | {len(recording.memories)} | {probes}"
        rows.append(f"| {recording.conversation} | {recording.language} | {numbers} |")
    return "\n".join(rows)


def card(title: str, facts: Iterable[tuple[str, str]], parts: Sequence[str]) -> bytes:
    """Return a card in Markdown: the title, the facts that are not blank, then ``parts``."""
    listed = "\n".join(f"* **{name}**: {value}" for name, value in facts if value)
    return ("\n\n".join([f"# {title}", listed, *parts]) + "\n").encode()


def sums(checksums: dict[str, str]) -> bytes:
    """Return the checksums in the format of ``sha256sum --check``."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in sorted(checksums.items())).encode()
