"""A comparison as sentences and table rows, shared by the terminal, notebooks, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from lab.base.errors import UnusableInput
from lab.base.formatting import choices, counted, interval, number, p_value, sentence, signed
from lab.compare.paired import Comparison, Difference, Slice
from lab.compare.statistics import LEAST_CLUSTERS, LEVEL, smallest_p
from lab.measures.catalogue import entry_of, widest
from lab.report.tables import folded, html_table, text_table
from lab.runs.directory import RunDirectory
from lab.runs.notes import trial_line

# With fewer probes, counts per 1,000 would suggest a precision that is not there.
FEW_PROBES = 100
# A design effect below this is explained.
BELOW = 0.95
COLUMNS = ("measure", "base", "cand", "diff", "95 % interval", "p", "up/same/down")
MORE = ("measure", "reading", "relative", "deff")
WIDE = ("measure", "reading", "base", "cand", "diff", "relative", *COLUMNS[4:], "deff", "MDE")
SHOWN_SLICES = 8
SLICED = ("slice", "n", "base", "diff", "95 % interval", "MDE")


def shown(comparison: Comparison, *, every: bool = False) -> list[Difference]:
    """Return the differences of the primary measures in their declared order, or of every measure."""
    if every:
        return list(comparison.differences)
    differences = {difference.measure: difference for difference in comparison.differences}
    return [differences[name] for name in comparison.primary if name in differences]


def reading(difference: Difference, family: int) -> str:
    """Return the conclusion of a difference in a few words, with the minimum detectable effect if nothing is shown.

    The interval and the p decide together (:func:`lab.compare.statistics.is_shown`): a difference is shown if both say
    so. Holm's correction applies to the p of a primary measure.
    """
    low, high, effect = difference.estimate.low, difference.estimate.high, difference.estimate.detectable
    if difference.conversations < 2:
        return "one conversation: no interval"
    if not difference.wins and not difference.losses:
        return "identical everywhere"
    if low is None or high is None or effect is None:
        return f"{difference.conversations} conversations: no interval"
    mde = f"MDE {_bounded(difference.measure, effect)}"
    if difference.is_shown:
        word = {True: "better", False: "worse", None: "more" if low > 0 else "less"}[difference.is_better]
        return word if difference.p_holm is not None else f"{word}, exploratory"
    if low <= 0 <= high:
        return f"no difference shown; {mde}"
    return f"not significant among {family}; {mde}" if difference.p_holm is not None else f"not significant; {mde}"


def _bounded(measure: str, effect: float) -> str:
    """Return a minimum detectable effect; "none" if no difference of the measure is so large."""
    most = widest(measure)
    return "none" if most is not None and effect > most else f"±{number(effect)}"


def row(difference: Difference) -> list[str]:
    """Return the cells under :data:`COLUMNS`."""
    p = f"({p_value(difference.p)})" if difference.p_holm is None else p_value(difference.p_holm)
    counts = f"{difference.wins}/{difference.ties}/{difference.losses}"
    return [
        difference.measure,
        number(difference.baseline),
        number(difference.candidate),
        signed(difference.estimate.mean),
        _interval(difference),
        p,
        counts,
    ]


def more(difference: Difference, family: int) -> list[str]:
    """Return the cells under :data:`MORE`."""
    relative = "–" if difference.relative is None else f"{difference.relative:+.1%}"
    effect = "–" if difference.estimate.design_effect is None else f"{difference.estimate.design_effect:.2f}"
    return [difference.measure, reading(difference, family), relative, effect]


def wide(difference: Difference, family: int) -> list[str]:
    """Return the cells under :data:`WIDE`."""
    (measure, *means, between, p, counts), (_, conclusion, relative, effect) = row(difference), more(difference, family)
    return [measure, conclusion, *means, relative, between, p, counts, effect, _detectable(difference)]


def sliced(part: Slice) -> list[str]:
    """Return the cells under :data:`SLICED`."""
    difference = part.difference
    means = (number(difference.baseline), signed(difference.estimate.mean))
    return [f"{part.name} = {part.value}", str(difference.n), *means, _interval(difference), _detectable(difference)]


def notes(
    comparison: Comparison, differences: Sequence[Difference], *, has_mde: bool = True, has_harms: bool = True
) -> list[str]:
    """Return the notes below the numbers.

    ``has_mde`` says whether the table has the column ``MDE``; without ``has_harms``, harms are shown elsewhere.
    """
    # Conversations of the primary measures, if any: another measure may have values in more conversations.
    deciding = [difference for difference in comparison.differences if difference.p_holm is not None] or list(
        differences
    )
    conversations = max((difference.conversations for difference in deciding), default=0)
    family = "one primary measure" if comparison.family == 1 else f"{comparison.family} primary measures"
    legend = (
        f"{counted(conversations, 'conversation')}. p: sign-flip test by conversation, Holm-adjusted over the "
        f"{family}; in brackets: not adjusted, exploratory. base, cand: means of the arms. up/same/down: number of "
        "probes or turns where cand is higher, equal, lower. deff: design effect, the variance relative to "
        "independent probes or turns."
    )
    if has_mde:
        legend += " MDE: minimum detectable effect, the smallest true difference detected with 80 % power."
    alike = [sentence(comparison.apart)] if comparison.apart else []
    lines = [legend, *alike, *(_harms(comparison) if has_harms else [])]
    if comparison.sampled_labels:
        lines.append(f"{drawn(comparison.sampled_labels)}.")
    lines += sliced_over(dict.fromkeys(part.difference.measure for part in comparison.slices))
    least = smallest_p(conversations, comparison.family)
    if 1 < conversations < LEAST_CLUSTERS:
        lines.append(
            f"No intervals: over {conversations} conversations no sign-flip test can reach 5 %, so an interval could "
            f"not be confirmed. It takes {LEAST_CLUSTERS}."
        )
    elif comparison.family and conversations > 1 and least > LEVEL:
        lines.append(f"With so few conversations, no adjusted p can be below {least:.3f}: nothing can be shown.")
    if any((difference.estimate.design_effect or 1) < BELOW for difference in differences):
        lines.append(
            "A deff below 1 is no error: within a conversation gains and losses cancel out, so conversations differ "
            "less than independent probes would."
        )
    for difference in differences:
        entry = entry_of(difference.measure)
        for arm, count in (
            (comparison.baseline, difference.filled_baseline),
            (comparison.candidate, difference.filled_candidate),
        ):
            if count and entry:
                lines.append(
                    f"{difference.measure}: {arm} has no value for {count:,} of {difference.n:,} probes or turns, "
                    f"which count as {entry.missing:g}."
                )
        if difference.left_out:
            lines.append(
                f"{difference.measure}: {difference.left_out:,} probes or turns are left out: only one arm has a value."
            )
    lacking: dict[str, list[str]] = {}
    for measure, arm in comparison.unmeasured:
        if "@" not in measure or measure in comparison.primary:
            lacking.setdefault(arm, []).append(measure)
    lines += [f"Not compared, because {arm} has no value: {', '.join(names)}." for arm, names in lacking.items()]
    return lines


def sliced_over(measures: Iterable[str]) -> list[str]:
    """Return a note on measures of turns in slices; nothing if all measures are over probes."""
    known = {name: entry_of(name) for name in measures if name != "RepeatRate(probes)"}
    of_turns = [name for name, entry in known.items() if entry and entry.unit == "turn"]
    if not of_turns:
        return []
    return [
        f"{', '.join(of_turns)}: slices by conversation cover all its turns, other slices only the turns with a probe."
    ]


def drawn(labels: str) -> str:
    """Return the note on importance labels that were sampled, not judged."""
    return f"Labels were sampled ({labels}): another seed gives other labels and other numbers"


def worse(comparison: Comparison) -> list[Difference]:
    """Return the differences outside the primary measures that are shown to be worse.

    A report that shows only its primary measures would hide these.
    """
    return [
        difference
        for difference in comparison.differences
        if difference.measure not in comparison.primary
        and difference.measure.partition("@")[2] in ("", str(comparison.cutoff))
        and difference.is_better is False
    ]


def moves(difference: Difference) -> str:
    """Return a measure with its mean before and after."""
    return f"{difference.measure} {number(difference.baseline)} → {number(difference.candidate)}"


def _harms(comparison: Comparison) -> list[str]:
    harms = [f"{moves(difference)} ({_interval(difference)})" for difference in worse(comparison)]
    return [f"Worse, but not primary (exploratory): {', '.join(harms)}."] if harms else []


def gains(comparison: Comparison) -> str:
    """Return how many probes gained and lost a hit, as counts and per 1,000."""
    gained, lost = len(comparison.gained), len(comparison.lost)
    if not comparison.probes:
        return f"No probe has a hit at {comparison.cutoff} to gain or lose."
    text = f"{gained} of {counted(comparison.probes, 'probe')} gained and {lost} lost a hit at {comparison.cutoff}"
    if comparison.probes < FEW_PROBES:
        return f"{text}."
    per = 1000 / comparison.probes
    return f"{text}: {gained * per:.0f} and {lost * per:.0f} of 1,000."


def judged(comparison: Comparison) -> str:
    """Return Judged@k of both arms for the title, and whether they differ; nothing if no arm has one."""
    if len(comparison.judged) < 2:
        return ""
    base, cand = (number(comparison.judged[arm]) for arm in (comparison.baseline, comparison.candidate))
    differ = ", not judged alike" if comparison.apart else ""
    return f" (Judged@{comparison.cutoff} {cand} and {base}{differ})"


def first_line(comparison: Comparison) -> list[str]:
    """Return what a reader must know before the numbers: that the run is a trial, that arms are not judged alike."""
    trial = trial_line(comparison.trial)
    return [*([trial] if trial else []), *([comparison.apart] if comparison.apart else [])]


def comparison_text(comparison: Comparison, differences: Sequence[Difference]) -> str:
    """Return the comparison for a terminal of 80 columns."""
    lines = [
        *([folded("; ".join(first))] if (first := first_line(comparison)) else []),
        f"{comparison.candidate} minus {comparison.baseline}{judged(comparison)}",
        *map(folded, comparison.embedder),
        text_table(COLUMNS, [row(difference) for difference in differences]),
        "",
        text_table(MORE, [more(difference, comparison.family) for difference in differences], left=2),
        *map(folded, notes(comparison, differences, has_mde=bool(comparison.slices))),
    ]
    for measure, parts in by_measure(comparison):
        lines += ["", f"{measure} by slice, worst first; exploratory, intervals are not adjusted"]
        lines.append(text_table(SLICED, [sliced(part) for part in parts[:SHOWN_SLICES]]))
        if len(parts) > SHOWN_SLICES:
            lines.append(f"and {len(parts) - SHOWN_SLICES} more: --format markdown, or --json")
    return "\n".join([*lines, "", folded(gains(comparison))])


def comparison_html(comparison: Comparison, differences: Sequence[Difference]) -> str:
    """Return the comparison as an HTML fragment, everything in it escaped."""
    beside = escape(judged(comparison))
    lines = [
        *([f"<p>{escape('; '.join(first))}</p>"] if (first := first_line(comparison)) else []),
        f"<p><strong>{escape(f'{comparison.candidate} minus {comparison.baseline}')}</strong>{beside}</p>",
        *(f"<p>{escape(note)}</p>" for note in comparison.embedder),
        html_table(WIDE, [wide(difference, comparison.family) for difference in differences], left=2),
        *(f"<p>{escape(text)}</p>" for text in (*notes(comparison, differences), gains(comparison))),
    ]
    for measure, parts in by_measure(comparison):
        lines.append(f"<p><strong>{escape(measure)} by slice, worst first</strong>; exploratory, not adjusted</p>")
        lines.append(html_table(SLICED, [sliced(part) for part in parts]))
    return "\n".join(lines)


def by_measure(comparison: Comparison) -> list[tuple[str, list[Slice]]]:
    """Return the slices of each measure."""
    return [(name, list(parts)) for name, parts in groupby(comparison.slices, lambda part: part.difference.measure)]


def _interval(difference: Difference) -> str:
    return interval(difference.estimate.low, difference.estimate.high)


def _detectable(difference: Difference) -> str:
    # Without any difference there is no variance, hence no minimum detectable effect.
    effect = difference.estimate.detectable
    return _bounded(difference.measure, effect) if effect else "–"


def choose_pair(run: RunDirectory, baseline: str | None, candidate: str | None) -> tuple[str, str | None]:
    """Return the baseline and the candidate: by default tier_first_v1 and tier_quota_v1, else the first arms.

    An arm that is named for one role is not chosen for the other. A run of one arm has no candidate. Raises
    :class:`UnusableInput` for an unknown arm.
    """
    defaults = [arm for arm in ("tier_first_v1", *run.arms) if arm in run.arms and arm != candidate]
    base = baseline or (defaults[0] if defaults else run.arms[0])
    others = [arm for arm in run.arms if arm != base]
    cand = candidate or ("tier_quota_v1" if "tier_quota_v1" in others else others[0] if others else None)
    for arm in (base, cand):
        if arm is not None and arm not in run.arms:
            raise UnusableInput(f"{run.path}: has no arm {arm!r}; {choices(arm, run.arms, 'it has')}")
    return base, cand
