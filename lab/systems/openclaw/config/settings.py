"""The records of a resolved configuration.

Sections have the names of the plugin's JSON in snake case. :class:`Phases` belongs to this project: features that the
seeds require or the specification leaves open, and that the plugin has no key for. They are built from JSON by
:mod:`lab.systems.openclaw.config.resolve`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.retrieval.clamp import Clamp
from lab.retrieval.fusion import RRF, Fusion
from lab.retrieval.silence import Silence
from lab.retrieval.tokens import TextSettings
from lab.systems.openclaw.recall.block import Budget
from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.select.outcome import Quota

DEFAULT_QUOTA = Quota(must_max=2, nice_min=2, unknown_max=1)


@dataclass(frozen=True, slots=True)
class AutoRecall:
    """``autoRecall`` (E-5), with the knobs of seed 000 that the plugin refuses."""

    enabled: bool = True
    max_items: int = 6
    skip_trivial_prompts: bool = True
    trivial_min_chars: int = 24
    include_unknown_fallback: bool = True
    tier_search_multiplier: int = 2
    selection_mode: str = "tier_first_v1"
    quota: Quota = DEFAULT_QUOTA
    strict_caps: bool = True
    quotas_per: str = "turn"
    repeat_window_turns: int = 6
    repeat_penalty: float = 0.35
    dedupe_backbone: bool = True

    @property
    def search_limit(self) -> int:
        """The search depth of each lane of each tier (E-20)."""
        return max(self.max_items, min(50, self.max_items * max(1, self.tier_search_multiplier)))


@dataclass(frozen=True, slots=True)
class AutoCapture:
    """``autoCapture`` (E-73), without ``todoStaleTtlDays``, which recall reads. Sizes are UTF-16 units."""

    enabled: bool = True
    max_items_per_turn: int = 2
    max_chars_per_item: int = 240
    max_scanned_user_messages: int = 24
    max_text_blocks_per_message: int = 4
    max_total_input_chars: int = 48_000
    capture_preference: bool = True
    capture_decision: bool = True
    capture_todo: bool = False
    max_todo_per_turn: int = 1
    todo_dedupe_window_hours: int = 24
    dedupe_similarity_threshold: float = 0.92
    duplicate_search_min_score: float = 0.94


@dataclass(frozen=True, slots=True)
class WorkingSetSettings:
    """``workingSet`` (E-26). Sizes are UTF-16 units and lines.

    ``variant``: the text is the profile's (``current``) or the older one (``v1``; E-69).
    """

    enabled: bool = False
    persist: bool = True
    max_chars: int = 1200
    max_items_per_section: int = 3
    max_goal_chars: int = 200
    max_item_chars: int = 180
    variant: str = "current"


@dataclass(frozen=True, slots=True)
class ReceiptSettings:
    """``receipts`` (E-40): their verbosity, and the maximum length of their lists."""

    enabled: bool = True
    verbosity: str = "low"
    max_items: int = 3


@dataclass(frozen=True, slots=True)
class DocsSettings:
    """``docsColdLane`` (E-47).

    ``by_path``: outside a repository, a document is cited by its path below the root. Without it, as in the sidecar, it
    is cited by its name, so that of two files of one name the later one replaces the other.
    """

    enabled: bool = False
    source_roots: tuple[str, ...] = ()
    source_globs: tuple[str, ...] = ("**/*.md",)
    max_chunk_chars: int = 1400
    embed_on_ingest: bool = True
    max_items: int = 2
    max_snippet_chars: int = 280
    min_hot_items: int = 2
    search_fts_k: int = 20
    search_vec_k: int = 20
    search_rrf_k: int = 60
    scope_mapping_strategy: str = "repo_prefix"
    scope_map: tuple[tuple[str, tuple[str, ...]], ...] = ()
    by_path: bool = True


@dataclass(frozen=True, slots=True)
class Phases:
    """The switches of the seeds' phases 2 and 3 and of the open decisions (E-54); the JSON key ``lab.phases``.

    ``repeat``: whether repeat suppression is on. ``repeat_decay``: compounding, linear, once or literal (16.2).
    ``repeat_history``: count over the whole conversation or per session. ``repeat_counts``: recall_turns or
    all_user_turns. ``repeat_exempt_top``: this many of the best candidates of the whole pool are exempt from repeat
    suppression. ``relevance``: the scale that factors multiply: rank (linear in the fused rank), rrf (k = 60, flat),
    reciprocal (k = 0), similarity, or fused (the score of ``lab.fusion``). ``relevance_over``: use ranks within a tier,
    or ranks in the whole pool. ``score``: the enabled factors of the final score (16.3). ``exact_hit``: whether only
    names count as exact hits, or also numbers of four digits; ``exact_boost``: the factor of an exact hit, 1 for none.
    ``trust``: prefer, soft (16.7) or off. ``min_relevance``: hits without a text match and with a lower cosine are
    dropped, 0 for none (20.16). ``recent_days``: the slot of unknown memories is also open to memories that are at most
    this old, 0 for none. ``replaced``: a newer memory that shares this weight of words replaces an older one, 0 for
    none; ``ended``: memories end on the day that they name (:mod:`lab.systems.openclaw.seed.outdated`).
    ``recency_window_days``: older hits are dropped, 0 for none. ``hard_rules``: 16.5.
    ``pinned_counts``: the Working Set takes a slot of maxItems (inside) or is added on top (extra).
    ``item_max_chars``: a longer memory is cut to this many UTF-16 units, 0 for no limit; hard rules are never cut.
    ``tier_mode``: fallback (the tier ignore if recall would be empty), live (never), or loop_v0 (3.5).
    ``receipt``: receipts explain every item and every must memory that lost its slot (screen), or list
    ``receipts.maxItems`` items (listed); under any selection policy.
    """

    repeat: bool = True
    repeat_decay: str = "compounding"
    repeat_history: str = "conversation"
    repeat_counts: str = "recall_turns"
    repeat_exempt_top: int = 0
    relevance: str = "rank"
    relevance_over: str = "tier"
    score: tuple[str, ...] = ("relevance", "scope_match", "recency", "importance_prior", "novelty")
    exact_hit: str = "names"
    exact_boost: float = 1.0
    trust: str = "prefer"
    min_relevance: float = 0.0
    replaced: float = 0.0
    ended: bool = False
    recency_window_days: int = 0
    recent_days: int = 7
    hard_rules: bool = True
    pinned_counts: str = "inside"
    item_max_chars: int = 0
    tier_mode: str = "fallback"
    receipt: str = "screen"


# All phases off: in the plugin, and under the old policy, so that one line of configuration rolls back.
NO_PHASES = Phases(
    repeat=False,
    score=(),
    trust="off",
    recent_days=0,
    hard_rules=False,
    pinned_counts="extra",
    tier_mode="live",
    receipt="listed",
)


@dataclass(frozen=True, slots=True)
class Rerank:
    """``lab.rerank``: the endpoint (None: no reranking), the model that requests name, and the bounds of a request.

    ``candidates`` is the number of first hits that it may reorder. An answer later than ``timeout_ms`` is not used.
    ``key_env`` names the environment variable with the API key. ``allow_remote``: texts may leave this machine.
    """

    url: str | None = None
    model: str | None = None
    candidates: int = 20
    timeout_ms: int = 2000
    key_env: str | None = None
    allow_remote: bool = False


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A resolved configuration: only what recall and capture read."""

    profile: str = "seed"
    auto_recall: AutoRecall = field(default_factory=AutoRecall)
    auto_capture: AutoCapture = field(default_factory=AutoCapture)
    scope_policy: ScopePolicy = field(default_factory=ScopePolicy)
    budget: Budget = field(default_factory=Budget)
    working_set: WorkingSetSettings = field(default_factory=WorkingSetSettings)
    receipts: ReceiptSettings = field(default_factory=ReceiptSettings)
    docs: DocsSettings = field(default_factory=DocsSettings)
    embedding: Clamp = field(default_factory=Clamp)
    todo_stale_ttl_days: int = 7
    read_only: bool = False
    phases: Phases = field(default_factory=Phases)
    text: TextSettings = field(default_factory=TextSettings)
    fusion: Fusion = RRF
    silence: Silence = field(default_factory=Silence)
    rerank: Rerank = field(default_factory=Rerank)

    @property
    def upstream(self) -> bool:
        """Whether the profile is that of the public plugin."""
        return self.profile == "upstream"

    @property
    def phased(self) -> bool:
        """Whether the seeds' phases are active. They are off under the old policy, so that switching back is enough."""
        return self.auto_recall.selection_mode != "tier_first_v1"

    @property
    def active_phases(self) -> Phases:
        """The phases in effect."""
        return self.phases if self.phased else NO_PHASES

    def floor_under(self, policy: str) -> float:
        """Return the floor of the cosine under a selection policy that runs alone: the old policy has none."""
        return 0.0 if policy == "tier_first_v1" else self.phases.min_relevance

    @property
    def explains_all(self) -> bool:
        """Whether receipts explain every item, and not only the first ``receipts.maxItems`` (E-68)."""
        return self.phases.receipt == "screen"

    @property
    def max_items(self) -> int:
        """The maximum number of injected items."""
        return self.auto_recall.max_items
