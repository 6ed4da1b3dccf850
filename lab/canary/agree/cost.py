"""What injected blocks do to the provider's prompt cache, in tokens and in money (CN-23).

Of the prompt before, a cache can reuse only what precedes the block, because the next turn sends the message without
it. The same prompts are also computed with the block in other places, and without any.

Tokens are those of the lab's estimate (E-62), a message at a time. The length of tools and system prompt is what the
usage fields of the sessions leave over; it is unknown if they do not give it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_json, read_toml
from lab.base.shape import json_type, text_in, with_keys
from lab.base.token_estimate import tokens
from lab.canary.agree.logged import Logged
from lab.canary.agree.prompt import Usage, calls_of, stamp_of
from lab.compare.statistics import Estimate, clustered
from lab.recordings.openclaw import read_branches
from lab.recordings.openclaw.entries import Entry
from lab.runs.directory import RunDirectory

# Where a block stands: before the text of the user's message as the engine's does, behind all messages, or at the end
# of the system prompt. Nothing of it is kept in the messages of later turns.
NONE, BEFORE, END, SYSTEM = "none", "before_message", "end", "system_prompt"
PLACES = (BEFORE, END, SYSTEM)
# What a provider's cache reads: any start of an earlier prompt, or only what ended where the host set a mark. OpenClaw
# marks the end of the system prompt, the last user's message, and the last result of a tool behind it.
PREFIX, MARKED = "prefix", "marked"
# Estimated tokens of a message of the host's own that stands last in every request, by version of the session's format:
# on 2026.9.6, with no task running.
TRAILING = {4: 88}


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens in ``currency``, and how the provider's cache works.

    ``cached`` is the price of tokens read from the cache, ``write`` of those written to one that is MARKED. It holds
    at least ``least`` tokens, in steps of ``step``, until it was not used for ``minutes`` (None: for ever).
    """

    currency: str
    input: float
    cached: float
    write: float
    output: float
    cache: str = PREFIX
    least: int = 1024
    step: int = 128
    minutes: float | None = None

    def of(self, turn: Turn) -> float:
        """Return the price of a turn."""
        fresh = turn.prompt - turn.cached - turn.written
        parts = (fresh, self.input), (turn.cached, self.cached), (turn.written, self.write), (turn.output, self.output)
        return math.fsum(count * price for count, price in parts) / 1e6


# The largest number in a file of prices.
_MOST = 1_000_000_000
# The cache that is assumed where no prices are given.
_UNPRICED = Prices("", 0.0, 0.0, 0.0, 0.0)


def read_prices(path: Path) -> Prices:
    """Return the prices in a file of JSON or TOML; raise :class:`UnusableInput` with file and key if one is wrong."""
    names = [field.name for field in fields(Prices)]
    value = with_keys(read_toml(path) if path.suffix == ".toml" else read_json(path, once=True), names, str(path))
    for name in names[:5]:
        if name not in value:
            raise UnusableInput(f"{path}: has no {name}; it needs {', '.join(names[:5])}")
    if not text_in(value, "currency", str(path)).isprintable():
        raise UnusableInput(f"{path}: currency: has a line break or a control character; give its name")
    if value.get("cache", PREFIX) not in (PREFIX, MARKED):
        raise UnusableInput(f"{path}: cache: expected {PREFIX!r} or {MARKED!r}, found {value['cache']!r}")
    for name in (name for name in names if name not in ("currency", "cache") and name in value):
        whole, least = name in ("least", "step"), 1 if name == "step" else 0
        number = value[name]
        if isinstance(number, bool) or not isinstance(number, int if whole else int | float):
            kind = "a whole number" if whole else "a number"
            raise UnusableInput(f"{path}: {name}: expected {kind}, found {json_type(number)}")
        if not least <= number <= _MOST:
            raise UnusableInput(f"{path}: {name}: expected {least} to {_MOST:,}, found {number}")
    # A cache with marks has no steps.
    step = {"step": 1} if value.get("cache") == MARKED else {}
    return Prices(**{**step, **value})


class Block(NamedTuple):
    """The block of a turn: its digest, its tokens, and those at its start that equal the block of the turn before."""

    digest: str
    tokens: int
    start: int


