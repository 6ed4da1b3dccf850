"""The pages: read the query of a request, collect the data and render a template.

A URL contains everything that its page depends on, so a copied link shows the same page.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from shlex import join
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from lab.errors import LabError, UnusableInput
from lab.runs.trial import trial, trial_line
from lab.view.index import Index, Pair, Tally
from lab.view.recorded import Recorded
from lab.view.turns import Reader

if TYPE_CHECKING:
    from jinja2 import Environment

    from lab.columns import Flags

CONVERSATIONS_A_PAGE, TURNS_A_PAGE = 100, 20
SORTS = ("name", "turns", "probes", "flipped", "matching")


class NotFound(UnusableInput):
    """The URL names something that this run does not have."""


class State(NamedTuple):
    """Parameters that every link keeps: the two arms, the filter (``show``) and the search words (``q``)."""

    base: str = ""
    cand: str = ""
    show: str = ""
    q: str = ""

    def link(self, path: str, **more: object) -> str:
        """Return a URL with this state and more parameters, without empty ones."""
        given = {**self._asdict(), **more}
        query = urlencode({name: value for name, value in given.items() if value not in ("", None)}, errors="replace")
        return f"{path}?{query}" if query else path


class Viewer:
    """The pages of one run. They show texts only if ``with_text``."""

    def __init__(self, index: Index, recorded: Recorded, *, with_text: bool) -> None:
        self.index, self.recorded, self.with_text = index, recorded, with_text
        self._texts: tuple[list[str], list[str]] | None = None

    def conversations(self, query: Mapping[str, str]) -> str:
        """Return the list of conversations with counts; with a filter or search, only those with a match."""
        state, pair, matching = self._parse(query)
        sort = query.get("sort", "")
        if sort and sort not in SORTS:
            raise NotFound(f"cannot sort conversations by {sort!r}; known: {', '.join(SORTS)}")
        tallies = self.index.tallies(pair, matching)
        if state.show or state.q:
            tallies = [tally for tally in tallies if tally.matching]
        if sort:
            tallies.sort(key=lambda tally: _sort_key(tally, sort))
        shown, pages = _page(tallies, query, CONVERSATIONS_A_PAGE)
        return self._render(
            "conversations.html.j2",
            state,
            pair,
            title="Conversations",
            tallies=shown,
            pages=pages,
            matches=int(matching.sum()),
            sort=sort,
            damaged=len(self.index.damaged),
            arms=[*pair.arms, *(arm for arm in self.index.arms if arm not in pair.arms)],
        )

    def turns(self, query: Mapping[str, str]) -> str:
        """Return the matching turns of one conversation, or of all, with both arms."""
        import numpy as np

        state, pair, matching = self._parse(query)
        name = query.get("conversation") or None
        if name is not None:
            matching = matching & self._turns_of(name)
        numbers, pages = _page(np.flatnonzero(matching).tolist(), query, TURNS_A_PAGE)
        views, failed = [], {}
        for conversation in dict.fromkeys(self._conversation(number) for number in numbers):
            in_conversation = [number for number in numbers if self._conversation(number) == conversation]
            try:
                views += self._reader(conversation, pair).turns(in_conversation)
            except LabError as error:
                failed[conversation] = str(error)
        if name is not None and name in self.index.damaged:
            failed[name] = self.index.damaged[name]
        return self._render(
            "turns.html.j2",
            state,
            pair,
            title=name if name is not None else "Turns",
            action="/turns",
            conversation=name,
            views=views,
            pages=pages,
            failed=failed,
        )

    def turn(self, query: Mapping[str, str]) -> str:
        """Return one turn, with the explanation of an arm if the query names one."""
        import numpy as np

        state, pair, matching = self._parse(query)
        name, key, arm = query.get("conversation", ""), query.get("turn", ""), query.get("arm")
        missing = [parameter for parameter, value in (("conversation", name), ("turn", key)) if not value]
        if missing:
            raise NotFound(
                f"the address of a turn needs conversation=… and turn=…; missing: {', '.join(missing)}. "
                "Start from the list of conversations."
            )
        if not self._turns_of(name).any() and name in self.index.damaged:
            raise LabError(self.index.damaged[name])
        number = self.index.number_of(name, key)
        if number is None:
            raise NotFound(f"no recall happened at {key!r} of {name!r}")
        if arm is not None and arm not in self.index.arms:
            raise NotFound(f"this run has no arm {arm!r}; it has: {', '.join(self.index.arms)}")
        full = query.get("full") == "1"
        (view,) = self._reader(name, pair).turns([number], before=True)
        matches = np.flatnonzero(matching)
        position = int(np.searchsorted(matches, number))
        is_match = position < len(matches) and int(matches[position]) == number
        after = position + is_match
        explained, problem = "", ""
        options = [name for name, on in (("--full", full), ("--with-text", self.with_text)) if on]
        if arm is not None:
            try:
                explained = self.recorded.explanation(name, key, arm, with_text=self.with_text, full=full)
            except LabError as error:
                problem = str(error)
        return self._render(
            "turn.html.j2",
            state,
            pair,
            title=key,
            view=view,
            arm=arm,
            full=full,
            explained=explained,
            problem=problem,
            command=join(["lab", "explain", str(self.index.run.path), key, "--arm", arm or "", *options]),
            previous=self._address(int(matches[position - 1])) if position else None,
            following=self._address(int(matches[after])) if after < len(matches) else None,
            position=position + 1 if is_match else None,
            matches=len(matches),
        )

    def problem(self, title: str, message: str) -> str:
        """Return a page with an error message."""
        return self._render("problem.html.j2", State(), self.index.pair(None, None), title=title, message=message)

    def _parse(self, query: Mapping[str, str]) -> tuple[State, Pair, Flags]:
        """Return the state of a query, its two arms, and for each turn whether it matches filter and search."""
        state = State(*(query.get(name, "").strip() for name in State._fields))
        try:
            default = self.index.pair(None, None)
            pair = self.index.pair(state.base or None, state.cand or None)
            if pair == default:
                state = state._replace(base="", cand="")
            matching = self.index.where(pair, state.show)
        except UnusableInput as error:
            raise NotFound(str(error)) from None
        if state.q:
            matching = matching & self.index.search(state.q, *self._lowered())
        return state, pair, matching

    def _turns_of(self, name: str) -> Flags:
        import numpy as np

        if name not in self.index.conversations:
            raise NotFound(f"this run has no conversation {name!r}")
        return np.asarray(self.index.conversation_of == self.index.conversations.index(name))

    def _conversation(self, number: int) -> str:
        return self.index.conversations[int(self.index.conversation_of[number])]

    def _address(self, number: int) -> dict[str, str]:
        return {"conversation": self._conversation(number), "turn": self.index.turns[number]}

    def _reader(self, conversation: str, pair: Pair) -> Reader:
        return Reader(self.index, conversation, pair, self.recorded, with_text=self.with_text)

    def _lowered(self) -> tuple[list[str] | None, list[str] | None]:
        """Return the casefolded texts of turns and memories for the search; None if they may not be shown."""
        if not self.with_text:
            return None, None
        if self._texts is None:
            plan = self.recorded.plan()
            turns = {probe.id: (probe.query or "").casefold() for probe in plan.library.golden.probes}
            turns |= {turn.key: turn.text.casefold() for recording in plan.recordings for turn in recording.turns}
            memories = {
                memory.key: memory.text.casefold() for recording in plan.recordings for memory in recording.memories
            }
            self._texts = (
                [turns.get(key, "") for key in self.index.turns],
                [memories.get(key, "") for key in self.index.memories],
            )
        return self._texts

    def _render(self, template: str, state: State, pair: Pair, **model: Any) -> str:
        model |= {
            "run": self.index.run.path,
            "trial": trial_line(trial(self.index.run.manifest)),
            "all_arms": self.index.arms,
            "filters": pair.filters,
            "state": state,
            "pair": pair,
            "link": state.link,
            "with_text": self.with_text,
        }
        return environment().get_template(template).render({"conversation": None, "action": "/", **model})


class Pages(NamedTuple):
    """The number of a page, counted from 1, the number of pages, and the length of the full list."""

    number: int
    of: int
    total: int


def _page(rows: list[Any], query: Mapping[str, str], size: int) -> tuple[list[Any], Pages]:
    text = query.get("page", "1")
    pages = max(1, -(-len(rows) // size))
    # int() raises for thousands of digits.
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not 1 <= number <= pages:
        raise NotFound(f"no page {text!r}; the last page is {pages}")
    return rows[(number - 1) * size : number * size], Pages(number, pages, len(rows))


def _sort_key(tally: Tally, sort: str) -> tuple[float, str]:
    """Sort counts in descending order, then by name."""
    counts = {
        "turns": tally.turns,
        "probes": tally.probes,
        "flipped": tally.gained + tally.lost,
        "matching": tally.matching,
    }
    return (-counts.get(sort, 0), tally.name)


@cache
def environment() -> Environment:
    """Return the Jinja environment of the templates, with autoescaping."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("lab.view", "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
