"""The pages: what a request asks for, what a page shows, and the templates that are filled with it.

An address holds all that a page depends on, so that a link that is copied shows the same to whoever opens it.
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


class NotThere(UnusableInput):
    """The address names something that this run does not have."""


class State(NamedTuple):
    """What every page carries on: the two arms, the filter and the words that are searched."""

    base: str = ""
    cand: str = ""
    show: str = ""
    q: str = ""

    def link(self, path: str, **more: object) -> str:
        """An address with this state; what is empty is left out."""
        given = {**self._asdict(), **more}
        query = urlencode({name: value for name, value in given.items() if value not in ("", None)}, errors="replace")
        return f"{path}?{query}" if query else path


class Viewer:
    """The pages of one run. Texts stand in them where ``with_text``."""

    def __init__(self, index: Index, recorded: Recorded, *, with_text: bool) -> None:
        self.index, self.recorded, self.with_text = index, recorded, with_text
        self._texts: tuple[list[str], list[str]] | None = None

    def conversations(self, query: Mapping[str, str]) -> str:
        """Every conversation, with counts; those that hold a match where something is looked for."""
        state, pair, matching = self._asked(query)
        sort = query.get("sort", "")
        if sort and sort not in SORTS:
            raise NotThere(f"conversations cannot be sorted by {sort!r}; there are: {', '.join(SORTS)}")
        tallies = self.index.tallies(pair, matching)
        if state.show or state.q:
            tallies = [one for one in tallies if one.matching]
        if sort:
            tallies.sort(key=lambda one: _rank(one, sort))
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
        """The turns of one conversation, or of all, that match; both arms of each."""
        import numpy as np

        state, pair, matching = self._asked(query)
        name = query.get("conversation") or None
        if name is not None:
            matching = matching & self._own(name)
        numbers, pages = _page(np.flatnonzero(matching).tolist(), query, TURNS_A_PAGE)
        views, failed = [], {}
        for one in dict.fromkeys(self._conversation(number) for number in numbers):
            mine = [number for number in numbers if self._conversation(number) == one]
            try:
                views += self._reader(one, pair).turns(mine)
            except LabError as error:
                failed[one] = str(error)
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
        """One turn, and the explanation of an arm where one is asked for."""
        import numpy as np

        state, pair, matching = self._asked(query)
        name, key, arm = query.get("conversation", ""), query.get("turn", ""), query.get("arm")
        lacking = [what for what, given in (("conversation", name), ("turn", key)) if not given]
        if lacking:
            raise NotThere(
                f"the address of a turn needs conversation=… and turn=…; missing: {', '.join(lacking)}. "
                "The list of conversations leads to both."
            )
        if not self._own(name).any() and name in self.index.damaged:
            raise LabError(self.index.damaged[name])
        number = self.index.number_of(name, key)
        if number is None:
            raise NotThere(f"no recall happened at {key!r} of {name!r}")
        if arm is not None and arm not in self.index.arms:
            raise NotThere(f"this run has no arm {arm!r}; it has: {', '.join(self.index.arms)}")
        full = query.get("full") == "1"
        (view,) = self._reader(name, pair).turns([number], before=True)
        others = np.flatnonzero(matching)
        place = int(np.searchsorted(others, number))
        among = place < len(others) and int(others[place]) == number
        after = place + among
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
            previous=self._address(int(others[place - 1])) if place else None,
            following=self._address(int(others[after])) if after < len(others) else None,
            place=place + 1 if among else None,
            matches=len(others),
        )

    def problem(self, title: str, message: str) -> str:
        """A page that says what is wrong, in plain words."""
        return self._render("problem.html.j2", State(), self.index.pair(None, None), title=title, message=message)

    def _asked(self, query: Mapping[str, str]) -> tuple[State, Pair, Flags]:
        state = State(*(query.get(name, "").strip() for name in State._fields))
        try:
            usual = self.index.pair(None, None)
            pair = self.index.pair(state.base or None, state.cand or None)
            if pair == usual:
                state = state._replace(base="", cand="")
            matching = self.index.where(pair, state.show)
        except UnusableInput as error:
            raise NotThere(str(error)) from None
        if state.q:
            matching = matching & self.index.search(state.q, *self._lowered())
        return state, pair, matching

    def _own(self, name: str) -> Flags:
        import numpy as np

        if name not in self.index.conversations:
            raise NotThere(f"this run has no conversation {name!r}")
        return np.asarray(self.index.conversation_of == self.index.conversations.index(name))

    def _conversation(self, number: int) -> str:
        return self.index.conversations[int(self.index.conversation_of[number])]

    def _address(self, number: int) -> dict[str, str]:
        return {"conversation": self._conversation(number), "turn": self.index.turns[number]}

    def _reader(self, conversation: str, pair: Pair) -> Reader:
        return Reader(self.index, conversation, pair, self.recorded, with_text=self.with_text)

    def _lowered(self) -> tuple[list[str] | None, list[str] | None]:
        """The texts of turns and memories to search in, where they may be shown."""
        if not self.with_text:
            return None, None
        if self._texts is None:
            told = self.recorded.plan()
            turns = {one.id: (one.query or "").casefold() for one in told.library.golden.probes}
            turns |= {turn.key: turn.text.casefold() for one in told.recordings for turn in one.turns}
            memories = {one.key: one.text.casefold() for whole in told.recordings for one in whole.memories}
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
    """Which page of a list this is, counted from 1, of how many, and how long the whole list is."""

    number: int
    of: int
    total: int


def _page(whole: list[Any], query: Mapping[str, str], size: int) -> tuple[list[Any], Pages]:
    asked = query.get("page", "1")
    pages = max(1, -(-len(whole) // size))
    # Digits alone, and few: of thousands of them Python makes no number.
    number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else 0
    if not 1 <= number <= pages:
        raise NotThere(f"there is no page {asked!r}; there are {pages}")
    return whole[(number - 1) * size : number * size], Pages(number, pages, len(whole))


def _rank(one: Tally, sort: str) -> tuple[float, str]:
    """Most first, but for names."""
    counts = {"turns": one.turns, "probes": one.probes, "flipped": one.gained + one.lost, "matching": one.matching}
    return (-counts.get(sort, 0), one.name)


@cache
def environment() -> Environment:
    """The templates; whatever goes into them is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("lab.view", "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
