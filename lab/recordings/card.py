"""The card of a folder of recordings: what it is, where it comes from, what it holds, and its checksums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.recordings.readers import Library

CARD, SUMS = "README.md", "SHA256SUMS"


def counts(library: Library) -> str:
    """A Markdown table of what each conversation holds."""
    rows = [
        "| conversation | language | sessions | turns | memories | probes |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for one in library.recordings:
        probes = len(library.golden.of(one.conversation))
        numbers = f"{len(one.sessions)} | {len(one.turns)} | {len(one.memories)} | {probes}"
        rows.append(f"| {one.conversation} | {one.language} | {numbers} |")
    return "\n".join(rows)


def card(title: str, facts: Iterable[tuple[str, str]], parts: Sequence[str]) -> bytes:
    """A card: a heading, a list of facts (those that say something), and more parts below."""
    listed = "\n".join(f"* **{name}**: {said}" for name, said in facts if said)
    return ("\n\n".join([f"# {title}", listed, *parts]) + "\n").encode()


def sums(checksums: dict[str, str]) -> bytes:
    """Checksums as ``sha256sum --check`` reads them."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in sorted(checksums.items())).encode()