NO_BLOCK = Block("", 0, 0)


class Sent(NamedTuple):
    """What was sent at a call without block, in tokens: up to the text of the last user's message, and in all.

    ``usage`` is what the provider counted, if the host stores it; the other fields are those of :class:`Call`.
    """

    session: int
    part: int
    user: str
    before: int
    end: int
    time_ms: int | None
    usage: Usage | None
    output: int


class Turn(NamedTuple):
    """The calls of one turn together, in tokens, and the share of the first prompt that equals the one before it."""

    kept: float | None
    prompt: int
    cached: int
    written: int
    output: int


@dataclass(frozen=True, slots=True)
class Row:
    """The means of a configuration's turns, with intervals by session, if its blocks stand at ``place``.

    ``kept`` is the share of a turn's first prompt that equals the start of the prompt sent before in the session; the
    others are sums over the calls of a turn. ``price`` is that of 1,000 turns, None without prices. ``kept`` is None if
    no turn has one before it in its session.
    """

    configuration: str
    place: str
    kept: Estimate | None
    prompt: Estimate | None
    cached: Estimate | None
    written: Estimate | None
    price: Estimate | None


@dataclass(frozen=True, slots=True)
class PromptCost:
    """What blocks cost in ``turns`` with ``calls`` of the model.

    ``fixed`` are the tokens of tools and system prompt in most sessions, None if unknown; ``ratio`` is by how many
    tokens the provider's count grows with each that the lab estimates, None with ``fixed``. ``reported`` sums the usage
    fields of the calls that have them, under the present configuration; ``without_usage`` calls have none. ``change``
    has the candidate's means minus the present ones, with the block where the engine puts it. ``mark`` are the fixed
    tokens before the host's first mark, None if no usage of a MARKED cache gives them.
    """

    turns: int
    calls: int
    fixed: int | None
    mark: int | None
    ratio: float | None
    reported: Usage
    without_usage: int
    prices: Prices | None
    rows: tuple[Row, ...]
    change: Row

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "turns": self.turns,
            "calls": self.calls,
            "fixed_tokens": self.fixed,
            "tokens_before_mark": self.mark,
            "ratio_of_tokens": self.ratio,
            "reported": self.reported._asdict() | {"calls": self.calls - self.without_usage},
            "prices": asdict(self.prices) if self.prices else None,
            "rows": [_row_as_json(row) for row in self.rows],
            "change": _row_as_json(self.change),
        }


def _row_as_json(row: Row) -> dict[str, Any]:
    values = ((field.name, getattr(row, field.name)) for field in fields(row))
    return {name: value._asdict() if isinstance(value, Estimate) else value for name, value in values}


def prompt_cost(
    home: Path, run: RunDirectory, logged: Mapping[str, Logged], arms: tuple[str, str], prices: Prices | None = None
) -> PromptCost | None:
    """Return what the blocks of two arms of a run, the present one first, cost at the turns that were ``logged``.

    ``home`` has the sessions from which the run was made. A turn that was not logged counts as one without a block.
    Returns None if no logged turn called the model.
    """
    blocks = {arm: dict[str, dict[str, Block]]() for arm in arms}
    for conversation in run.conversations:
        for row in run.read_receipts(conversation, ("arm", "turn", "block", "tokens", "prefix_tokens")).to_pylist():
            if (live := logged.get(row["turn"])) is not None:
                block = Block(row["block"], live.blocks * int(row["tokens"]), int(row["prefix_tokens"] or 0))
                of_turns = blocks[row["arm"]].setdefault(conversation, {})
                of_turns[row["turn"].rpartition("/")[2]] = block if block.tokens else NO_BLOCK
    return cost_of(_sessions(home, blocks[arms[0]]), blocks, arms, prices)


class Session(NamedTuple):
    """The calls of a session, the tokens that stand last in each of its requests, and those of tools and system prompt.

    ``fixed`` is None if unknown.
    """

    sent: Sequence[Sent]
    trailing: int = 0
    fixed: int | None = None


