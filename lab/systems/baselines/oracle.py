"""``oracle``: the relevant memories of the golden set that exist at the time, an upper bound for every system."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.base.token_estimate import tokens
from lab.retrieval.retrievers import QueryContext
from lab.retrieval.stage_timer import StageTimer
from lab.systems.baselines.arm import Baseline, BaselineArm, BaselineSystem, Question, Ranking, by_score, picked
from lab.systems.contract import ArmInfo, Ask, Recall
from lab.systems.kit import Kit
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.finish import finish
from lab.systems.openclaw.recall.wrap import escape
from lab.systems.openclaw.select.outcome import Selection
from lab.systems.rerank.settings import refuse
from lab.systems.spec import ArmSpec


def rank(question: Question) -> Ranking:
    """Rank by grade."""
    grades = question.ask.grades
    return by_score([(float(grades[row.key]), row) for row in question.pool if row.key in grades], question.depth)


ORACLE = Baseline("oracle", rank, needs_gold=True, claims=("gold",))


@dataclass(frozen=True, slots=True)
class OracleArm(BaselineArm):
    """The oracle. ``tokens``: the most that it may inject (None: ``maxItems`` memories, however long)."""

    tokens: int | None = None

    def describe(self) -> ArmInfo:
        """Return the baseline's description; under a budget it has no largest number of items."""
        info = BaselineArm.describe(self)
        return info if self.tokens is None else replace(info, at_most=None)

    def with_tokens(self, tokens: int) -> OracleArm:
        """Return the arm with a budget: as many relevant memories as fit (HB-17)."""
        return replace(self, tokens=tokens)

    def open(self, kit: Kit) -> OracleSystem:
        """Open the system, which has no state."""
        return OracleSystem(self, kit)


class OracleSystem(BaselineSystem):
    """The relevant memories that the loop provides."""

    def __init__(self, arm: OracleArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self._tokens = arm.tokens

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Rank by grade; under a budget, take the shortest memories, which are the most that fit (HB-17)."""
        if self._tokens is None:
            return super().select(ask, candidates)
        arm, timer = self.arm, StageTimer()
        ranked = rank(Question(ask, candidates, len(candidates.rows), arm.seed, timer, arm.config)).ranked
        taken: dict[str, str] = {}
        for row, _ in sorted(ranked, key=lambda pair: (tokens(escape(pair[0].text)), pair[0].id)):
            taken[row.id] = escape(row.text)
            if tokens("\n".join(taken.values())) > self._tokens:
                del taken[row.id]
                break
        first = [pair for pair in ranked if pair[0].id in taken]
        rest = [pair for pair in ranked if pair[0].id not in taken]
        selection = Selection(picked([*first, *rest]), [], [])
        recall = finish("oracle", ask, selection, lambda: ([], []), candidates, len(first), timer)
        # Without a frame, so that no arm with a smaller one fits a memory that the oracle does not.
        return recall if ask.items_only else replace(recall, context="\n".join(taken[row.id] for row, _ in first))


def make(spec: ArmSpec) -> OracleArm:
    """Make the arm, which reads what every baseline reads."""
    config = resolve(spec.config, spec.profile, max_items=spec.max_items, where=spec.where)
    refuse(config.rerank, spec.where, spec.system)
    return OracleArm(spec.name, ORACLE, config, spec.depth, spec.seed)
