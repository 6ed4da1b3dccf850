"""The arms of a league: each system as configured, and once for each token budget (LG-12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.errors import UnusableInput
from lab.replay.plan import ReplayRequest, with_options
from lab.runs.directory import file_name
from lab.systems.budget import LEAST, MOST, named_budget
from lab.systems.registry import make_arm, parse_arms, systems
from lab.systems.spec import ArmSpec

TOKENS = (128, 256, 512, 768, 1200)
# Systems in the order of the tables: controls, searches without tiers, memory systems, the upper bound. Those that an
# installation lacks are left out.
DEFAULT = (
    *("none", "random", "placebo", "recency", "long_context", "bm25", "vector", "hybrid"),
    *("tier_first_v1", "tier_quota_v1", "seed_full", "recommended", "rsclaw", "auto_recall"),
    *("memory_core", "memory_lancedb", "oracle"),
)
DEFAULT_CAPTURED = (
    "none",
    "verbatim",
    "seed_full",
    "recommended",
    "rsclaw",
    "auto_recall",
    "memory_core",
    "memory_lancedb",
)


@dataclass(frozen=True, slots=True)
class Entrant:
    """A system of the league: its ``name``, how it is written on the command line, and its specification."""

    name: str
    text: str
    spec: ArmSpec

    def at(self, tokens: int) -> str:
        """Return the name of the arm under a budget."""
        return f"{self.name}@{tokens}"

    def texts(self, budgets: Sequence[int]) -> tuple[str, ...]:
        """Return the arms of its replay: as configured, then under each budget."""
        file = self.text[len(self.name) :]
        return (self.text, *(f"{self.at(tokens)}{file}" for tokens in budgets))

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        return file_name(self.name)


def default_arms(source: str) -> tuple[str, ...]:
    """Return the arms of a league that names none."""
    known = systems()
    return tuple(name for name in (DEFAULT_CAPTURED if source == "captured" else DEFAULT) if name in known)


def entrants_of(texts: Sequence[str], shared: ReplayRequest) -> tuple[Entrant, ...]:
    """Parse the arms of a command, whose replays have the options ``shared``.

    Raises :class:`UnusableInput` for an arm that cannot be used.
    """
    entrants = []
    for text, spec in zip(texts, with_options(parse_arms(texts), shared), strict=True):
        name = text.partition("=")[0]
        if named_budget(name)[1] is not None:
            raise UnusableInput(f"arm {name!r}: the league sets the budgets itself; give them with --tokens")
        make_arm(spec)
        entrants.append(Entrant(name, text, spec))
    return tuple(entrants)


def parse_budgets(text: str) -> tuple[int, ...]:
    """Parse ``128,256``: token budgets in increasing order. Raises :class:`UnusableInput` for anything else."""
    try:
        budgets = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UnusableInput(f"--tokens {text!r}: expected whole numbers with commas, such as 128,256,512") from None
    if budgets[0] < LEAST or budgets[-1] > MOST:
        raise UnusableInput(f"--tokens {text!r}: expected whole numbers from {LEAST} to {MOST}")
    return tuple(budgets)
