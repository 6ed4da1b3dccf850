"""The table of the engine's configuration keys: type, default in each profile, and range (E-5).

``tests/conformance/plugin_config.py`` applies the table as the public plugin does, ignoring invalid input;
:mod:`lab.systems.openclaw.config.resolve` as the lab does, with an error for invalid input. The key ``lab`` belongs to
this project; the plugin does not know it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from lab.retrieval.fusion import METHODS, NORMALISATIONS, K
from lab.retrieval.silence import SIGNALS

SEED, UPSTREAM = PROFILES = ("seed", "upstream")
Kind = Literal[
    "flag",
    "whole",
    "number",
    "positive",
    "choice",
    "word",
    "text",
    "secret",
    "texts",
    "args",
    "scope",
    "scopes",
    "map",
    "any",
    "true",
    "time",
]


class Knob(NamedTuple):
    """One key with a value.

    ``default`` and ``high`` are the plugin's, ``seed`` and ``seed_high`` those of profile ``seed`` if they differ. For
    lists, ``high`` is the maximum length. ``refill``: an empty list becomes the default. ``only_seed``: the plugin has
    no such key. ``manifest``: the range in the plugin's manifest, which hosts enforce, if it differs. ``here``: whether
    the lab reads the key (None: as its section); ``absent``: values that require a recall which the lab does not
    implement.
    """

    kind: Kind
    default: Any = None
    low: float = 0
    high: float = math.inf
    choices: tuple[str, ...] = ()
    seed: Any = None
    seed_high: float | None = None
    refill: bool = False
    only_seed: bool = False
    manifest: tuple[int, int] | None = None
    here: bool | None = None
    absent: tuple[Any, ...] = ()

    def default_in(self, profile: str) -> Any:
        """Return the default in a profile; None if there is none."""
        return self.seed if profile == SEED and self.seed is not None else self.default

    def high_in(self, profile: str) -> float:
        """Return the largest value, or the maximum length of a list."""
        return self.seed_high if profile == SEED and self.seed_high is not None else self.high


class Section(NamedTuple):
    """A key with an object.

    ``wrong``: the plugin's error message for another type, with ``{}`` for the path; if empty, the plugin uses the
    defaults. ``boolean``: a boolean is accepted: false switches the section off, true means the defaults, or also
    switches it on (``true_is_on``). ``only_object``: the plugin's manifest accepts no boolean. ``closed``: the plugin
    refuses unknown keys. ``presets``: names that stand for an object. ``here``: False for a feature that the lab does
    not implement.
    """

    keys: Mapping[str, Knob | Section]
    wrong: str = "{} must be a boolean or object"
    boolean: bool = True
    true_is_on: bool = False
    closed: bool = True
    only_seed: bool = False
    only_object: bool = False
    presets: Mapping[str, Mapping[str, Any]] = {}
    here: bool = True


def flag(default: bool, *, only_seed: bool = False) -> Knob:
    """Return a key with a boolean."""
    return Knob("flag", default, only_seed=only_seed)


def whole(
    default: int,
    low: int,
    high: int,
    *,
    seed: int | None = None,
    seed_high: int | None = None,
    only_seed: bool = False,
    manifest: tuple[int, int] | None = None,
) -> Knob:
    """Return a key with a whole number."""
    return Knob("whole", default, low, high, seed=seed, seed_high=seed_high, only_seed=only_seed, manifest=manifest)


def number(default: float, low: float, high: float, *, only_seed: bool = False) -> Knob:
    """Return a key with a number."""
    return Knob("number", default, low, high, only_seed=only_seed)


def choice(*choices: str, seed: str | None = None, only_seed: bool = False) -> Knob:
    """Return a key with a fixed set of values, the first of which is the default."""
    return Knob("choice", choices[0], choices=choices, seed=seed, only_seed=only_seed)


def text(default: str | None = None) -> Knob:
    """Return a key with a text."""
    return Knob("text", default)


def texts(*default: str, most: int = 64, refill: bool = False) -> Knob:
    """Return a key with a list of texts."""
    return Knob("texts", default, high=most, refill=refill)


# The section of a configuration that belongs to this project.
LAB_KEY = "lab"
# The names of the selection policies, the default first (:mod:`lab.systems.openclaw.select.policies`).
POLICIES = (
    "tier_first_v1",
    "tier_quota_v1",
)
# The maximum number of fallback scopes.
MOST_FALLBACKS = 6

_KIB = 1024
# The seeds require up to 6 items. The plugin's manifest allows 6, but the plugin clamps to 5 (E-6).
MAX_CHARS = whole(1800, 300, 12_000)
MAX_ITEMS = whole(4, 1, 5, seed=6, seed_high=6, manifest=(1, 6))
_BUFFER = whole(512 * _KIB, 64 * _KIB, 2048 * _KIB)
QUOTAS = Section(
    {
        "mustMax": whole(2, 0, 5),
        "niceMin": whole(2, 0, 5),
        "unknownMax": whole(1, 0, 5),
        # Seed 000 says both "mustMax is a cap, not a target" (strict) and "remaining slot(s): best available across
        # tiers" (best, as in the plugin, which treats both maxima as reservations; E-15).
        "wildcard": choice("strict", "best", only_seed=True),
        # The older name: strict, or reservation for best.
        "caps": Knob("choice", choices=("reservation", "strict"), only_seed=True),
        # Whether a fallback scope gets the remaining quotas, or all of them again (E-16).
        "per": choice("turn", "scope", only_seed=True),
    },
    wrong="{} must be an object",
    boolean=False,
)
_ROUTE_AUTO = Section(
    {
        "enabled": Knob("flag", False, absent=(True,)),
        "command": text("openclaw-mem"),
        "commandArgs": Knob("args", (), high=64),
        "dbPath": text(),
        "timeoutMs": whole(1800, 200, 15_000),
        "maxBufferBytes": _BUFFER,
        "maxChars": whole(420, 120, 2400),
        "maxGraphCandidates": whole(2, 1, 5),
        "maxTranscriptSessions": whole(2, 1, 5),
    },
    wrong="{} must be an object",
    boolean=False,
    here=False,
)
_CANVAS_PATTERNS = (
    *("handoff", "closeout", "closure", "checkpoint", "receipt", "verifier", "subagent", "inter-session message"),
    *("queued announce", "工程規格", "刀舞", "non-stop", "交接", "收尾", "驗證", "完成", "實作", "測試"),
)
# Sections are in the order in which the plugin reads them, because it reports only its first complaint.
PLUGIN: dict[str, Knob | Section] = {
    "embedding": Section(
        {
            "apiKey": Knob("secret"),
            "model": choice("text-embedding-3-small", "text-embedding-3-large"),
            "maxChars": whole(6000, 200, 200_000),
            "headChars": whole(500, 0, 200_000, manifest=(0, 20_000)),
            "maxBytes": Knob("positive", manifest=(500, 200_000)),
        },
        wrong="{} config must be an object",
        boolean=False,
    ),
    "dbPath": Knob("text", here=False),
    "tableName": Knob("text", here=False),
    "autoRecall": Section(
        {
            "enabled": flag(True),
            "maxItems": MAX_ITEMS,
            "skipTrivialPrompts": flag(True),
            "trivialMinChars": whole(8, 2, 40, seed=24),
            "includeUnknownFallback": flag(True),
            "tierSearchMultiplier": whole(2, 1, 6),
            "selectionMode": choice(*POLICIES),
            "quotas": QUOTAS,
            "routeAuto": _ROUTE_AUTO,
            "repeatWindowTurns": whole(6, 0, 50, only_seed=True),
            "repeatPenalty": number(0.35, 0, 1, only_seed=True),
            "dedupeBackbone": flag(True, only_seed=True),
        }
    ),
    "autoCapture": Section(
        {
            "enabled": flag(True),
            "maxItemsPerTurn": whole(2, 1, 3, seed_high=4),
            "maxCharsPerItem": whole(240, 60, 320),
            "maxScannedUserMessages": whole(24, 1, 64),
            "maxTextBlocksPerMessage": whole(4, 1, 8),
            "maxTotalInputChars": whole(48_000, 1000, 120_000),
            "capturePreference": flag(True),
            "captureDecision": flag(True),
            "captureTodo": flag(False),
            "maxTodoPerTurn": whole(1, 0, 3),
            "todoDedupeWindowHours": whole(24, 1, 168),
            "todoStaleTtlDays": whole(7, 1, 90),
            "dedupeSimilarityThreshold": number(0.92, 0.7, 0.99),
            "duplicateSearchMinScore": number(0.94, 0.8, 0.999),
        }
    ),
    "scopePolicy": Section(
        {
            "enabled": flag(True),
            "defaultScope": Knob("scope", "global"),
            "fallbackScopes": Knob("scopes", ()),
            "fallbackMarker": flag(True),
            "skipFallbackOnInvalidScope": flag(True),
            "validationMode": choice("strict", "normalize", "none"),
            "maxScopeLength": whole(64, 8, 256),
            # Two sentences of seed 001: fallbacks serve an insufficient scope, or only an empty one.
            "fallbackWhen": choice("insufficient", "empty", only_seed=True),
        }
    ),
    "budget": Section(
        {
            "enabled": flag(True),
            "maxChars": MAX_CHARS,
            "minRecentSlots": whole(1, 0, 5),
            "overflowAction": choice("truncate_oldest", "truncate_tail"),
        }
    ),
    "workingSet": Section(
        {
            "enabled": flag(False),
            "persist": flag(True),
            "maxChars": whole(240, 240, 2800, seed=1200),
            "maxItemsPerSection": whole(2, 1, 5, seed=3),
            "maxGoalChars": whole(120, 40, 600, seed=200),
            "maxItemChars": whole(100, 40, 400, seed=180),
        }
    ),
    "receipts": Section(
        {"enabled": flag(True), "verbosity": choice("low", "high"), "maxItems": whole(3, 1, 10)},
    ),
    "docsColdLane": Section(
        {
            "enabled": flag(False),
            "sqlitePath": Knob("text", "~/.openclaw/memory/openclaw-mem.sqlite", here=False),
            "sourceRoots": texts(most=32),
            "sourceGlobs": texts("**/*.md", most=32, refill=True),
            "maxChunkChars": whole(1400, 200, 4000),
            "embedOnIngest": flag(True),
            "ingestOnStart": Knob("flag", False, here=False),
            "maxItems": whole(2, 1, 5),
            "maxSnippetChars": whole(280, 80, 600),
            "minHotItems": whole(2, 0, 5),
            "searchFtsK": whole(20, 1, 100),
            "searchVecK": whole(20, 1, 100),
            "searchRrfK": whole(60, 1, 200),
            "scopeMappingStrategy": choice("repo_prefix", "none", "path_prefix", "map"),
            "scopeMap": Knob("map", {}, high=16),
        }
    ),
    "weijiMemoryPreflight": Section(
        {
            "enabled": flag(False),
            "command": text("weiji-memory-preflight"),
            "commandArgs": texts(),
            "dbPath": text(),
            "timeoutMs": whole(12_000, 1000, 120_000),
            "failMode": choice("open", "closed"),
            "failOnQueued": flag(False),
            "failOnRejected": flag(False),
        },
        wrong="",
        true_is_on=True,
        closed=False,
        here=False,
    ),
    "symbolicCanvas": Section(
        {
            "autoBuild": Section(
                {
                    "enabled": flag(False),
                    "command": text("openclaw-mem"),
                    "commandArgs": texts(),
                    "outputDir": text("memory/symbolic-canvas-auto"),
                    "baseDir": text(),
                    "timeoutMs": whole(2500, 200, 15_000),
                    "maxBufferBytes": _BUFFER,
                    "maxNodes": whole(8, 2, 24),
                    "maxLabelChars": whole(120, 40, 300),
                    "minMessages": whole(4, 1, 64),
                    "triggerMode": Knob("word", "qualified", choices=("qualified", "always")),
                    "triggerPatterns": texts(*_CANVAS_PATTERNS),
                },
                true_is_on=True,
                only_object=True,
                here=False,
            )
        },
        true_is_on=True,
        only_object=True,
        here=False,
    ),
    "retrievalBackend": Section(
        {
            "backend": choice("lancedb", "qdrant-edge")._replace(absent=("qdrant-edge",)),
            "qdrantEdge": Section(
                {
                    "enabled": flag(False),
                    "shardRoot": text("memory/qdrant-edge"),
                    "vectorName": text("text"),
                    "optimizeOnRebuild": flag(True),
                    "fallbackBackend": choice("lancedb"),
                    "searchCommand": text("python3"),
                    "searchCommandArgs": Knob("args", ()),
                    "timeoutMs": whole(1500, 100, 30_000),
                },
                wrong="{} config must be an object",
                boolean=False,
                here=False,
            ),
        },
        wrong="{} config must be an object",
        boolean=False,
    ),
    "gbrainMirror": Section(
        {
            "enabled": flag(False),
            "mirrorRoot": text("~/.openclaw/memory/gbrain-mirror"),
            "command": text("gbrain"),
            "commandArgs": texts(),
            "timeoutMs": whole(12_000, 500, 30_000),
            "importOnStore": flag(True),
        },
        wrong="",
        true_is_on=True,
        here=False,
    ),
    "readOnly": flag(False),
}

# The final score of seed 000 (E-56). Repetition has a separate switch.
_RRF_ONLY = {"relevance": True, "scopeMatch": False, "recency": False, "importancePrior": False, "novelty": False}
_V1_FULL = dict.fromkeys(_RRF_ONLY, True)
_SCORE = Section(
    {name: flag(on) for name, on in _V1_FULL.items()},
    boolean=False,
    presets={"rrf_only": _RRF_ONLY, "v1_full": _V1_FULL},
)
PHASES = Section(
    {
        "repeat": flag(True),
        "repeatDecay": choice("compounding", "linear", "once", "literal"),
        "repeatHistory": choice("conversation", "session"),
        "repeatCounts": choice("recall_turns", "all_user_turns"),
        "repeatExemptTop": whole(0, 0, 6),
        "relevance": choice("rank", "rrf", "reciprocal", "similarity", "fused"),
        "relevanceOver": choice("tier", "pool"),
        "score": _SCORE,
        "exactHit": choice("names", "numbers"),
        "exactBoost": number(1.0, 1, 10),
        "trust": choice("prefer", "soft", "off"),
        "minRelevance": number(0.0, 0, 1),
        "replaced": number(0.0, 0, 1),
        "ended": flag(False),
        "recencyWindowDays": whole(0, 0, 36_500),
        "recentDays": whole(7, 0, 365),
        "hardRules": flag(True),
        "pinnedCounts": choice("inside", "extra"),
        "itemMaxChars": whole(0, 0, 12_000),
        "tierMode": choice("fallback", "live", "loop_v0"),
        "receipt": choice("screen", "listed"),
    },
    boolean=False,
    only_seed=True,
)
TEXT_LANE = Section(
    {
        "stopWords": choice("none", "english", seed="english"),
        "stem": flag(True),
        "lane": choice("scan", "index", seed="index"),
        "queryWords": choice("all", "distinct", only_seed=True),
    },
    boolean=False,
)
FUSION = Section(
    {
        "method": choice(*METHODS),
        "normalise": choice(*NORMALISATIONS),
        "vectorWeight": number(0.5, 0, 1),
        "k": whole(K, 0, 1000),
    },
    boolean=False,
    only_seed=True,
)
SILENCE = Section(
    {"signal": choice(*SIGNALS), "threshold": number(0.0, 0, 1)},
    boolean=False,
    only_seed=True,
)
# Read by the arms that only search (docs/rerank.md).
RERANK = Section(
    {
        "url": text(),
        "model": text(),
        "candidates": whole(20, 2, 100),
        "timeoutMs": whole(2000, 50, 60_000),
        "keyEnv": text(),
        "allowRemote": flag(False),
    },
    boolean=False,
    only_seed=True,
)
LAB = Section(
    {
        "profile": Knob("choice", choices=PROFILES),
        "arm": text(),
        "workingSet": choice("current", "v1"),
        "textLane": TEXT_LANE,
        "fusion": FUSION,
        "silence": SILENCE,
        "rerank": RERANK,
        "phases": PHASES,
    },
    boolean=False,
)
