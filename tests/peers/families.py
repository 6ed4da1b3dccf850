"""Seeded random stores and turns: one family for each way in which the lab and the live plugin could differ."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]

DAY = 86_400_000
START = 1_760_000_000_000
BETWEEN = 60_000
CATEGORIES = ("preference", "fact", "decision", "entity", "todo", "other")
SCORES = (0.95, 0.85, 0.7, 0.55, 0.2, None)
SCOPES = ("global", "global", "global", "team-oak", "team-elm")
_WORDS = (
    "kiln harbour ledger violin orchard tariff lantern ferry clinic pepper gasket atlas willow copper margin basil "
    "anchor tunnel ribbon quartz saddle beacon cedar novel puzzle rudder salmon thread vessel walnut yarn zinc "
    "release backup meeting invoice password deploy ticket budget review draft plan week office door key lamp"
)
WORDS = _WORDS.split()
SIGNS = "我們決定把窯爐的溫度調低一點今天下午三點在港口開會請記得帶上帳本和燈籠茶山的路很滑不要忘記"


@dataclass(frozen=True, slots=True)
class Family:
    """A store and its queries.

    ``batches`` are added one after another, a fragment each; ``raw`` goes into the table as it is, not through the
    plugin's import. The provider is down for the texts in ``refused``. ``stored`` are added between turns, by the
    number of the turn that they precede, and it is down at the turns in ``down``. ``settings`` is merged into every
    configuration. Turns are ``between`` milliseconds apart and begin as long after ``start``. ``documents`` are the
    files of the source root of the documents lane.
    """

    name: str
    batches: list[list[Row]]
    prompts: list[str]
    raw: list[Row] = field(default_factory=list)
    refused: frozenset[str] = frozenset()
    stored: dict[int, Row] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    down: frozenset[int] = frozenset()
    start: int = START
    between: int = BETWEEN
    documents: dict[str, str] = field(default_factory=dict)


# Two policies, the Working Set on and off, budgets that cut, and receipts of both kinds.
SETTINGS: dict[str, dict[str, Any]] = {
    "first": {"autoRecall": {"selectionMode": "tier_first_v1"}},
    "quota": {"autoRecall": {"selectionMode": "tier_quota_v1"}},
    # Under the default budget, such a receipt leaves little room for memories.
    "quota-receipt": {"autoRecall": {"selectionMode": "tier_quota_v1"}, "receipts": {"verbosity": "high"}},
    "first-set": {
        "autoRecall": {"selectionMode": "tier_first_v1", "maxItems": 3},
        "workingSet": {"enabled": True, "persist": False, "maxChars": 600},
        "receipts": {"verbosity": "high", "maxItems": 8},
        "budget": {"maxChars": 6000},
    },
    "quota-set-kept": {
        "autoRecall": {"selectionMode": "tier_quota_v1", "maxItems": 6, "tierSearchMultiplier": 1},
        "workingSet": {"enabled": True, "persist": True},
    },
    "quota-cut": {
        "autoRecall": {"selectionMode": "tier_quota_v1"},
        "workingSet": {"enabled": True, "persist": False},
        "budget": {"maxChars": 700},
    },
    "no-receipts": {
        "autoRecall": {"selectionMode": "tier_quota_v1"},
        "receipts": {"enabled": False},
        "budget": {"maxChars": 400},
    },
    "first-tail": {
        "autoRecall": {"selectionMode": "tier_first_v1", "tierSearchMultiplier": 3},
        "budget": {"maxChars": 300, "overflowAction": "truncate_tail"},
    },
    "quota-fallbacks": {
        "autoRecall": {"selectionMode": "tier_quota_v1", "maxItems": 5},
        "scopePolicy": {
            "fallbackScopes": ["global", "team-elm"],
            "validationMode": "normalize",
            "skipFallbackOnInvalidScope": False,
            "maxScopeLength": 8,
        },
    },
    "first-unscoped": {
        "autoRecall": {"selectionMode": "tier_first_v1", "skipTrivialPrompts": False},
        "scopePolicy": {"enabled": False},
        "budget": {"enabled": False},
        "workingSet": {"enabled": True, "persist": True, "maxChars": 2800},
        "receipts": {"verbosity": "high", "maxItems": 10},
    },
    "quota-known": {
        "autoRecall": {"selectionMode": "tier_quota_v1", "includeUnknownFallback": False},
        "scopePolicy": {"fallbackScopes": ["team-oak"], "validationMode": "none", "fallbackMarker": False},
    },
    "quota-nice": {
        "autoRecall": {
            "selectionMode": "tier_quota_v1",
            "maxItems": 5,
            "quotas": {"mustMax": 0, "niceMin": 5, "unknownMax": 0},
            "tierSearchMultiplier": 6,
        },
        "workingSet": {
            "enabled": True,
            "persist": False,
            "maxChars": 2800,
            "maxItemsPerSection": 5,
            "maxGoalChars": 40,
            "maxItemChars": 40,
        },
        "budget": {"maxChars": 12_000},
    },
    "quota-unknown": {
        "autoRecall": {
            "selectionMode": "tier_quota_v1",
            "quotas": {"mustMax": 5, "niceMin": 0, "unknownMax": 5},
            "trivialMinChars": 40,
        },
        "budget": {"maxChars": 500, "minRecentSlots": 0, "overflowAction": "truncate_tail"},
    },
    "first-recent": {
        "autoRecall": {"selectionMode": "tier_first_v1", "maxItems": 5},
        "workingSet": {"enabled": True, "persist": False},
        "budget": {"maxChars": 400, "minRecentSlots": 5},
        "receipts": {"maxItems": 1},
    },
    "first-clamped": {
        "embedding": {"maxChars": 200, "headChars": 40, "maxBytes": 500},
        "autoRecall": {"selectionMode": "tier_first_v1", "maxItems": 1},
        "autoCapture": {"todoStaleTtlDays": 1},
    },
    "quota-old": {
        "autoRecall": {"selectionMode": "tier_quota_v1", "trivialMinChars": 2},
        "autoCapture": {"todoStaleTtlDays": 90},
        "workingSet": {"enabled": True, "persist": True, "maxItemsPerSection": 1},
        "receipts": {"enabled": False},
    },
}


class Draw:
    """Draws rows and prompts from one seed."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = random.Random(f"{seed} {name}")

    def text(self, words: int = 0) -> str:
        """Return a sentence."""
        chosen = self.random.choices(WORDS, k=words or self.random.randint(3, 11))
        return " ".join(chosen).capitalize() + self.random.choice((".", "", " <now>.", " & more"))

    def chinese(self) -> str:
        """Return a sentence of Chinese characters, sometimes with a Latin word."""
        signs = "".join(self.random.choices(SIGNS, k=self.random.randint(4, 16)))
        return self.random.choice((signs, f"{signs}。", f"{signs} {self.random.choice(WORDS)} {signs[:3]}"))

    def row(self, text: str = "", **values: Any) -> Row:
        """Return a row for the plugin's import, up to 60 days before the first turn."""
        return {
            "id": str(uuid.UUID(int=self.random.getrandbits(128), version=4)),
            "text": text or self.text(),
            "category": self.random.choice(CATEGORIES),
            "importance": self.random.choice(SCORES),
            "scope": self.random.choice(SCOPES),
            "createdAt": START - self.random.randint(1, 60 * DAY),
        } | values

    def rows(self, count: int, make: Callable[[], str] | None = None, **values: Any) -> list[Row]:
        """Return rows in order of time."""
        made = [self.row(make() if make else "", **values) for _ in range(count)]
        return sorted(made, key=lambda row: row["createdAt"])

    def batches(self, rows: list[Row]) -> list[list[Row]]:
        """Return the same rows in batches of various sizes, including single rows."""
        parts, at = [], 0
        while at < len(rows):
            size = self.random.choice((1, 1, 2, 5, 20))
            parts.append(rows[at : at + size])
            at += size
        return parts

    def prompts(self, count: int, make: Callable[[], str] | None = None, near: list[Row] | None = None) -> list[str]:
        """Return prompts: some repeat a row's words, some have a scope, some are trivial."""
        made = []
        for _ in range(count):
            prompt = (make or self.text)()
            kind = self.random.random()
            if near and kind < 0.4:
                prompt = self.random.choice(near)["text"] + self.random.choice(("", "?", " again"))
            if self.random.random() < 0.4:
                prompt = (
                    f"[SCOPE: {self.random.choice(('team-oak', 'team-elm', 'empty-room', 'Not a scope!'))}] {prompt}"
                )
            made.append(self.random.choice(("ok", "thanks!", "/help")) if kind > 0.95 else prompt)
        return made