def _sessions(home: Path, turns: Mapping[str, Collection[str]]) -> dict[str, Session]:
    """Return the sessions of some conversations, each of the copy that has most of its ``turns``, by conversation."""
    found: dict[str, tuple[int, Session]] = {}
    for branch in read_branches(home):
        ids = {entry.id for entry in branch.entries}
        for conversation, wanted in turns.items():
            # A conversation may have got a suffix that tells it from another of the same id.
            if conversation.split("@")[0] != branch.conversation:
                continue
            there = sum(turn in ids for turn in wanted)
            if conversation not in found or there > found[conversation][0]:
                found[conversation] = there, Session(sent_in(branch.entries), TRAILING.get(branch.version, 0))
    return {conversation: session for conversation, (_, session) in sorted(found.items())}


def sent_in(entries: Iterable[Entry]) -> list[Sent]:
    """Return the calls of a session in tokens."""
    found: list[Sent] = []
    sums, part = [0], 0
    for call in calls_of(entries):
        if call.part != part:
            sums, part = [0], call.part
        for message in call.messages[len(sums) - 1 :]:
            sums.append(sums[-1] + tokens(message.text))
        before = sums[call.at] + tokens(stamp_of(call.messages[call.at].text))
        found.append(Sent(call.session, part, call.user, before, sums[-1], call.time_ms, call.usage, call.output))
    return found


def cost_of(
    sessions: Mapping[str, Session],
    blocks: Mapping[str, Mapping[str, Mapping[str, Block]]],
    arms: tuple[str, str],
    prices: Prices | None,
) -> PromptCost | None:
    """Return what blocks cost; ``blocks`` maps an arm, a conversation and the id of a user's message to a block."""
    present = blocks[arms[0]]
    calls = {
        conversation: [
            (sent.end + block.tokens, sent.usage)
            for sent in session.sent
            if (block := present[conversation].get(sent.user)) is not None
        ]
        for conversation, session in sessions.items()
    }
    counted = {name: [(size, usage) for size, usage in some if usage is not None] for name, some in calls.items()}
    usages = [usage for some in counted.values() for _, usage in some]
    if not any(calls.values()):
        return None
    # Agents have tools and prompts of their own, so each session has its own length, if usage fields give it.
    left = {name: [usage.prompt - size for size, usage in some] for name, some in counted.items()}
    fixed = _length([rest for some in left.values() for rest in some], max(one.trailing for one in sessions.values()))
    sessions = {
        name: one._replace(fixed=fixed and (_length(left[name], one.trailing) or fixed))
        for name, one in sessions.items()
    }
    grown = [
        (size - before, usage.prompt - less.prompt)
        for some in counted.values()
        for (before, less), (size, usage) in pairwise(some)
        if size > before
    ]
    provider = prices or _UNPRICED
    # A host may set its first mark before the end of the system prompt. Only that is read after another block.
    reads = [
        sent.usage.cache_read
        for conversation, session in sessions.items()
        for earlier, sent in pairwise(session.sent)
        if sent.user != earlier.user and present[conversation].get(earlier.user, NO_BLOCK).tokens
        if sent.usage is not None and sent.usage.cache_read
    ]
    mark = round(median(reads)) if provider.cache == MARKED and reads else None

    def placed(place: str, of_arm: Mapping[str, Mapping[str, Block]]) -> dict[str, list[Turn]]:
        return {
            conversation: turns_of(session, of_arm[conversation], present[conversation], place, mark, provider)
            for conversation, session in sessions.items()
        }

    without = {conversation: dict[str, Block]() for conversation in sessions}
    turns = {(NONE, NONE): placed(NONE, without)}
    turns |= {(arm, place): placed(place, blocks[arm]) for arm in arms for place in PLACES}
    before, after = (turns[arm, BEFORE] for arm in arms)
    change = {
        conversation: [_difference(one, other, prices) for one, other in zip(some, after[conversation], strict=True)]
        for conversation, some in before.items()
    }
    return PromptCost(
        sum(map(len, before.values())),
        sum(map(len, calls.values())),
        fixed,
        mark,
        sum(more for _, more in grown) / sum(size for size, _ in grown) if fixed and grown else None,
        Usage(*(sum(usage[at] for usage in usages) for at in range(4))),
        sum(map(len, calls.values())) - len(usages),
        prices,
        tuple(
            _row(*key, {name: [_values(one, prices) for one in some] for name, some in of.items()})
            for key, of in turns.items()
        ),
        _row("change", BEFORE, change),
    )


