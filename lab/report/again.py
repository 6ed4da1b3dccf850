"""The plan of a run for its report, and the caches that its explanations share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from lab.base.errors import LabError
from lab.replay.explain import explain_all
from lab.replay.plan import Plan, plan_of
from lab.replay.sources import Sources, open_sources
from lab.report.explanation import explanation_text
from lab.runs.directory import RunDirectory
from lab.systems.contract import Detail


class Again:
    """Explains recalls of a run. The plan is made and the caches are opened once, at the first use.

    ``problem`` says why there is no explanation, such as a recording that has changed since.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.problem: str | None = None

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of the run; None if its inputs cannot be read unchanged."""
        try:
            return plan_of(self._run)
        except LabError as error:
            self.problem = str(error)
            return None

    def explanations(self, wanted: Sequence[tuple[str, str]], *, with_text: bool) -> dict[tuple[str, str], str]:
        """Return the explanation of each recall, by key and arm; those from the first problem on are missing."""
        texts: dict[tuple[str, str], str] = {}
        if self.plan is None or self.problem or not wanted:
            return texts
        try:
            for of, found in explain_all(self._run, wanted, self.plan, Detail(with_text), opened=self._opened):
                texts[of] = explanation_text(found, with_text=with_text)
        except LabError as error:
            self.problem = str(error)
        return texts

    @cached_property
    def _opened(self) -> Sources | None:
        # Without arms, because each explanation lets its own arm prepare.
        return open_sources(replace(self.plan, arms=(), infos=())) if self.plan else None
