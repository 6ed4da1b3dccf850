"""The plan of a run for its report, and the caches that its explanations share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from lab.base.errors import LabError
from lab.replay.explain import explain
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

    def explanation(self, key: str, arm: str, *, with_text: bool) -> str | None:
        """Return the explanation of one recall; None from the first problem on."""
        if self.plan is None or self.problem:
            return None
        try:
            found = explain(self._run, key, arm, self.plan, Detail(with_text), opened=self._opened)
            return explanation_text(found, with_text=with_text)
        except LabError as error:
            self.problem = str(error)
            return None

    @cached_property
    def _opened(self) -> Sources | None:
        # Without arms, because each explanation lets its own arm prepare.
        return open_sources(replace(self.plan, arms=(), infos=())) if self.plan else None
