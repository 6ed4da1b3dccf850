"""Events at which the plugin captures, beside those of profile ``upstream``: what is stored, receipts and logs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from beside import TABLE, Compared, settings_of
from families import BETWEEN, START, WORDS, Draw
from plugin import MODEL, Plugin, Provider

from lab.embedding.server import EmbeddingServer

SAID = {
    "todo": ("TODO: {}", "remember to {}", "remind me to {} tomorrow", "to-do {}"),
    "decision": ("we decided to {}", "from now on we {}", "let's use {}", "we'll {}"),
    "preference": ("I prefer {}", "I like {}", "i don't want {}", "my preference is {}"),
    "nothing": ("{}", "what about {}?", "I想 {}"),
}
ODD = (
    "TODO: password: {}",
    "I prefer stdout of {}",
    "<relevant-memories>\n1. I prefer {}\n</relevant-memories>",
    "<!-- openclaw-mem-engine:autoRecall {} -->",
    "/remember to {}",
    "HEARTBEAT",
    "我們決定 {}",
    "TODO:{} 提醒我",
    "```\nI prefer {}\n```",
    "\u3000I prefer\t {}  \u00a0",
)
CAPTURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "todos": {"autoCapture": {"captureTodo": True, "maxItemsPerTurn": 3, "maxTodoPerTurn": 3}},
    "narrow": {
        "autoCapture": {
            "captureTodo": True,
            "maxItemsPerTurn": 1,
            "maxCharsPerItem": 60,
            "maxScannedUserMessages": 2,
            "maxTotalInputChars": 1000,
            "todoDedupeWindowHours": 1,
        },
        "scopePolicy": {"validationMode": "normalize", "defaultScope": "lab-notes"},
    },
    "loose": {
        "autoCapture": {
            "captureTodo": True,
            "captureDecision": False,
            "dedupeSimilarityThreshold": 0.7,
            "duplicateSearchMinScore": 0.8,
            "maxScannedUserMessages": 64,
        },
        "scopePolicy": {"enabled": False},
        "receipts": {"verbosity": "high"},
    },
    "no-receipts": {"autoCapture": {"captureTodo": True, "maxTodoPerTurn": 0}, "receipts": {"enabled": False}},
}
# Long enough a window for more TODOs than the plugin reads.
WIDE: dict[str, Any] = {
    "autoCapture": {
        "captureTodo": True,
        "maxItemsPerTurn": 3,
        "maxTodoPerTurn": 3,
        "todoDedupeWindowHours": 168,
        "maxScannedUserMessages": 1,
    }
}


class Length(NamedTuple):
    """How many events a sequence has, and a session of it; how many sequences there are; under which configurations."""

    name: str
    events: int
    count: int
    session: int
    settings: dict[str, dict[str, Any]]
    said: tuple[str, ...]


LENGTHS = (
    Length("capture", 50, 10, 25, CAPTURES, tuple(SAID)),
    Length("long capture", 400, 10, 400, {"wide": WIDE}, ("todo", "todo", "todo", "todo", "nothing")),
)


class Said(NamedTuple):
    """A turn of a conversation."""

    session: str
    role: str
    text: str
    time: int


def sequence(draw: Draw, length: Length, session: int) -> list[Said]:
    """Return the turns of a conversation of some length, in sessions of ``session`` events each."""
    turns: list[Said] = []
    known: list[str] = []
    for at in range(length.events):
        name, time = f"s{at // session}", START + at * BETWEEN
        asked, answered = (range(draw.random.choice((1, 1, 1, 2))) for _ in range(2))
        turns += [Said(name, "user", _message(draw, known, length.said), time + number) for number in asked]
        turns += [Said(name, "assistant", draw.text(), time + 1000 + number) for number in answered]
    return turns


def _message(draw: Draw, known: list[str], kinds: tuple[str, ...]) -> str:
    """Return a message of some lines, among them earlier ones and such as are hardly different."""
    lines = []
    for _ in range(draw.random.choice((1, 1, 2, 3))):
        kind = draw.random.random()
        if known and kind < 0.25:
            line = draw.random.choice(known)
            line = draw.random.choice((line, line.upper(), f"{line} {draw.random.choice(WORDS)}", line[:-2]))
        elif kind < 0.4:
            line = draw.random.choice(ODD).format(draw.text())
        else:
            line = draw.random.choice(SAID[draw.random.choice(kinds)]).format(draw.text())
            known.append(line)
        if draw.random.random() < 0.15:
            line = f"[SCOPE: {draw.random.choice(('team-oak', 'Not a scope!', 'team-elm'))}] {line}"
        lines.append(line)
    return draw.random.choice(("\n", " ", "\n\n")).join(lines)


def compare_captures(node: str, folder: Path, seed: int, place: Path, length: Length) -> Iterator[Compared]:
    """Yield the comparison of each sequence of a length, under one configuration after another."""
    for at in range(length.count):
        name = list(length.settings)[at % len(length.settings)]
        # Half of the long sequences are one session.
        session = length.session if at % 2 else min(length.session, 20)
        turns = sequence(Draw(f"{length.name} {at}", seed), length, session)
        yield _compared(length.name, name, length.settings[name], turns, node, folder, place / str(at))


def _compared(
    family: str, name: str, settings: dict[str, Any], turns: list[Said], node: str, folder: Path, place: Path
) -> Compared:
    live, rows = _live(node, folder, settings, turns, place)
    own, mine = _lab(settings, turns)
    differing = [at for at in range(len(turns)) if live[at] != own[at]]
    first = ""
    if differing:
        at = differing[0]
        first = f"turn {at}, {turns[at]}: plugin {live[at]}, lab {own[at]}"
    elif rows != mine:
        pairs = zip_longest(rows, mine)
        first = "rows: " + next(f"plugin {one}, lab {other}" for one, other in pairs if one != other)
    # Nothing is captured at other turns.
    events = sum(turn.role == "assistant" and turns[at - 1].role == "user" for at, turn in enumerate(turns))
    what = f"events of {family}"
    return Compared(family, name, events, events - max(len(differing), bool(first)), len(mine), first, what)


def _live(
    node: str, folder: Path, settings: dict[str, Any], turns: list[Said], place: Path
) -> tuple[list[list[str]], list[dict[str, Any]]]:
    provider = Provider()
    server = EmbeddingServer(provider, MODEL)
    # The hook is awaited, so nothing is under way after it.
    given = settings_of(folder, settings) | {"settle": {"quiet_ms": 0}}
    noted = []
    try:
        with Plugin(node, given, place, server, captures=True) as plugin:
            for at, turn in enumerate(turns):
                said = {"key": f"t{at}", "session": turn.session, "role": turn.role, "text": turn.text}
                told = plugin.ask("observe", now_ms=turn.time, turn=said, stored=False)
                noted.append([line.partition(" ")[2] for line in told.get("log", ())])
    finally:
        server.close()
    return noted, _rows(place / TABLE)


def _rows(folder: Path) -> list[dict[str, Any]]:
    import lancedb

    base = lancedb.connect(folder)
    rows = base.open_table("memories").to_arrow().to_pylist() if folder.is_dir() and base.table_names() else []
    return [{name: value for name, value in row.items() if name not in ("id", "vector")} for row in rows]


def _lab(settings: dict[str, Any], turns: list[Said]) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """Return what the lab's engine stores of the same turns."""
    from lab.embedding.embedder import HashingEmbedder
    from lab.recordings.model import Turn
    from lab.retrieval.retrievers import Retrieval, StoreRetriever, make_store
    from lab.retrieval.tokens import words_under
    from lab.systems.kit import Kit, Tools
    from lab.systems.openclaw.recall.receipt import marker
    from lab.systems.registry import make_arm
    from lab.systems.spec import ArmSpec

    provider, tables = Provider(), list[StoreRetriever]()

    def live(retrieval: Retrieval) -> StoreRetriever:
        store = make_store("exact", provider.dimension, retrieval.text)
        tables.append(StoreRetriever(store, provider, words_under(retrieval.text), retrieval.clamp))
        return tables[-1]

    arm = make_arm(ArmSpec("engine", "engine", settings, profile="upstream"))
    tools = Tools("c", HashingEmbedder(), provider, live, live, scoping="tags")
    system, noted = arm.open(Kit(tools, "engine", captures=True)), []
    for at, turn in enumerate(turns):
        wrote = system.observe(Turn(f"c/{turn.session}/{at}", at, turn.session, turn.role, turn.text, turn.time))
        noted.append([*wrote.log, *([marker("autoCapture.receipt", dict(wrote.receipt))] if wrote.receipt else ())])
    rows = [
        {
            "text": row.text,
            "createdAt": float(row.created_at),
            "category": row.category,
            "importance": row.importance,
            "importance_label": row.importance_label,
            "scope": row.scope,
            "trust_tier": row.trust_tier,
        }
        for row in tables[-1].store.rows
    ]
    system.close()
    return noted, rows
