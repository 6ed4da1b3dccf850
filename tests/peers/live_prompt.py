"""Whether the lab computes the prompts of a real gateway, and what a provider's cache reads of them (docs/canary.md).

    python -m tests.peers.live_prompt FOLDER --openclaw NODE_MODULES --engine FOLDER [--sessions 30] [--turns 10]

The packages are those of :mod:`tests.peers.live_watch`. The gateway serves turns, some of which store a memory with a
tool. The stand-in for the model keeps every request, and reports the tokens that a cache would read: in each session,
the longest start of an earlier request, in steps of 128. Then every call in the stored sessions must give the request
that was received, message by message, and the cached tokens of each turn are compared with those reported.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from lab.base.token_estimate import tokens
from lab.canary.agree.cost import BEFORE, NO_BLOCK, TRAILING, Block, Prices, Session, cost_of, sent_in, turns_of
from lab.canary.agree.prompt import Message, calls_of, stamp_of
from lab.recordings.openclaw import read_branches
from lab.recordings.openclaw.entries import text_of
from tests.peers.live_watch import ENTRY, Home, Stubs

ROOMS = ("kiln", "pier", "violin", "moss", "orchard", "mill")
# What the host writes around the messages of a session.
LAST, RUNTIME = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", re.compile(r"\n\nRuntime: agent=[^\n]*$")
NAMED = re.compile(r"sessionId=([0-9a-f-]+)")
BLOCK = re.compile(r"(?:<relevant-memories>.*?</relevant-memories>\n\n)*", re.DOTALL)
PRICES = Prices("tokens", 1.0, 0.0, 0.0, 0.0)


def messages_of(request: dict[str, Any]) -> list[Message]:
    """Return the messages of a request, each with the tools that it calls."""
    return [
        Message(
            one["role"],
            text_of(one.get("content"))
            + "".join(call["function"]["name"] + call["function"]["arguments"] for call in one.get("tool_calls") or ()),
        )
        for one in request["messages"]
    ]


class Provider(Stubs):
    """A model that stores what it is told to remember; its cache reads the starts of earlier requests."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.received = defaultdict[str, list[list[Message]]](list)

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        sent = [Message("tools", json.dumps(request.get("tools"))), *messages_of(request)]
        named = NAMED.search(json.dumps(request["messages"]))
        earlier = self.received[named[1] if named else ""]
        read = max((common(one, sent) for one in earlier), default=0)
        earlier.append(sent)
        cached = read // PRICES.step * PRICES.step if read >= PRICES.least else 0
        prompt = sum(tokens(one.text) for one in sent)
        usage = {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
        said = [one for one in sent if not one.text.startswith(LAST)][-1]
        message: dict[str, Any] = {"role": "assistant", "content": "Understood."}
        if said.role == "user" and (wanted := re.search(r"remember: ([^\n]+)", said.text)):
            arguments = json.dumps({"text": wanted[1], "importance": 0.9, "category": "fact"})
            function = {"name": "memory_store", "arguments": arguments}
            message["tool_calls"] = [{"index": 0, "id": f"call_{prompt}", "type": "function", "function": function}]
        return message, usage


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


def compare(home: Gateway) -> dict[str, Any]:
    """Return how many requests are equal to the lab's, and the cached tokens beside those of the lab."""
    counts: Counter[str] = Counter()
    sessions, blocks = dict[str, Session](), dict[str, dict[str, Block]]()
    for branch in read_branches(home.state):
        received = home.stubs.received[branch.conversation]
        mine = blocks.setdefault(branch.conversation, {})
        for call, request in zip(calls_of(branch.entries), received, strict=True):
            found = request[2:-1] if request[-1].text.startswith(LAST) else request[2:]
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
    cost = cost_of(sessions, arms, ("present", "candidate"), PRICES)
    assert cost is not None
    apart = Counter[int]()
    for name, session in sessions.items():
        reported = Counter[str]()
        for sent in session.sent:
            reported[sent.user] += sent.usage.cache_read if sent.usage else 0
        known = session._replace(fixed=cost.fixed)
        turns = turns_of(known, blocks[name], blocks[name], BEFORE, None, PRICES)
        apart.update(turn.cached - reported[user] for turn, user in zip(turns, reported, strict=True))
    return {
        "requests": dict(counts),
        "turns": cost.turns,
        "fixed_tokens": cost.fixed,
        "reported_cached": cost.reported.cache_read,
        "computed_minus_reported_by_turn": {str(key): count for key, count in apart.most_common()},
    }


def main() -> None:
    """Serve the turns, and print one line of JSON."""
    # So that a harness that is ended leaves no gateway behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--openclaw", type=Path, required=True)
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--policy", default="tier_quota_v1")
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--port", type=int, default=18941)
    given = parser.parse_args()
    home = Gateway(given.folder, given.openclaw.resolve(), given.engine.resolve(), given.port)
    value = json.loads(home.config.read_text("utf-8"))
    value["tools"] = {"toolSearch": False}
    value["plugins"]["entries"][ENTRY]["config"]["autoRecall"]["selectionMode"] = given.policy
    home.config.write_text(json.dumps(value), "utf-8")
    try:
        home.start()
        # Three sessions at once, as people have them.
        for number in range(given.sessions * given.turns):
            group, turn = divmod(number, 3 * given.turns)
            room = f"{ROOMS[number % len(ROOMS)]} of house {number // 7}"
            text = f"remember: the {room} is {number} years old." if turn // 3 % 2 == 0 else f"How old is the {room}?"
            home.say(text, f"room{3 * group + turn % 3}")
        home.stop()
        print(json.dumps(compare(home)), flush=True)
    finally:
        home.close()


if __name__ == "__main__":
    main()
