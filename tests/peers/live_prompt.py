"""Whether the lab computes the prompts of a real gateway, and what a provider's cache reads of them (docs/canary.md).

    python -m tests.peers.live_prompt FOLDER --openclaw NODE_MODULES --engine FOLDER [--cache marked]

The packages are those of :mod:`tests.peers.live_watch`. The gateway serves turns, some of which store a memory with a
tool. The stand-in for the model keeps every request, and reports the tokens that a cache would read: in each session,
the longest start of an earlier request, in steps of 128; or, over Anthropic's interface, what ended at a mark. Then
every call in the stored sessions must give the request that was received, message by message, and the cached tokens of
each turn are compared with those reported.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

from lab.base.token_estimate import tokens
from lab.canary.agree.cost import BEFORE, NO_BLOCK, TRAILING, Block, Prices, Session, cost_of, sent_in, turns_of
from lab.canary.agree.prompt import Message, calls_of, stamp_of
from lab.recordings.openclaw import read_branches
from lab.recordings.openclaw.entries import text_of
from tests.peers.live_watch import ENTRY, Home, Stubs, parser_of

ROOMS = ("kiln", "pier", "violin", "moss", "orchard", "mill")
# What the host writes around the messages of a session.
AROUND, MARK = ("tools", "system"), "cache_control"
LAST, RUNTIME = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", re.compile(r"\n\nRuntime: agent=[^\n]*$")
NAMED = re.compile(r"sessionId=([0-9a-f-]+)")
BLOCK = re.compile(r"(?:<relevant-memories>.*?</relevant-memories>\n\n)*", re.DOTALL)
PRICES = Prices("tokens", 1.0, 0.0, 0.0, 0.0)


class Piece(NamedTuple):
    """A message, the tools or a part of the system prompt; and whether the host set a mark of the cache behind it."""

    message: Message
    is_marked: bool = False


def pieces_of(request: dict[str, Any]) -> Iterator[Piece]:
    """Yield what a request of OpenAI's or Anthropic's interface consists of, in the order in which a cache reads it."""
    tools = request.get("tools") or [{}]
    yield Piece(Message("tools", json.dumps([without_mark(tool) for tool in tools])), MARK in tools[-1])
    system = request.get("system") or []
    for block in [{"text": system}] if isinstance(system, str) else system:
        yield Piece(Message("system", block["text"]), MARK in block)
    for one in request["messages"]:
        content, called = one.get("content"), one.get("tool_calls") or ()
        blocks = content if isinstance(content, list) else []
        role = "tool" if any(block["type"] == "tool_result" for block in blocks) else one["role"]
        text = "\n".join(text_of(block["content"]) for block in blocks if block["type"] == "tool_result")
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in called]
        calls += [(block["name"], compact(block["input"])) for block in blocks if block["type"] == "tool_use"]
        text += text_of(content) + "".join(name + arguments for name, arguments in calls)
        yield Piece(Message(role, text), any(MARK in block for block in blocks))


def without_mark(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if key != MARK}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Provider(Stubs):
    """A model that stores what it is told to remember, and a cache of the prompts of each session."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.received = defaultdict[str, list[list[Message]]](list)
        self.written = defaultdict[str, set[tuple[Message, ...]]](set)

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Answer, and report what a cache of any start would have read."""
        sent, session = self._taken(request)
        read = max((common(one, sent) for one in self.received[session][:-1]), default=0)
        cached = read // PRICES.step * PRICES.step if read >= PRICES.least else 0
        prompt = sum(tokens(one.text) for one in sent)
        usage = {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
        message: dict[str, Any] = {"role": "assistant", "content": "Understood."}
        if stored := wanted(sent):
            function = {"name": "memory_store", "arguments": json.dumps(stored)}
            message["tool_calls"] = [{"index": 0, "id": f"call_{prompt}", "type": "function", "function": function}]
        return message, usage

    def events(self, request: dict[str, Any]) -> str:
        """Answer, and report what a cache with marks reads and writes."""
        sent, session = self._taken(request)
        marked = [at for at, piece in enumerate(pieces_of(request), 1) if piece.is_marked]
        sums = [0, *accumulate(tokens(one.text) for one in sent)]
        written = self.written[session]
        read = max((at for at in range(len(sent) + 1) if tuple(sent[:at]) in written), default=0)
        written.update(tuple(sent[:at]) for at in marked)
        last = max(marked, default=0)
        usage = {"input_tokens": sums[-1] - sums[last], "output_tokens": 5}
        usage |= {"cache_read_input_tokens": sums[read], "cache_creation_input_tokens": max(sums[last] - sums[read], 0)}
        blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Understood."})
        ]
        if stored := wanted(sent):
            tool = {"type": "tool_use", "id": f"toolu_{sums[-1]}", "name": "memory_store", "input": {}}
            blocks.append((tool, {"type": "input_json_delta", "partial_json": json.dumps(stored)}))
        message = {"id": "m", "type": "message", "role": "assistant", "model": "stub-chat", "content": []}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": message | {"usage": usage}}]
        for at, (block, delta) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": at, "content_block": block})
            events.append({"type": "content_block_delta", "index": at, "delta": delta})
            events.append({"type": "content_block_stop", "index": at})
        ends = {"stop_reason": "tool_use" if stored else "end_turn", "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ends, "usage": {"output_tokens": 5}})
        events.append({"type": "message_stop"})
        return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)

    def _taken(self, request: dict[str, Any]) -> tuple[list[Message], str]:
        sent = [piece.message for piece in pieces_of(request)]
        named = next((found for one in sent if (found := NAMED.search(one.text))), None)
        session = named[1] if named else ""
        self.received[session].append(sent)
        return sent, session


def wanted(sent: list[Message]) -> dict[str, Any] | None:
    """Return what is to be stored if the last message is a user's who says so."""
    said = [one for one in sent if not one.text.startswith(LAST)][-1]
    found = re.search(r"remember: ([^\n]+)", said.text) if said.role == "user" else None
    return {"text": found[1], "importance": 0.9, "category": "fact"} if found else None


