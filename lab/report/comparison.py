"""A comparison in words and rows, which a terminal, a notebook, Markdown and LaTeX show alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from lab.compare.paired import Comparison, Difference, Slice
from lab.compare.statistics import smallest_p
from lab.formatting import counted, interval, number, p_value, signed
from lab.measures.catalogue import entry_of, is_better
from lab.report.tables import folded, html_table, text_table
from lab.runs.trial import trial_line

LEVEL = 0.05
# Of fewer probes a thousandth would be told that nobody has seen.
FEW_PROBES = 100
COLUMNS = ("measure", "base", "cand", "diff", "95 % interval", "p", "up/same/down")
MORE = ("measure", "reading", "relative", "deff")
WIDE = ("measure", "reading", "base", "cand", "diff", "relative", *COLUMNS[4:], "deff", "could find")
SHOWN_SLICES = 8
SLICED = ("slice", "n", "base", "diff", "95 % interval", "could find")


def shown(found: Comparison, *, every: bool = False) -> list[Difference]:
    """The primary measures in the order in which they were declared; or all there are, in theirs."""
    if every:
        return list(found.differences)
    by_measure = {one.measure: one for one in found.differences}
    return [by_measure[name] for name in found.primary if name in by_measure]


def reading(one: Difference, family: int) -> str:
    """What a difference says, in a few words; where it shows nothing, what would have been found.

    A primary measure is shown by its adjusted p. Where there are too few conversations for that, its interval speaks.
    """
    low, high, detectable = one.estimate.low, one.estimate.high, one.estimate.detectable
    if low is None or high is None or detectable is None:
        return "one conversation: no spread to judge by"
    if not one.wins and not one.losses:
        return "the same everywhere"
    reach = f"could have found ±{number(detectable)}"
    if low <= 0 <= high:
        return f"no difference shown; {reach}"
    decidable = one.p_holm is not None and smallest_p(one.conversations, family) <= LEVEL
    if decidable and one.p_holm is not None and one.p_holm > LEVEL:
        return f"not shown among {family}; {reach}"
    better = is_better(one.measure, low, high)
    word = {True: "better", False: "worse", None: "more" if low > 0 else "less"}[better]
    return word if decidable else f"{word}, by its interval" if one.p_holm is not None else f"{word}, exploratory"


def row(one: Difference) -> list[str]:
    """The cells under :data:`COLUMNS`."""
    p = f"({p_value(one.p)})" if one.p_holm is None else p_value(one.p_holm)
    counts = f"{one.wins}/{one.ties}/{one.losses}"
    return [
        one.measure,
        number(one.baseline),
        number(one.candidate),
        signed(one.estimate.mean),
        _interval(one),
        p,
        counts,
    ]


def more(one: Difference, family: int) -> list[str]:
    """The cells under :data:`MORE`."""
    relative = "–" if one.relative is None else f"{one.relative:+.1%}"
    effect = "–" if one.estimate.design_effect is None else f"{one.estimate.design_effect:.2f}"
    return [one.measure, reading(one, family), relative, effect]


def wide(one: Difference, family: int) -> list[str]:
    """The cells under :data:`WIDE`."""
    (measure, *means, between, p, counts), (_, said, relative, effect) = row(one), more(one, family)
    return [measure, said, *means, relative, between, p, counts, effect, _reach(one)]


def sliced(one: Slice) -> list[str]:
    """The cells under :data:`SLICED`."""
    found = one.difference
    means = (number(found.baseline), signed(found.estimate.mean))
    return [f"{one.name} = {one.value}", str(found.n), *means, _interval(found), _reach(found)]


def notes(found: Comparison, differences: Sequence[Difference], *, reach: bool = True) -> list[str]:
    """What must be said beside the numbers; ``reach`` says whether a column ``could find`` is among them."""
    # Of what decides, or else of what is shown: another measure may have values in more conversations.
    deciding = [one for one in found.differences if one.p_holm is not None] or list(differences)
    conversations = max((one.conversations for one in deciding), default=0)
    family = "one primary measure" if found.family == 1 else f"{found.family} primary measures"
    legend = (
        f"{counted(conversations, 'conversation')}. p: sign-flips of whole conversations, Holm-adjusted over the "
        f"{family}; in brackets: not adjusted, exploratory. base, cand: means of the arms. up/same/down: "
        "places where cand is higher, equal, lower. deff: the variance over that of independent places."
    )
    if reach:
        legend += " could find: the smallest true difference that would be found four times in five."
    said = [legend, *_harms(found)]
    if found.sampled_labels:
        said.append(f"{drawn(found.sampled_labels)}.")
    said += sliced_over(dict.fromkeys(one.difference.measure for one in found.slices))
    least = smallest_p(conversations, found.family)
    if found.family and conversations > 1 and least > LEVEL:
        said.append(f"So few conversations cannot give an adjusted p below {least:.3f}: read the intervals.")
    for one in differences:
        entry = entry_of(one.measure)
        for arm, count in ((found.baseline, one.filled_baseline), (found.candidate, one.filled_candidate)):
            if count and entry:
                what = f"{arm} has no value in {count} of {one.n} places, which count {entry.missing:g}"
                said.append(f"{one.measure}: {what}.")
        if one.left_out:
            said.append(f"{one.measure}: {one.left_out} places are left out, for one arm alone has a value there.")
    lacking: dict[str, list[str]] = {}
    for measure, arm in found.unmeasured:
        if "@" not in measure or measure in found.primary:
            lacking.setdefault(arm, []).append(measure)
    said += [f"Not compared, for {arm} has no value of them: {', '.join(names)}." for arm, names in lacking.items()]
    return said


def sliced_over(measures: Iterable[str]) -> list[str]:
    """What a slice of some measures is over, where that is not told by its name; nothing where all are of probes."""
    known = {name: entry_of(name) for name in measures if name != "RepeatRate(probes)"}
    of_turns = [name for name, entry in known.items() if entry and entry.unit == "turn"]
    if not of_turns:
        return []
    return [f"{', '.join(of_turns)}: by conversation over all of its turns, by any other slice over its probes alone."]


def drawn(labels: str) -> str:
    """What must be said where importance is nobody's judgement."""
    return f"Labels were drawn ({labels}): another seed draws others, and its numbers differ"