def families(turns: int, seed: int = 13) -> list[Family]:
    """Return every family, with ``turns`` turns under each configuration, a quarter if it has documents."""
    made = []
    for make in (
        _in_order,
        _out_of_order,
        _duplicates,
        _untimed,
        _unembedded,
        _scarce,
        _chinese,
        _growing,
        _spaced,
        _outage,
        _twins,
        _no_memories,
        _loose_documents,
        _documents,
        _loose_vectors,
        _vectors,
    ):
        draw = Draw(make.__name__, seed)
        made.append(make(draw, turns))
    return made


def _in_order(draw: Draw, turns: int) -> Family:
    rows = draw.rows(120)
    return Family("in order of time", draw.batches(rows), draw.prompts(turns, near=rows))


def _out_of_order(draw: Draw, turns: int) -> Family:
    rows = draw.rows(120)
    draw.random.shuffle(rows)
    return Family("out of order of time", draw.batches(rows), draw.prompts(turns, near=rows))


def _duplicates(draw: Draw, turns: int) -> Family:
    """Each text in five rows with different categories, so that a line of the block identifies its row."""
    texts = [draw.text() for _ in range(24)]
    rows = [draw.row(text, category=category) for text in texts for category in CATEGORIES[:5]]
    for row in rows:
        row |= {"scope": "global", "importance": draw.random.choice((0.9, 0.6, None))}
    draw.random.shuffle(rows)
    return Family("one text in five rows", draw.batches(rows), draw.prompts(turns, near=rows))