def common(one: list[Message], other: list[Message]) -> int:
    """Return how many tokens the starts of two requests have in common."""
    found = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            same = next(
                (at for at, pair in enumerate(zip(mine.text, theirs.text, strict=False)) if len({*pair}) > 1), 0
            )
            return found + (tokens(mine.text[:same]) if mine.role == theirs.role else 0)
        found += tokens(mine.text)
    return found


class Gateway(Home):
    """A gateway whose model is a :class:`Provider`."""

    stand_in = Provider
    stubs: Provider


def compare(home: Gateway, prices: Prices) -> dict[str, Any]:
    """Return how many requests are equal to the lab's, and the cached tokens beside those of the lab."""
    counts: Counter[str] = Counter()
    sessions, blocks = dict[str, Session](), dict[str, dict[str, Block]]()
    for branch in read_branches(home.state):
        received = home.stubs.received[branch.conversation]
        mine = blocks.setdefault(branch.conversation, {})
        for call, request in zip(calls_of(branch.entries), received, strict=True):
            found = [one for one in request if one.role not in AROUND and not one.text.startswith(LAST)]
            found[0] = found[0]._replace(text=RUNTIME.sub("", found[0].text))
            text, stamp = found[call.at].text, stamp_of(call.messages[call.at].text)
            block = BLOCK.match(text, len(stamp))
            injected = block[0] if block else ""
            found[call.at] = found[call.at]._replace(text=stamp + text[len(stamp) + len(injected) :])
            mine[call.user] = Block(injected, tokens(injected), 0) if injected else NO_BLOCK
            counts["equal" if found == list(call.messages) else "different"] += 1
            counts[f"with {injected.count('</relevant-memories>')} blocks"] += 1
        sessions[branch.conversation] = Session(sent_in(branch.entries), TRAILING.get(branch.version, 0))
    arms = {"present": blocks, "candidate": blocks}
    cost = cost_of(sessions, arms, ("present", "candidate"), prices)
    assert cost is not None
    apart = Counter[int]()
    for name, session in sessions.items():
        reported = Counter[str]()
        for sent in session.sent:
            reported[sent.user] += sent.usage.cache_read if sent.usage else 0
        known = session._replace(fixed=cost.fixed)
        turns = turns_of(known, blocks[name], blocks[name], BEFORE, cost.mark, prices)
        apart.update(turn.cached - reported[user] for turn, user in zip(turns, reported, strict=True))
    return {
        "requests": dict(counts),
        "turns": cost.turns,
        "fixed_tokens": cost.fixed,
        "tokens_before_mark": cost.mark,
        "reported_cached": cost.reported.cache_read,
        "computed_minus_reported_by_turn": {str(key): count for key, count in apart.most_common()},
    }


def main() -> None:
    """Serve the turns, and print one line of JSON."""
    parser = parser_of(__doc__)
    parser.add_argument("--cache", choices=("prefix", "marked"), default="prefix")
    parser.add_argument("--policy", default="tier_quota_v1")
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--port", type=int, default=18941)
    given = parser.parse_args()
    home = Gateway(given.folder, given.openclaw.resolve(), given.engine.resolve(), given.port)
    value = json.loads(home.config.read_text("utf-8"))
    value["tools"] = {"toolSearch": False}
    if given.cache == "marked":
        value["models"]["providers"]["stub"] |= {"api": "anthropic-messages", "baseUrl": home.stubs.url}
    value["plugins"]["entries"][ENTRY]["config"]["autoRecall"]["selectionMode"] = given.policy
    home.config.write_text(json.dumps(value), "utf-8")
    try:
        home.start()
        # Three sessions at once, as people have them.
        for number in range(given.sessions * given.turns):
            if number == 3 * given.turns:
                # On 2026.6.11 the engine finds only memories that were stored before it was loaded.
                home.stop()
                home.start()
            group, turn = divmod(number, 3 * given.turns)
            room = f"{ROOMS[number % len(ROOMS)]} of house {number // 7}"
            text = f"remember: the {room} is {number} years old." if turn // 3 % 2 == 0 else f"How old is the {room}?"
            home.say(text, f"room{3 * group + turn % 3}")
        home.stop()
        prices = replace(PRICES, cache=given.cache, step=1) if given.cache == "marked" else PRICES
        print(json.dumps(compare(home, prices)), flush=True)
    finally:
        home.close()


if __name__ == "__main__":
    main()
