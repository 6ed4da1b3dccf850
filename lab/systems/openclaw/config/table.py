"""The table of the engine's configuration keys: type, default in each profile, and range (E-5).

:mod:`lab.systems.openclaw.upstream.plugin` applies the table as the public plugin does, ignoring invalid input;
:mod:`lab.systems.openclaw.config.resolve` as the lab does, with an error for invalid input. The key ``lab`` belongs to
this project; the plugin does not know it.
"""

from __future__ import annotations

from lab.retrieval.fusion import METHODS, NORMALISATIONS, K
from lab.retrieval.silence import SIGNALS
from lab.systems.openclaw.config.knob import PROFILES, Knob, Section
from lab.systems.openclaw.config.knob import choice as _choice
from lab.systems.openclaw.config.knob import flag as _flag
from lab.systems.openclaw.config.knob import number as _number
from lab.systems.openclaw.config.knob import text as _text
from lab.systems.openclaw.config.knob import texts as _texts
from lab.systems.openclaw.config.knob import whole as _whole
from lab.systems.openclaw.select.policies import POLICIES

# The section of a configuration that belongs to this project.
LAB_KEY = "lab"
# The maximum number of fallback scopes.
MOST_FALLBACKS = 6

_KIB = 1024
# The seeds require up to 6 items. The plugin's manifest allows 6, but the plugin clamps to 5 (E-6).
MAX_ITEMS = _whole(4, 1, 5, seed=6, seed_high=6, manifest=(1, 6))
_BUFFER = _whole(512 * _KIB, 64 * _KIB, 2048 * _KIB)
QUOTAS = Section(
    {
        "mustMax": _whole(2, 0, 5),
        "niceMin": _whole(2, 0, 5),
        "unknownMax": _whole(1, 0, 5),
        # Seed 000 says both "mustMax is a cap, not a target" (strict) and "remaining slot(s): best available across
        # tiers" (best, as in the plugin, which treats both maxima as reservations; E-15).
        "wildcard": _choice("strict", "best", only_seed=True),
        # The older name: strict, or reservation for best.
        "caps": Knob("choice", choices=("reservation", "strict"), only_seed=True),
        # Whether a fallback scope gets what is left of the quotas, or all of them again (E-16).
        "per": _choice("turn", "scope", only_seed=True),
    },
    wrong="{} must be an object",
    boolean=False,
)
_ROUTE_AUTO = Section(
    {
        "enabled": Knob("flag", False, absent=(True,)),
        "command": _text("openclaw-mem"),
        "commandArgs": Knob("args", (), high=64),
        "dbPath": _text(),
        "timeoutMs": _whole(1800, 200, 15_000),
        "maxBufferBytes": _BUFFER,
        "maxChars": _whole(420, 120, 2400),
        "maxGraphCandidates": _whole(2, 1, 5),
        "maxTranscriptSessions": _whole(2, 1, 5),
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
            "model": _choice("text-embedding-3-small", "text-embedding-3-large"),
            "maxChars": _whole(6000, 200, 200_000),
            "headChars": _whole(500, 0, 200_000, manifest=(0, 20_000)),
            "maxBytes": Knob("positive", manifest=(500, 200_000)),
        },
        wrong="{} config must be an object",
        boolean=False,
    ),
    "dbPath": Knob("text", here=False),
    "tableName": Knob("text", here=False),
    "autoRecall": Section(
        {
            "enabled": _flag(True),
            "maxItems": MAX_ITEMS,
            "skipTrivialPrompts": _flag(True),
            "trivialMinChars": _whole(8, 2, 40, seed=24),
            "includeUnknownFallback": _flag(True),
            "tierSearchMultiplier": _whole(2, 1, 6),
            "selectionMode": _choice(*POLICIES),
            "quotas": QUOTAS,
            "routeAuto": _ROUTE_AUTO,
            "repeatWindowTurns": _whole(6, 0, 50, only_seed=True),
            "repeatPenalty": _number(0.35, 0, 1, only_seed=True),
            "dedupeBackbone": _flag(True, only_seed=True),
        }
    ),
    "autoCapture": Section(
        {
            "enabled": _flag(True),
            "maxItemsPerTurn": _whole(2, 1, 3, seed_high=4),
            "maxCharsPerItem": _whole(240, 60, 320),
            "maxScannedUserMessages": _whole(24, 1, 64),
            "maxTextBlocksPerMessage": _whole(4, 1, 8),
            "maxTotalInputChars": _whole(48_000, 1000, 120_000),
            "capturePreference": _flag(True),
            "captureDecision": _flag(True),
            "captureTodo": _flag(False),
            "maxTodoPerTurn": _whole(1, 0, 3),
            "todoDedupeWindowHours": _whole(24, 1, 168),
            "todoStaleTtlDays": _whole(7, 1, 90),
            "dedupeSimilarityThreshold": _number(0.92, 0.7, 0.99),
            "duplicateSearchMinScore": _number(0.94, 0.8, 0.999),
        }
    ),
    "scopePolicy": Section(
        {
            "enabled": _flag(True),
            "defaultScope": Knob("scope", "global"),
            "fallbackScopes": Knob("scopes", ()),
            "fallbackMarker": _flag(True),
            "skipFallbackOnInvalidScope": _flag(True),
            "validationMode": _choice("strict", "normalize", "none"),
            "maxScopeLength": _whole(64, 8, 256),
        }
    ),
    "budget": Section(
        {
            "enabled": _flag(True),
            "maxChars": _whole(1800, 300, 12_000),
            "minRecentSlots": _whole(1, 0, 5),
            "overflowAction": _choice("truncate_oldest", "truncate_tail"),
        }
    ),
    "workingSet": Section(
        {
            "enabled": _flag(False),
            "persist": _flag(True),
            "maxChars": _whole(240, 240, 2800, seed=1200),
            "maxItemsPerSection": _whole(2, 1, 5, seed=3),
            "maxGoalChars": _whole(120, 40, 600, seed=200),
            "maxItemChars": _whole(100, 40, 400, seed=180),
        }
    ),
    "receipts": Section(
        {"enabled": _flag(True), "verbosity": _choice("low", "high"), "maxItems": _whole(3, 1, 10)},
    ),
    "docsColdLane": Section(
        {
            "enabled": _flag(False),
            "sqlitePath": Knob("text", "~/.openclaw/memory/openclaw-mem.sqlite", here=False),
            "sourceRoots": _texts(most=32),
            "sourceGlobs": _texts("**/*.md", most=32, refill=True),
            "maxChunkChars": _whole(1400, 200, 4000),
            "embedOnIngest": _flag(True),
            "ingestOnStart": Knob("flag", False, here=False),
            "maxItems": _whole(2, 1, 5),
            "maxSnippetChars": _whole(280, 80, 600),
            "minHotItems": _whole(2, 0, 5),
            "searchFtsK": _whole(20, 1, 100),
            "searchVecK": _whole(20, 1, 100),
            "searchRrfK": _whole(60, 1, 200),
            "scopeMappingStrategy": _choice("repo_prefix", "none", "path_prefix", "map"),
            "scopeMap": Knob("map", {}, high=16),
        }
    ),
    "weijiMemoryPreflight": Section(
        {
            "enabled": _flag(False),
            "command": _text("weiji-memory-preflight"),
            "commandArgs": _texts(),
            "dbPath": _text(),
            "timeoutMs": _whole(12_000, 1000, 120_000),
            "failMode": _choice("open", "closed"),
            "failOnQueued": _flag(False),
            "failOnRejected": _flag(False),
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
                    "enabled": _flag(False),
                    "command": _text("openclaw-mem"),
                    "commandArgs": _texts(),
                    "outputDir": _text("memory/symbolic-canvas-auto"),
                    "baseDir": _text(),
                    "timeoutMs": _whole(2500, 200, 15_000),
                    "maxBufferBytes": _BUFFER,
                    "maxNodes": _whole(8, 2, 24),
                    "maxLabelChars": _whole(120, 40, 300),
                    "minMessages": _whole(4, 1, 64),
                    "triggerMode": Knob("word", "qualified", choices=("qualified", "always")),
                    "triggerPatterns": _texts(*_CANVAS_PATTERNS),
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
            "backend": _choice("lancedb", "qdrant-edge")._replace(absent=("qdrant-edge",)),
            "qdrantEdge": Section(
                {
                    "enabled": _flag(False),
                    "shardRoot": _text("memory/qdrant-edge"),
                    "vectorName": _text("text"),
                    "optimizeOnRebuild": _flag(True),
                    "fallbackBackend": _choice("lancedb"),
                    "searchCommand": _text("python3"),
                    "searchCommandArgs": Knob("args", ()),
                    "timeoutMs": _whole(1500, 100, 30_000),
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
            "enabled": _flag(False),
            "mirrorRoot": _text("~/.openclaw/memory/gbrain-mirror"),
            "command": _text("gbrain"),
            "commandArgs": _texts(),
            "timeoutMs": _whole(12_000, 500, 30_000),
            "importOnStore": _flag(True),
        },
        wrong="",
        true_is_on=True,
        here=False,
    ),
    "readOnly": _flag(False),
}

# The final score of seed 000 (E-56). Repetition has a separate switch.
_RRF_ONLY = {"relevance": True, "scopeMatch": False, "recency": False, "importancePrior": False, "novelty": False}
_V1_FULL = dict.fromkeys(_RRF_ONLY, True)
_SCORE = Section(
    {name: _flag(on) for name, on in _V1_FULL.items()},
    boolean=False,
    presets={"rrf_only": _RRF_ONLY, "v1_full": _V1_FULL},
)
PHASES = Section(
    {
        "repeat": _flag(True),
        "repeatDecay": _choice("compounding", "linear", "once", "literal"),
        "repeatHistory": _choice("conversation", "session"),
        "repeatCounts": _choice("recall_turns", "all_user_turns"),
        "repeatExemptTop": _whole(0, 0, 6),
        "relevance": _choice("rank", "rrf", "reciprocal", "similarity", "fused"),
        "relevanceOver": _choice("tier", "pool"),
        "score": _SCORE,
        "exactHit": _choice("names", "numbers"),
        "exactBoost": _number(1.0, 1, 10),
        "trust": _choice("prefer", "soft", "off"),
        "minRelevance": _number(0.0, 0, 1),
        "recencyWindowDays": _whole(0, 0, 36_500),
        "recentDays": _whole(7, 0, 365),
        "hardRules": _flag(True),
        "pinnedCounts": _choice("inside", "extra"),
        "itemMaxChars": _whole(0, 0, 12_000),
        "tierMode": _choice("fallback", "live", "loop_v0"),
        "receipt": _choice("screen", "listed"),
    },
    boolean=False,
    only_seed=True,
)
TEXT_LANE = Section(
    {
        "stopWords": _choice("none", "english", seed="english"),
        "stem": _flag(True),
        "lane": _choice("scan", "index", seed="index"),
        "queryWords": _choice("all", "distinct", only_seed=True),
    },
    boolean=False,
)
FUSION = Section(
    {
        "method": _choice(*METHODS),
        "normalise": _choice(*NORMALISATIONS),
        "vectorWeight": _number(0.5, 0, 1),
        "k": _whole(K, 0, 1000),
    },
    boolean=False,
    only_seed=True,
)
SILENCE = Section(
    {"signal": _choice(*SIGNALS), "threshold": _number(0.0, 0, 1)},
    boolean=False,
    only_seed=True,
)
LAB = Section(
    {
        "profile": Knob("choice", choices=PROFILES),
        "arm": _text(),
        "workingSet": _choice("current", "v1"),
        "textLane": TEXT_LANE,
        "fusion": FUSION,
        "silence": SILENCE,
        "phases": PHASES,
    },
    boolean=False,
)