def _length(left: Sequence[int], trailing: int) -> int | None:
    """Return the median of what is left over, if that is more than what stands last."""
    rest = round(median(left)) if left else 0
    return rest if rest > trailing else None


# The values of a turn in the order of the fields of Row: kept, prompt, cached, written, price.
Values = Sequence[float | None]


def _values(turn: Turn, prices: Prices | None) -> Values:
    return turn.kept, turn.prompt, turn.cached, turn.written, 1000 * prices.of(turn) if prices else None


def _difference(before: Turn, after: Turn, prices: Prices | None) -> Values:
    pairs = zip(_values(before, prices), _values(after, prices), strict=True)
    return [None if one is None or other is None else other - one for one, other in pairs]


def _row(configuration: str, place: str, of: Mapping[str, Sequence[Values]]) -> Row:
    def mean(at: int) -> Estimate | None:
        values = {name: [value for one in some if (value := one[at]) is not None] for name, some in of.items()}
        values = {name: some for name, some in values.items() if some}
        return clustered(values) if values else None

    return Row(configuration, place, *map(mean, range(5)))


def turns_of(
    session: Session,
    blocks: Mapping[str, Block],
    wanted: Collection[str],
    place: str,
    mark: int | None,
    provider: Prices,
) -> list[Turn]:
    """Return the turns of a session whose user's message is wanted, if the blocks stand at a place.

    ``mark`` are the tokens of tools and system prompt before the host's first mark, None if unknown.
    """
    fixed = session.fixed or 0
    trailing = session.trailing if fixed else 0
    head = fixed - trailing
    if provider.cache == MARKED:
        mark = head if mark is None else min(mark, head)
    found: dict[str, Turn] = {}
    previous: tuple[Sent, Block] | None = None
    # The last request with a block, by its digest: another request may lie between.
    last: dict[str, tuple[Sent, Block]] = {}
    for sent in session.sent:
        block = blocks.get(sent.user, NO_BLOCK)
        total = fixed + sent.end + block.tokens
        earlier = [one for one in (previous, last.get(block.digest), last.get("")) if one is not None]
        warm = [one for one in earlier if _is_warm(one[0], sent, provider)]
        cached = max((_equal(one, (sent, block), place, head, mark) for one in warm), default=0)
        written = 0
        if fixed:
            cached = cached // provider.step * provider.step if cached >= provider.least else 0
        if provider.cache == MARKED and (not fixed or total >= provider.least):
            written = max(total - trailing - cached, 0)
        if sent.user in found:
            turn = found[sent.user]
            found[sent.user] = Turn(
                turn.kept, turn.prompt + total, turn.cached + cached, turn.written + written, turn.output + sent.output
            )
        elif sent.user in wanted:
            kept = None
            if previous is not None and previous[0].session == sent.session:
                kept = _equal(previous, (sent, block), place, head, None) / total
            found[sent.user] = Turn(kept, total, cached, written, sent.output)
        previous = last[block.digest] = sent, block
    return list(found.values())


def _is_warm(earlier: Sent, now: Sent, provider: Prices) -> bool:
    """Return whether a cache still holds what was sent earlier."""
    if provider.minutes is None or earlier.time_ms is None or now.time_ms is None:
        return True
    return now.time_ms - earlier.time_ms <= 60_000 * provider.minutes


def _equal(earlier: tuple[Sent, Block], now: tuple[Sent, Block], place: str, head: int, mark: int | None) -> int:
    """Return how many tokens at the start of a request a cache can read after an earlier one.

    ``head`` tokens are equal in all requests. A MARKED cache reads ``mark`` of them if it reads none behind them; for
    others it is None.
    """
    (sent, block), (at, mine) = earlier, now
    is_grown = sent.part == at.part
    if place == SYSTEM and block.digest == mine.digest:
        head += mine.tokens
    elif place == SYSTEM:
        return head + min(mine.start, block.tokens) if mark is None else mark
    if not is_grown:
        return head if mark is None else mark
    if place != BEFORE or not block.tokens:
        return head + sent.end
    if sent.user == at.user:
        return head + sent.end + block.tokens
    return head + sent.before if mark is None else mark