def _untimed(draw: Draw, turns: int) -> Family:
    """A third of the rows have no time, or zero, as only a table written by another program has."""
    rows = draw.rows(100)
    draw.random.shuffle(rows)
    return Family(
        "missing times", [rows[:20]], draw.prompts(turns, near=rows), [_as_stored(draw, row) for row in rows[20:]]
    )


def _as_stored(draw: Draw, row: Row) -> Row:
    """Return a row as stored in the table."""
    from lab.systems.openclaw.memory import label_of_score
    from tests.conformance.embedding import embed

    kind = draw.random.random()
    time = None if kind < 0.2 else 0 if kind < 0.4 else row["createdAt"]
    label = label_of_score(row["importance"])
    vector = embed(row["text"]).tolist()
    return row | {"createdAt": time, "importance_label": label, "trust_tier": "import", "vector": vector}


def _unembedded(draw: Draw, turns: int) -> Family:
    """The provider is down while a third of the rows are stored, and for some of the prompts."""
    rows = draw.rows(100)
    draw.random.shuffle(rows)
    refused = frozenset(row["text"] for row in rows[::3])
    return Family("zero vectors", draw.batches(rows), draw.prompts(turns, near=rows[1::3]), refused=refused)


def _scarce(draw: Draw, turns: int) -> Family:
    """Scopes of one to three rows, filled from fallback scopes; one scope is in no list."""
    rows = [
        draw.row(scope=scope) for scope in ("team-oak", "team-elm", "team-elm", "small:one", "small:one", "small:one")
    ]
    rows += draw.rows(60, scope="lab-notes") + draw.rows(40, scope="global")
    policy = {"defaultScope": "small:one", "fallbackScopes": ["lab-notes", "team-oak", "global"]}
    return Family("scarce scopes", draw.batches(rows), draw.prompts(turns, near=rows), settings={"scopePolicy": policy})


