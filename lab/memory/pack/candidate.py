"""The candidates that a lane offers to the packer, of one record type, and the settings of a pack (PK-2, PK-11).

Profile ``upstream`` packs as the public sidecar does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol

from lab.base.shape import expect
from lab.recordings.model import UNKNOWN
from lab.systems.files.settings import Reader

SEED, UPSTREAM = "seed", "upstream"
OFF, EXCLUDE_QUARANTINED = "off", "exclude_quarantined_fail_open"
# Orders of candidates: by trust and then relevance, by relevance alone, or by trust, importance and then relevance.
TRUST, RELEVANCE, POLICY = RANKS = ("trust", "relevance", "policy")
MOST_TOKENS, MOST_ITEMS = 1_000_000, 200
# The most tokens of an abstract (L0), without its citation.
ABSTRACT = 32
# The reason of a lane that has no scopes, where one was given.
UNSCOPED = "no_scopes_all_searched"


@dataclass(frozen=True, slots=True)
class Quotas:
    """Soft quotas by kind (PK-6): slots reserved for preferences and decisions, and the largest share of events."""

    preference_min: int = 1
    decision_min: int = 1
    event_max_ratio: float = 0.4


@dataclass(frozen=True, slots=True)
class Tail:
    """The protected tail of the last turns (PK-8): how many at most, and their own budget of tokens; 0: none."""

    items: int = 4
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a pack may hold.

    ``quotas`` None: there are none. ``most_details`` is the largest number of raw records, ``overview_share`` the
    largest share of the budget that one overview may take before the other candidates had their turn.
    """

    profile: str = SEED
    limit: int = 12
    budget_tokens: int = 1200
    trust_policy: str = EXCLUDE_QUARANTINED
    rank: str = TRUST
    quotas: Quotas | None = Quotas()
    tail: Tail = Tail()
    dissent: bool = True
    most_details: int = 2
    overview_share: float = 0.5

    @property
    def is_upstream(self) -> bool:
        """Whether to pack as the public sidecar does."""
        return self.profile == UPSTREAM

    @property
    def overview_tokens(self) -> int:
        """The most tokens of an overview: its share of the budget, and no fewer than an abstract may have."""
        return max(ABSTRACT, int(self.budget_tokens * self.overview_share))

    @property
    def depth(self) -> int:
        """The number of candidates that a lane is searched for, as in the sidecar."""
        return max(3 * self.limit, self.limit + 8)


def upstream(**values: Any) -> Settings:
    """Return the sidecar's own settings, changed by ``values``: no trust policy, no dissent, no raw records."""
    defaults = Settings(UPSTREAM, trust_policy=OFF, dissent=False, most_details=0)
    return replace(defaults, **values)


def read_settings(config: Mapping[str, Any] | None, where: str, limit: int | None = None) -> Settings:
    """Return the settings of an arm's configuration; ``limit`` is the default number of items.

    Raises :class:`UnusableInput` for an unknown key or a value out of range.
    """
    top = Reader({} if config is None else config, where, (*_KEYS, "lab", "sources"))
    base = Settings()
    quotas: Quotas | None = base.quotas
    if top.get("quotas") is False:
        quotas = None
    elif top.get("quotas") not in (None, True):
        part = Reader(expect(top.get("quotas"), dict, f"{where}: quotas"), f"{where}: quotas", _QUOTAS)
        quotas = Quotas(
            part.whole("preferenceMin", 1, 0, MOST_ITEMS),
            part.whole("decisionMin", 1, 0, MOST_ITEMS),
            part.number("eventMaxRatio", 0.4, 0, 1),
        )
    tail = top.inner("tail", ("items", "tokens"))
    return Settings(
        limit=top.whole("limit", limit or base.limit, 1, MOST_ITEMS),
        budget_tokens=top.whole("budgetTokens", base.budget_tokens, 0, MOST_TOKENS),
        trust_policy=top.choice("trustPolicy", (EXCLUDE_QUARANTINED, OFF)),
        rank=top.choice("rank", RANKS),
        quotas=quotas,
        tail=Tail(tail.whole("items", 4, 0, MOST_ITEMS), tail.whole("tokens", 0, 0, MOST_TOKENS)),
        dissent=top.flag("dissent", True),
        overview_share=top.number("overviewShare", base.overview_share, 0, 1),
    )


def describe(settings: Settings) -> dict[str, Any]:
    """Return a configuration that :func:`read_settings` reads back as these settings."""
    quotas = settings.quotas
    return {
        "limit": settings.limit,
        "budgetTokens": settings.budget_tokens,
        "trustPolicy": settings.trust_policy,
        "rank": settings.rank,
        "quotas": dict(zip(_QUOTAS, asdict(quotas).values(), strict=True)) if quotas else False,
        "tail": asdict(settings.tail),
        "dissent": settings.dissent,
        "overviewShare": settings.overview_share,
    }


_QUOTAS = ("preferenceMin", "decisionMin", "eventMaxRatio")


_KEYS = ("limit", "budgetTokens", "trustPolicy", "rank", "quotas", "tail", "dissent", "overviewShare")


class Candidate(NamedTuple):
    """One record that a pack may include.

    ``ref`` identifies it permanently and is its citation: ``obs:12``, ``ep:…``, ``fact_…``, ``doc:PATH#2`` or the key
    of a memory. ``text`` is its overview (L1), ``abstract`` one line (L0; "": made from the text) and ``detail`` the
    raw record (L2; None: there is none). ``kind`` is preference, decision, fact, event and so on; ``importance`` a
    label of :data:`lab.recordings.model.LABELS`; ``trust`` trusted, unknown, untrusted or quarantined. ``score`` is its
    relevance in ``lane``, higher is better; ``retrievers`` are the searches that returned it, such as ``fts``. Times
    are UTC milliseconds: ``ts_ms`` is that of its origin, ``due_ms`` that of a plan. ``supersedes`` and ``contradicts``
    are refs of other candidates. ``sources`` are the keys of the turns or memories it came from.
    """

    ref: str
    text: str
    lane: str
    score: float = 0.0
    kind: str = "note"
    abstract: str = ""
    detail: str | None = None
    importance: str = UNKNOWN
    trust: str = "unknown"
    scope: str | None = None
    ts_ms: int = 0
    due_ms: int | None = None
    url: str | None = None
    retrievers: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class Found(NamedTuple):
    """What one lane returned for a query, best first.

    ``searched`` False means that the lane was not searched; ``reason`` says why in a few words without text of
    memories. A lane that failed in part has a ``reason`` and the candidates that it could return.
    """

    lane: str
    candidates: Sequence[Candidate] = ()
    searched: bool = True
    reason: str | None = None


class Lane(Protocol):
    """A source of candidates. A lane never raises if something is missing: it says so in :attr:`Found.reason`."""

    @property
    def name(self) -> str:
        """The name of the lane in a trace, such as ``ledger`` or ``episodes``."""
        ...

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return at most ``limit`` candidates of a scope (None: all) that existed at ``now_ms``."""
        ...
