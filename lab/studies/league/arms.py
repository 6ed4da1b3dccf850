"""The arms of a league: each system as configured, and once for each token budget (LG-12); and its command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from shlex import join
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import file_name
from lab.replay.plan import with_options
from lab.runs.request import ReplayRequest
from lab.systems.budget import LEAST, MOST, named_budget, with_budget
from lab.systems.contract import Arm
from lab.systems.registry import make_arm, parse_arms, systems
from lab.systems.spec import ArmSpec

TOKENS = (128, 256, 512, 768, 1200)
# Systems in the order of the tables: controls, searches without tiers, memory systems, the upper bound. Those that an
# installation lacks are left out.
DEFAULT = (
    *("none", "random", "placebo", "recency", "long_context", "bm25", "vector", "hybrid"),
    *("tier_first_v1", "tier_quota_v1", "seed_full", "recommended", "rsclaw", "rsclaw_text"),
    *("auto_recall", "memory_core", "memory_lancedb", "oracle"),
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

# Arms that only the league knows: a system with another configuration, by name. rsclaw injects the first sentences of a
# memory as its overview; with whole texts it is comparable to arms that inject those.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {"rsclaw_text": ("rsclaw", {"lab": {"lines": "text"}})}


@dataclass(frozen=True, slots=True)
class Entrant:
    """A system of the league: its ``name``, how it is written on the command line, and its specification."""

    name: str
    text: str
    spec: ArmSpec

    def at(self, tokens: int) -> str:
        """Return the name of the arm under a budget."""
        return f"{self.name}@{tokens}"

    def made(self, budgets: Sequence[int]) -> dict[str, Arm]:
        """Return the arms of its replay if the command line cannot name them, else none."""
        if self.name not in VARIANTS:
            return {}
        config = self.spec.config
        under = [replace(self.spec, name=self.at(tokens), config=with_budget(config, tokens)) for tokens in budgets]
        specs = [self.spec, *under]
        return {spec.name: make_arm(spec) for spec in specs}

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
    return tuple(
        name for name in (DEFAULT_CAPTURED if source == "captured" else DEFAULT) if name in known or name in VARIANTS
    )


def entrants_of(texts: Sequence[str], shared: ReplayRequest) -> tuple[Entrant, ...]:
    """Parse the arms of a command, whose replays have the options ``shared``.

    Raises :class:`UnusableInput` for an arm that cannot be used.
    """
    entrants = []
    specs = [spec for text in texts for spec in _spec_of(text)]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UnusableInput(f"arm {name!r} is given twice")
    for text, spec in zip(texts, with_options(specs, shared), strict=True):
        name = text.partition("=")[0]
        if named_budget(name)[1] is not None:
            raise UnusableInput(f"arm {name!r}: the league sets the budgets itself; give them with --tokens")
        make_arm(spec)
        entrants.append(Entrant(name, text, spec))
    return tuple(entrants)


def _spec_of(text: str) -> tuple[ArmSpec, ...]:
    if text in VARIANTS:
        system, config = VARIANTS[text]
        return (ArmSpec(text, system, config),)
    return parse_arms([text])


def parse_budgets(text: str) -> tuple[int, ...]:
    """Parse ``128,256``: token budgets in increasing order. Raises :class:`UnusableInput` for anything else."""
    try:
        budgets = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UnusableInput(f"--tokens {text!r}: expected whole numbers with commas, such as 128,256,512") from None
    if budgets[0] < LEAST or budgets[-1] > MOST:
        raise UnusableInput(f"--tokens {text!r}: expected whole numbers from {LEAST} to {MOST}")
    return tuple(budgets)


def league_command(
    sets: Sequence[str], arms: Sequence[str], budgets: Sequence[int], shared: ReplayRequest, format_name: str | None
) -> str:
    """Return the command, without options at their defaults."""
    words = ["lab", "study", "league", *sets]
    if format_name:
        words += ["--format", format_name]
    for arm in arms:
        words += ["--arm", arm]
    if tuple(budgets) != TOKENS:
        words += ["--tokens", ",".join(map(str, budgets))]
    for field in fields(ReplayRequest):
        value = getattr(shared, field.name)
        if field.default is MISSING or value == field.default:
            continue
        option = f"--{field.name.replace('_', '-')}"
        for entry in value if isinstance(value, tuple) else (value,):
            words += [option] if entry is True else [option, str(entry)]
    return join([*words, "--out", "DIR"])