def _chinese(draw: Draw, turns: int) -> Family:
    rows = draw.rows(100, draw.chinese)
    draw.random.shuffle(rows)
    return Family("Chinese", draw.batches(rows), draw.prompts(turns, draw.chinese, rows))


def _growing(draw: Draw, turns: int) -> Family:
    """Rows stored between turns, after an import."""
    rows = draw.rows(40)
    draw.random.shuffle(rows)
    stored = {at: draw.row() for at in range(turns) if draw.random.random() < 0.6}
    prompts = draw.prompts(turns, near=[*rows, *stored.values()])
    return Family("stored between turns", draw.batches(rows), prompts, stored=stored)


def _spaced(draw: Draw, turns: int) -> Family:
    """White space around prompts and within, and prompts longer than what is embedded."""
    rows = draw.rows(80)
    blanks = (" ", "\n", "\t\n ", "\u00a0", "\ufeff", "\u3000 ", "\x85", "\u200b", "  \n\n")

    def prompt() -> str:
        text = " ".join(draw.text() for _ in range(draw.random.choice((1, 1, 2, 150))))
        return draw.random.choice(blanks) + text + draw.random.choice(blanks)

    return Family("white space", draw.batches(rows), draw.prompts(turns, prompt, rows))


def _outage(draw: Draw, turns: int) -> Family:
    """The provider is down at some turns, so that the Working Sets of those turns are stored without a vector."""
    rows = draw.rows(60, category="decision", importance=0.9) + draw.rows(30)
    draw.random.shuffle(rows)
    down = frozenset(at for at in range(turns) if draw.random.random() < 0.4)
    return Family("provider down at turns", draw.batches(rows), draw.prompts(turns, near=rows), down=down)


def _twins(draw: Draw, turns: int) -> Family:
    """Each text in two rows: one with a vector, one that was stored while the provider was down."""
    rows = draw.rows(40)
    raw = []
    for row in rows:
        other = draw.random.choice([category for category in CATEGORIES if category != row["category"]])
        raw.append(_as_stored(draw, row | {"id": draw.row()["id"], "category": other}) | {"vector": None})
    return Family("twins without a vector", draw.batches(rows), draw.prompts(turns, near=rows), raw)


def _no_memories(draw: Draw, turns: int) -> Family:
    """Blank texts, Working Sets of an earlier engine, and ids of other programs."""
    rows, raw = draw.rows(40), []
    for number, row in enumerate(draw.rows(90)):
        kind = draw.random.random()
        change: dict[str, Any] = {}
        if kind < 0.25:
            change = {"text": draw.random.choice(("", " ", "\n\t", "\u3000"))}
        elif kind < 0.35:
            change = {"id": f"working_set:{draw.random.choice(SCOPES)}-{number}", "category": "other"}
        elif kind < 0.7:
            change = {"id": draw.random.choice(("note-", "Z", "é", "7-")) + str(number)}
        raw.append(_as_stored(draw, row | change))
    return Family("rows that are no memories", draw.batches(rows), draw.prompts(turns, near=rows), raw)


# What the parts of a page are drawn from: headings of every kind, fences, hyphens, marks, and words in two scripts.
_HEADS = ("# {}", "## {}", "### {} ##", "#### {}", "   ## {}", "\t## {}", "#{}", "# ", "    # {}")
_BLOCKS = (
    "{}",
    "{}\n\n{}",
    "- {}\n- {}",
    "```sh\n# {}\n```",
    "  ~~~\n## {}\n  ~~~",
    # Of a private paragraph that is cut in two, the sidecar keeps the rest, and the lab does not.
    "## Aside\n[PRIVATE] {short}\n## Open\n{}",
    "## Aside\npassword: {short}\n## Open\n{}",
    "\u3000{}\u3000\n\u3000\n{}",
)


