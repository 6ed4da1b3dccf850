"""Propose facts from explicit triples in a text (TF-12). Proposals are for review: nothing is ever written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json_lines
from lab.base.shape import expect, field
from lab.memory.facts.model import SCHEMA, TIERS, Source, entity, source_of
from lab.memory.facts.predicates import ENTITY, LITERAL, NAMES, PREDICATES, predicate_named

PROPOSED = "openclaw-mem.graph.fact.extraction-proposal.v0"
MEASURED = "openclaw-mem.graph.fact.extraction-measure.v0"
MOST = 20
Triple = tuple[str, str, str]
_NAMES = "|".join(sorted(NAMES, key=len, reverse=True))
_TRIPLE = re.compile(rf"(?<![\w:])(entity:[\w.:/-]{{1,200}})\s+({_NAMES})\s+(.+)$")


def triples(text: str) -> list[Triple]:
    """Return the triples ``entity:X predicate value`` in a text, at most one a line; aliases become predicates."""
    found = []
    for line in text.splitlines():
        if match := _TRIPLE.search(line.strip()):
            subject, predicate, value = match.groups()
            # A full stop ends the sentence.
            if value := value.strip().rstrip(".").strip():
                found.append((subject, predicate_named(predicate), value))
    return found


def propose(text: str, sources: Sequence[str], *, most: int = MOST) -> dict[str, Any]:
    """Return proposals for review from a text, each with its sources. Raises :class:`UnusableInput` without a source.

    They have no interval and no id: a reviewer decides from when a fact holds, and asserts it.
    """
    named = list(map(source_of, sources))
    if not named:
        raise UnusableInput("missing_source_refs: a proposal needs the source of the text; give --source doc:PATH")
    proposals = [_proposal(triple, named) for triple in triples(text)[:most]]
    return {
        "kind": PROPOSED,
        "schema": SCHEMA,
        "writes_performed": False,
        "review_required": True,
        "proposal_count": len(proposals),
        "proposals": proposals,
    }


def _proposal(triple: Triple, sources: Iterable[Source]) -> dict[str, Any]:
    subject, predicate, value = triple
    kind = ENTITY if value.startswith("entity:") else LITERAL
    allowed = PREDICATES[predicate].objects
    return {
        "schema": SCHEMA,
        "subject": {"ref": subject, "label": subject.partition(":")[2]},
        "predicate": predicate,
        "object": {"type": kind if kind in allowed else allowed[0], "value": value},
        "valid_from": None,
        "valid_to": None,
        "status": "proposed",
        "confidence_tier": TIERS[1],
        "source_refs": [source._asdict() for source in sources],
        "writes_performed": False,
    }


def measure(corpus: Path, golden: Path, *, most: int = MOST) -> dict[str, Any]:
    """Compare the triples in a corpus (JSON Lines with ``text``) with a golden set of triples.

    Return the counts, precision and recall; 0 where nothing was proposed or expected. Raises :class:`UnusableInput`
    with file and line for a wrong shape.
    """
    proposed: set[Triple] = set()
    for number, row in read_json_lines(corpus):
        proposed.update(triples(field(row, "text", str, f"{corpus}:{number}"))[:most])
    expected = set()
    for number, row in read_json_lines(golden):
        at = f"{golden}:{number}"
        subject, predicate = (expect(row.get(name), str, f"{at}: {name}") for name in ("subject", "predicate"))
        try:
            expected.add((entity(subject), predicate_named(predicate), str(row.get("object", "")).strip()))
        except UnusableInput as error:
            raise UnusableInput(f"{at}: {error}") from None
    both = len(proposed & expected)
    return {
        "kind": MEASURED,
        "schema": SCHEMA,
        "writes_performed": False,
        "apply_allowed": False,
        "counts": {
            "golden": len(expected),
            "proposed": len(proposed),
            "truePositive": both,
            "falsePositive": len(proposed) - both,
            "falseNegative": len(expected) - both,
        },
        "precision": both / len(proposed) if proposed else 0.0,
        "recall": both / len(expected) if expected else 0.0,
    }