def worse(found: Comparison) -> list[Difference]:
    """What got worse by its interval and was not declared: a comparison that shows its best measures alone hides it."""
    return [
        one
        for one in found.differences
        if one.measure not in found.primary
        and one.measure.partition("@")[2] in ("", str(found.cutoff))
        and one.estimate.low is not None
        and one.estimate.high is not None
        and is_better(one.measure, one.estimate.low, one.estimate.high) is False
    ]


def moves(one: Difference) -> str:
    """A measure and where it went."""
    return f"{one.measure} {number(one.baseline)} → {number(one.candidate)}"


def _harms(found: Comparison) -> list[str]:
    told = [f"{moves(one)} ({_interval(one)})" for one in worse(found)]
    return [f"Worse by the interval, and not declared (exploratory): {', '.join(told)}."] if told else []


def gains(found: Comparison) -> str:
    """How many probes gained and lost a hit, of a thousand and as they are."""
    gained, lost = len(found.gained), len(found.lost)
    if not found.probes:
        return f"No probe has a hit at {found.cutoff} to gain or lose."
    if found.probes < FEW_PROBES:
        return f"{gained} of {counted(found.probes, 'probe')} gained and {lost} lost a hit at {found.cutoff}."
    per = 1000 / found.probes
    return (
        f"Of 1,000 probes {gained * per:.0f} gained and {lost * per:.0f} lost a hit at {found.cutoff} "
        f"({gained} and {lost} of {found.probes})."
    )


def comparison_text(found: Comparison, differences: Sequence[Difference]) -> str:
    """The comparison for a terminal of 80 columns."""
    lines = [
        *([folded(said)] if (said := trial_line(found.trial)) else []),
        f"{found.candidate} minus {found.baseline}",
        *map(folded, found.embedder),
        text_table(COLUMNS, [row(one) for one in differences]),
        "",
        text_table(MORE, [more(one, found.family) for one in differences], left=2),
        *map(folded, notes(found, differences, reach=bool(found.slices))),
    ]
    for measure, some in by_measure(found):
        lines += ["", f"{measure} by slice, the worst first; exploratory, intervals are not adjusted"]
        lines.append(text_table(SLICED, [sliced(one) for one in some[:SHOWN_SLICES]]))
        if len(some) > SHOWN_SLICES:
            lines.append(f"and {len(some) - SHOWN_SLICES} more: --format markdown, or --json")
    return "\n".join([*lines, "", folded(gains(found))])


def comparison_html(found: Comparison, differences: Sequence[Difference]) -> str:
    """The comparison as a piece of HTML, everything in it escaped."""
    parts = [
        *([f"<p>{escape(said)}</p>"] if (said := trial_line(found.trial)) else []),
        f"<p><strong>{escape(found.candidate)} minus {escape(found.baseline)}</strong></p>",
        *(f"<p>{escape(note)}</p>" for note in found.embedder),
        html_table(WIDE, [wide(one, found.family) for one in differences], left=2),
        *(f"<p>{escape(text)}</p>" for text in (*notes(found, differences), gains(found))),
    ]
    for measure, some in by_measure(found):
        parts.append(f"<p><strong>{escape(measure)} by slice, the worst first</strong>; nothing is adjusted</p>")
        parts.append(html_table(SLICED, [sliced(one) for one in some]))
    return "\n".join(parts)


def by_measure(found: Comparison) -> list[tuple[str, list[Slice]]]:
    """The slices of each measure."""
    return [(name, list(some)) for name, some in groupby(found.slices, lambda one: one.difference.measure)]


def _interval(one: Difference) -> str:
    return interval(one.estimate.low, one.estimate.high)


def _reach(one: Difference) -> str:
    # Where nothing differs anywhere, nothing says how much would have to.
    return f"±{number(one.estimate.detectable)}" if one.estimate.detectable else "–"
