"""Every measure that a run is scored by: what it says, and which way is better. Nobody else keeps such a list."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Direction = Literal["higher", "lower", "neither"]
Unit = Literal["probe", "turn", "conversation"]

SHARE = "0 … 1"
# Of one probe; the mean over probes is a share.
YES = "0 or 1"
COUNT = "0 …"
TREC, IR_MEASURES, ITSELF = "trec_eval", "ir_measures", "recall lab"
SEED_000, SEED_001 = "seed 000", "seed 001"


class Entry(NamedTuple):
    """What there is to say of a measure. One ``cut`` is taken of the first k places, and named ``NAME@k``.

    ``unit`` is what has a value of its own. ``graded`` tells whether ``NAME(rel=2)@k`` says something else. ``missing``
    is what an arm without a value counts as, where the arm that it is compared with has one: nothing injected repeats
    nothing, and finds nothing. None: such a place is left out.
    """

    name: str
    better: Direction
    unit: Unit
    range: str
    source: str
    definition: str
    cut: bool = False
    graded: bool = False
    missing: float | None = 0.0

    @property
    def title(self) -> str:
        """How it is written."""
        return f"{self.name}@k" if self.cut else self.name

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"measure": self.title} | {name: value for name, value in self._asdict().items() if name != "name"}


def _found(name: str, range_: str, source: str, definition: str, *, cut: bool = True, graded: bool = True) -> Entry:
    """A rank measure: of a probe that wants something, over the ranking of the arm.

    Where a ranking is too short to be measured, it is no worse for that.
    """
    return Entry(name, "higher", "probe", range_, source, definition, cut, graded, None)


CATALOGUE = (
    _found("Success", YES, TREC, "A wanted memory is among the first k; also called hit@k."),
    _found("R", SHARE, TREC, "Share of the wanted memories that is among the first k."),
    _found("AllGold", YES, ITSELF, "Every wanted memory is among the first k; 0 where more are wanted than k."),
    _found("P", SHARE, TREC, "Share of k places that hold a wanted memory; an empty place counts as a wrong one."),
    _found(
        *("nDCG", SHARE, TREC),
        "Grades of the first k, discounted by log2 of the rank, over those of the best ranking; linear gain.",
        graded=False,
    ),
    _found("RR", SHARE, TREC, "One over the rank of the first wanted memory; 0 if none is among the first k."),
    _found(
        *("AP", SHARE, TREC),
        "Mean, over the wanted memories, of the precision at their rank; 0 for one that is not among the first k.",
    ),
    Entry(
        *("Judged", "neither", "probe", SHARE, IR_MEASURES),
        "Share of the first k that is judged, wanted or not; where fewer came back, of those that did.",
        cut=True,
        missing=None,
    ),
    _found("Rprec", SHARE, TREC, "Precision at as many places as there are wanted memories.", cut=False),
    Entry(
        *("GoldNice", "higher", "probe", YES, SEED_000),
        "A wanted memory labelled nice_to_have is injected among the first k; null where none is visible.",
        cut=True,
    ),
    Entry(
        *("Present", "higher", "probe", YES, SEED_000),
        "A wanted memory reached the prompt, as an item or as a line of the digest.",
    ),
    Entry(
        *("Forbidden", "lower", "probe", YES, ITSELF),
        "A memory judged misleading is injected among the first k; null where none is judged so.",
        cut=True,
    ),
    Entry(
        *("FalseRecall", "lower", "probe", YES, ITSELF),
        "Something was injected where nothing is needed; of the probes that want nothing.",
    ),
    Entry(
        *("FalseItems", "lower", "probe", COUNT, ITSELF),
        "Memories injected where nothing is needed; of the probes that want nothing.",
    ),
    Entry(
        *("RepeatRate", "lower", "turn", SHARE, SEED_000),
        "Share of a turn's items that were injected in any of the 6 recall turns before; null for an empty selection.",
    ),
    Entry(*("RepeatRate(probes)", "lower", "turn", SHARE, SEED_000), "RepeatRate over the judged turns alone."),
    Entry(
        *("RepeatDominance", "lower", "turn", SHARE, "Berger and Parker 1970"),
        "Share of the places of the last 6 selections, this one included, that the commonest memory took.",
    ),
    Entry(
        *("DistinctShare", "higher", "turn", SHARE, SEED_000),
        "Distinct memories of the last 6 selections, this one included, over the places that they took.",
    ),
    Entry(
        *("Jaccard", "lower", "turn", SHARE, "Jaccard 1901"),
        "How alike this selection and the one before are: what both hold over what either holds.",
    ),
    Entry(
        *("NicePresence", "neither", "turn", YES, SEED_000),
        "A memory labelled nice_to_have is injected, wanted or not; 1 under tier_quota_v1 by construction.",
    ),
    Entry(
        *("BackboneDuplication", "lower", "turn", SHARE, SEED_000),
        "Share of the injected memories that say what the digest says already; null without a digest.",
    ),
    Entry(
        *("HardRules", "higher", "turn", SHARE, SEED_000),
        "Share of the hard rules in reach whose text stands in the prompt; null where there are none.",
        # A prompt that was passed over loses none.
        missing=1.0,
    ),
    Entry(
        *("WrongScope", "lower", "turn", SHARE, SEED_001),
        "Share of the injected memories of another scope than the turn's; global ones are of every scope.",
    ),
    Entry(
        *("AnyWrongScope", "lower", "turn", YES, SEED_001),
        "A memory of another scope than the turn's is injected. Where none is, the bound of 95 % is told, about 3/n.",
    ),
    Entry(
        *("StaleRecall", "lower", "turn", YES, ITSELF),
        "A memory is injected that one born since supersedes, before that one or without it; null where none is yet.",
    ),
    Entry(
        *("Future", "lower", "turn", SHARE, ITSELF),
        "Share of the memories injected, or held by the digest, that the turn could not know yet. A promise: 0.",
    ),
    Entry(
        *("Twins", "lower", "turn", SHARE, ITSELF),
        "Share of the injected memories that say, but for case and spaces, what one before them says. A promise: 0.",
    ),
    Entry(
        *("Unescaped", "lower", "turn", SHARE, ITSELF),
        "Share of the injected memories whose markup (< > &) stands in the block as it is. A promise: 0.",
    ),
    Entry(
        *("BudgetEvictions", "lower", "turn", COUNT, SEED_001),
        "What the budget dropped of the block, in items, as the receipt says; null where no receipt says anything.",
    ),
    Entry(*("InjectedItems", "neither", "turn", COUNT, ITSELF), "Memories injected."),
    Entry(*("InjectedChars", "neither", "turn", COUNT, ITSELF), "Length of the injected block, in UTF-16 units."),
    Entry(
        *("InjectedTokens", "neither", "turn", COUNT, "rsclaw"),
        "Tokens of the injected block, estimated: a quarter of ASCII characters, two thirds of CJK, half of others.",
    ),
    Entry(
        *("LongestStreak", "lower", "conversation", "1 …", ITSELF),
        "Most recall turns in a row in which one memory was injected; null where none ever was.",
    ),
)
BY_NAME = {one.name: one for one in CATALOGUE}


def direction(measure: str) -> Direction:
    """Which way a measure is better, by its name with or without a cutoff; a stranger is neither."""
    entry = BY_NAME.get(measure.partition("@")[0])
    return entry.better if entry else "neither"


def is_better(measure: str, low: float, high: float) -> bool | None:
    """Whether a change whose interval is ``low`` to ``high`` is for the better; None where that is not decided."""
    better = direction(measure)
    if low <= 0 <= high or better == "neither":
        return None
    return (high < 0) == (better == "lower")