def _page(draw: Draw) -> str:
    """Return a Markdown file."""
    choice, parts = draw.random.choice, ["---\ndate: 2026-03-01\n---"] if draw.random.random() < 0.2 else []
    for _ in range(draw.random.randint(1, 7)):
        parts.append(choice(_HEADS).format(choice((choice(WORDS), draw.text(2), "Open-questions", "部署規則"))))
        long = draw.random.random() < 0.2
        said = [
            draw.text(250 if long else 0),
            draw.chinese(),
            f"{choice(WORDS)}-{choice(WORDS)} {draw.text(4)}",
            "🦊 " * 200,
        ]
        draw.random.shuffle(said)
        parts.append(choice(_BLOCKS).format(*said, short=draw.text()))
    return choice(("\n\n", "\n", "\r\n\r\n")).join(parts)


def _handbook(draw: Draw, turns: int, name: str, marks: dict[str, str], **settings: Any) -> Family:
    """A few memories and many pages, among them some of one name, with a prompt from a page or from none."""
    folders = ("team-oak", "team-oak/decisions", "Team-Elm/docs/specs", "Team-Elm/logs", "notes")
    names = ("README.md", "README.md", "roadmap.md", "prd-1.md", "2026-01-02.MD", "部署.md", "page.txt")
    pages = {f"{draw.random.choice(folders)}/{draw.random.choice(names)}": _page(draw) for _ in range(14)}

    def prompt() -> str:
        page, kind = draw.random.choice(list(pages.values())), draw.random.random()
        said = draw.random.choice([line for line in page.splitlines() if line.strip()])
        words = [word for word in said.split() if kind < 0.3 or word.isalpha()] or ["kiln"]
        at = draw.random.randrange(len(words))
        some = " ".join(words[at : at + draw.random.choice((1, 2, 3))])
        if kind < 0.2:
            return f"{some} OR {draw.random.choice(WORDS)}"
        if kind < 0.3:
            return f'{draw.random.choice(WORDS)}-{draw.random.choice(WORDS)} "{some}'
        if kind < 0.4:
            return draw.random.choice(
                (f'"{some}-{some}"', f"title: {some}", f"path: {draw.random.choice(folders)}", "readme*")
            )
        if kind < 0.55:
            return draw.chinese()[: draw.random.choice((1, 2, 3, 9))] + draw.random.choice(("", "？", "コーヒー"))
        return some if kind < 0.9 else draw.text()

    # Each search of documents starts a program.
    turns = -(-turns // 4)
    lane = {
        "enabled": True,
        "minHotItems": 5,
        "maxItems": draw.random.choice((2, 5)),
        "embedOnIngest": False,
    } | settings
    return Family(
        name,
        [draw.rows(6)],
        draw.prompts(turns, prompt),
        settings={"docsColdLane": lane},
        documents=pages | marks,
    )


def _loose_documents(draw: Draw, turns: int) -> Family:
    return _handbook(draw, turns, "documents outside a repository", {}, maxSnippetChars=80)


# Two repositories; scopes are in lower case, and so is the name of one.
_REPOSITORIES = {"team-oak/.git/HEAD": "", "Team-Elm/.git/HEAD": ""}


def _documents(draw: Draw, turns: int) -> Family:
    return _handbook(draw, turns, "documents in repositories", _REPOSITORIES, maxChunkChars=300)


def _loose_vectors(draw: Draw, turns: int) -> Family:
    strategy = {"scopeMappingStrategy": "none", "searchFtsK": 3, "searchVecK": 4, "searchRrfK": 10}
    return _handbook(draw, turns, "documents with vectors", {}, embedOnIngest=True, **strategy)


def _vectors(draw: Draw, turns: int) -> Family:
    """The provider is down at some turns, so that documents are found by their words alone."""
    mapped = {"scopeMappingStrategy": "map", "scopeMap": {"team-oak": ["team-oak", "/Team-Elm", "notes/x"]}}
    family = _handbook(draw, turns, "vectors in repositories", _REPOSITORIES, embedOnIngest=True, **mapped)
    down = frozenset(at for at in range(len(family.prompts)) if draw.random.random() < 0.2)
    return replace(family, down=down)
