"""Charts of the arms of a run, and of the differences between them: hits, costs, labels, turns, slices, ablation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from lab.base.formatting import counted, milliseconds, number
from lab.compare.paired import Difference, Slice
from lab.measures.catalogue import direction
from lab.replay.explain import FAILED, UNEXPLAINED, Counts
from lab.report import units
from lab.report.charts import (
    HEIGHT,
    INKS,
    MOST_NAMES,
    SOFT,
    TIERS,
    Axis,
    Bar,
    Bars,
    Chart,
    Columns,
    Intervals,
    Key,
    Plot,
    Point,
    Row,
    Series,
    Stripes,
    Words,
    areas,
    better_legend,
    colour_of,
    nice_axis,
    of_all,
    shares_axis,
)
from lab.report.material import Growth

if TYPE_CHECKING:
    from lab.compare.arms import StepResult

Means = Mapping[str, Mapping[str, float | None]]
Turns = Sequence[Sequence[str]]
# These arms read the golden set: an upper bound, not an arm to choose.
BOUNDS = ("oracle",)
# Colour, line and marker of the lines; colour is never the only encoding.
SIGNS = (("#0072B2", "-", "o"), ("#D55E00", "--", "s"), ("#009E73", "-.", "^"), ("#CC79A7", ":", "D"))
# Okabe and Ito's colours for stages; the rest of a turn is grey.
STAGES = {
    "search": "#0072B2",
    "retrieve": "#56B4E9",
    "select": "#D55E00",
    "backbone": "#009E73",
    "budget": "#CC79A7",
    "receipt": "#F0E442",
    "wrap": "#E69F00",
}
REST = "#BBBBBB"
MOST_ARMS = 4
# The two policies and the control of policy rollout are shown first.
FIRST = ("tier_first_v1", "tier_quota_v1", "hybrid")
# The causes in the words of the chart.
NAMES = {
    "unborn": "not yet created",
    "forgotten": "deleted",
    FAILED: "recall failed",
    "trivial": "prompt skipped as trivial",
    "scope": "in another scope",
    "label": "label of no tier",
    "silent": "recall kept silent",
    "nothing": "arm injects nothing",
    "fault": "injected fault",
    "depth": "not found by the search",
    "todo": "stale TODO",
    "tier": "tier not searched",
    "duplicate": "repeats the Working Set",
    "repeat": "lowered as a repeat",
    "decay": "lowered by decay",
    "kind": "of a kind never injected",
    "superseded": "superseded by another",
    "trust": "quarantined",
    "merged": "an equal text is in the prompt",
    "slot": "no slot left",
    "cut": "cut in the Working Set",
    "snippet": "beyond the part shown",
    "score": "score too low",
    "budget": "dropped by the budget",
    UNEXPLAINED: "not explained",
}
LOST, ITEMS, PINNED = "#D55E00", "#0072B2", "#56B4E9"


def tradeoff_chart(measures: Means, cutoff: int = 6) -> Chart:
    """Return each arm as a point: hit rate against repeat rate. Up and to the left is better."""
    points = tradeoff_points(measures, cutoff)
    words = Words(_reach(points), f"{_many(points)}. Up and to the left is better.{_bound(points)}")
    return _points_chart(words, points, shares_axis("repeat rate (lower is better)"), cutoff, "{:.0%} repeats")


def pareto_chart(measures: Means, cutoff: int = 6) -> Chart:
    """Return each arm as a point: hit rate against injected tokens, with a line through the Pareto front."""
    points = tradeoff_points(measures, cutoff, "InjectedTokens")
    words = Words(
        _most_hits(points),
        f"{_many(points)}. Up and to the left is better. The line is the Pareto front; tokens are "
        f"estimated.{_bound(points)}",
    )
    costs = [cost for _, cost in points.values()]
    x = nice_axis(0.0, max(costs, default=1.0), "tokens injected per turn, mean (lower is better)")
    front = [points[arm][::-1] for arm in front_of(points)]
    return _points_chart(words, points, x, cutoff, "{:.0f} tokens", front)


def _points_chart(
    words: Words,
    points: Mapping[str, tuple[float, float]],
    x: Axis,
    cutoff: int,
    text: str,
    front: Sequence[Point] = (),
) -> Chart:
    markers = dict(zip(points, cycle("osD^v<>PX"), strict=False))
    series = [Series("front", front, SOFT, dash="--")] if front else []
    series += [Series(arm, [(cost, hit)], colour_of(arm), markers[arm], None) for arm, (hit, cost) in points.items()]
    order = sorted(points, key=lambda arm: (-points[arm][0], points[arm][1]))
    key = [
        Key(arm, colour_of(arm), markers[arm], None, f"{points[arm][0]:.0%} hits, {text.format(points[arm][1])}")
        for arm in order
    ]
    panel = Plot(series, x, shares_axis(f"hits@{cutoff} (higher is better)"))
    return Chart(words, [panel], key, is_beside=True)


def tradeoff_points(measures: Means, cutoff: int = 6, cost: str = "RepeatRate") -> dict[str, tuple[float, float]]:
    """Return the hit rate and the repeat rate, or another cost, of the arms that have both."""
    pairs = {arm: (values.get(f"Success@{cutoff}"), values.get(cost)) for arm, values in measures.items()}
    return {arm: (hit, spent) for arm, (hit, spent) in pairs.items() if hit is not None and spent is not None}


def front_of(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the arms on the Pareto front by increasing cost; the oracle is an upper bound and excluded."""
    real = {arm: point for arm, point in points.items() if arm not in BOUNDS}
    front = [
        arm
        for arm, (hit, cost) in real.items()
        if not any(a >= hit and b <= cost and (a, b) != (hit, cost) for a, b in real.values())
    ]
    return sorted(front, key=lambda arm: (real[arm][1], arm))


def _most_hits(points: Mapping[str, tuple[float, float]]) -> str:
    real = {arm: point for arm, point in points.items() if arm not in BOUNDS}
    if not real:
        return "No arm has both values"
    arm, (hit, cost) = max(real.items(), key=lambda entry: (entry[1][0], -entry[1][1]))
    rank = "has the highest hit rate:" if len(real) > 1 else "hits on"
    return f"{arm} {rank} {hit:.0%} of the probes for {cost:.0f} tokens per turn"


def _many(points: Mapping[str, tuple[float, float]]) -> str:
    more = f", {MOST_NAMES} of them named" if len(points) > MOST_NAMES else ""
    return counted(len(points), "arm") + more


def _bound(points: Mapping[str, tuple[float, float]]) -> str:
    return " The oracle injects exactly the relevant memories." if "oracle" in points else ""


def _reach(points: Mapping[str, tuple[float, float]]) -> str:
    real = {arm: point for arm, point in points.items() if arm not in BOUNDS and point[0] > 0}
    if not real:
        return "No arm has a hit"
    best = max(real, key=lambda arm: (real[arm][0], -real[arm][1]))
    least = min(real, key=lambda arm: (real[arm][1], -real[arm][0]))
    if len(real) == 1:
        return f"{best} hits on {real[best][0]:.0%} of the probes, at {real[best][1]:.0%} repeats"
    if best == least:
        return f"{best} has the highest hit rate, {real[best][0]:.0%}, and the lowest repeat rate, {real[best][1]:.0%}"
    first = f"{best} has the highest hit rate: {real[best][0]:.0%} at {real[best][1]:.0%} repeats"
    return f"{first}; {least} has the lowest repeat rate: {real[least][1]:.0%}"


def composition_chart(shares: Mapping[str, Mapping[str, float]]) -> Chart:
    """Return the share of each importance label among the injected memories, one bar per arm."""
    arms = [arm for arm, values in shares.items() if sum(values.values())]
    most = max(arms, key=lambda arm: shares[arm].get("must", 0.0), default=None)
    least = min(arms, key=lambda arm: shares[arm].get("must", 0.0), default=None)
    title = "Nothing was injected"
    if most and least and most != least:
        title = (
            f"must_remember is {shares[most].get('must', 0):.0%} of the injected memories under {most}, "
            f"{shares[least].get('must', 0):.0%} under {least}"
        )
    elif most:
        title = f"must_remember is {shares[most].get('must', 0):.0%} of the injected memories under {most}"
    shown = arms[:MOST_NAMES]
    subtitle = f"Importance labels of the memories injected at recall turns, {of_all(len(shown), len(arms))}."
    bars = Bars([Bar(arm, shares[arm]) for arm in shown], TIERS, 1.0, INKS)
    return Chart(Words(title, subtitle), [bars], areas(TIERS))


def tiers_chart(shares: Mapping[str, Sequence[Mapping[str, float]]]) -> Chart:
    """Return the share of each label from the first recall turns to the last, one panel per arm."""
    parts = max((len(by_part) for by_part in shares.values()), default=0)
    subtitle = (
        f"Labels of the injected memories over time: the recall turns of each conversation in {parts} equal parts, "
        "all conversations together. A part without a bar injected nothing."
    )
    axis = shares_axis("share of the injected memories")
    panels = [
        Columns(arm, by_part, TIERS, "from the first recall turn to the last", axis) for arm, by_part in shares.items()
    ]
    return Chart(Words(_changes(shares), subtitle), panels, areas(TIERS))


def _changes(shares: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the must_remember share in the first and the last part of each arm that injected anything."""
    must = {arm: [part.get("must", 0.0) for part in parts if sum(part.values())] for arm, parts in shares.items()}
    changes = [f"from {found[0]:.0%} to {found[-1]:.0%} under {arm}" for arm, found in must.items() if found]
    nothing = [arm for arm, found in must.items() if not found]
    if not changes:
        return "Nothing was injected"
    silent = f"; nothing was injected under {', '.join(nothing)}" if nothing else ""
    return f"The must_remember share goes {', '.join(changes)}{silent}"


def timeline_chart(
    selections: Mapping[str, Turns], labels: Mapping[str, Mapping[str, str]], conversation: str = ""
) -> Chart:
    """Return which memory was injected in which turn; one injected in consecutive turns is one long line."""
    orders = {arm: _order(turns) for arm, turns in selections.items()}
    turns_of = {arm: len(turns) for arm, turns in selections.items()}
    words = Words(
        f"Over {counted(max(turns_of.values(), default=0), 'turn')} "
        + ", ".join(f"{arm} injects {_memories(len(order))}" for arm, order in orders.items()),
        f"{conversation[:60] + ': ' if conversation else ''}the memories injected in each recall turn. "
        "Rows are memories in order of first appearance; a long line is a memory injected in consecutive turns.",
    )
    height = max(map(len, orders.values()), default=1) or 1
    thick = min(8.0, max(1.6, 0.7 * HEIGHT / height))
    y = nice_axis(0, height, "memory, by first appearance")
    panels = []
    for arm, turns in selections.items():
        order = orders[arm]
        stripes = [
            Stripes(
                tier,
                [
                    (begin - 0.42, end + 0.42, order[key] + 0.5)
                    for key in order
                    if labels[arm].get(key) == tier
                    for begin, end in _spans(turns, key)
                ],
                colour,
                thick,
            )
            for tier, colour in TIERS.items()
        ]
        x = nice_axis(0, max(len(turns), 1), "recall turn")
        panels.append(Plot([one for one in stripes if one.spans], x, y, f"{arm}: {_memories(len(order))}"))
    return Chart(words, panels, areas(TIERS))


def _order(turns: Turns) -> dict[str, int]:
    """Return the row of each memory: its place in the order of first appearance."""
    return {key: index for index, key in enumerate(dict.fromkeys(key for chosen in turns for key in chosen))}


def _spans(turns: Turns, key: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last turn, from 1, of every run of consecutive turns with a memory."""
    begin = None
    for turn, chosen in enumerate((*turns, ()), 1):
        if key in chosen:
            begin = begin or turn
        elif begin:
            yield begin, turn - 1
            begin = None


def _memories(count: int) -> str:
    return f"{count} different {'memory' if count == 1 else 'memories'}"


def growth_chart(lines: Sequence[Growth]) -> Chart:
    """Return how many memories each arm holds after each turn of a conversation; means over conversations."""
    shown = lines[:MOST_NAMES]
    most = max(lines, key=lambda line: (line.held[-1], line.arm))
    rank = ", the most" if len(lines) > 1 else ""
    words = Words(
        f"{most.arm} holds {most.held[-1]:.1f} memories after {len(most.held)} turns{rank}",
        f"Memories held after each turn, {of_all(len(shown), len(lines))}: the mean over conversations; "
        "a shorter one keeps its last number.",
    )
    x = nice_axis(0, max(len(line.held) for line in shown), "turns of the conversation")
    y = nice_axis(0, max(max(line.held) for line in shown), "memories held")
    series = []
    for line, (colour, dash, marker) in zip(shown, cycle(SIGNS), strict=False):
        points = list(enumerate(line.held, 1))
        series.append(Series(line.arm, points, colour, marker, dash, every=max(1, len(points) // 8)))
    key = [Key(one.name, one.colour, one.marker, one.dash) for one in series]
    return Chart(words, [Plot(series, x, y)], key, is_beside=True)


def turn_chart(means: Mapping[str, Mapping[str, float]], notes: Mapping[str, str]) -> Chart:
    """Return mean milliseconds of each stage by arm, stacked, with ``notes`` beside the bars."""
    totals = {arm: sum(stages.values()) for arm, stages in means.items()}
    slow = max(totals, key=lambda arm: (totals[arm], arm), default=None)
    title = "No timings"
    if slow:
        stage, most = max(means[slow].items(), key=lambda entry: (entry[1], entry[0]))
        share = most / totals[slow] if totals[slow] else 0.0
        rank = " most:" if len(totals) > 1 else ""
        title = (
            f"In this replay {slow} takes{rank} {milliseconds(totals[slow])} ms a turn, {share:.0%} of it in {stage}"
        )
    shown = dict(list(means.items())[:MOST_NAMES])
    subtitle = (
        f"Mean of each stage of a warm turn, {of_all(len(shown), len(totals))}; p50 and p95 of the turn. This is no "
        "turn's wait: a replay embeds prompts before, searches in memory, and charges a shared search to every arm."
    )
    bars, colours = stage_bars([(arm, notes.get(arm, ""), by_stage) for arm, by_stage in shown.items()])
    return Chart(Words(title, subtitle), [bars], areas(colours))


def stage_bars(rows: Sequence[tuple[str, str, Mapping[str, float]]]) -> tuple[Bars, dict[str, str]]:
    """Return a stacked bar for each name and note, and the colours of the stages; stages without one are the others."""
    present = {stage for _, _, by_stage in rows for stage in by_stage}
    colours = {stage: colour for stage, colour in STAGES.items() if stage in present}
    others = sorted(present - set(colours))
    bars = []
    for name, note, by_stage in rows:
        parts = {stage: by_stage[stage] for stage in colours if stage in by_stage}
        rest = sum(by_stage[stage] for stage in others if stage in by_stage)
        bars.append(Bar(name, parts | ({"others": rest} if rest else {}), note))
    colours |= {"others": REST} if others else {}
    return Bars(bars, colours, max((sum(bar.parts.values()) for bar in bars), default=1.0)), colours


def missed_chart(counts: Mapping[str, Counts], first: Sequence[str] = ()) -> Chart:
    """Return one panel for each of four arms: bars from all relevant memories down to those in the prompt.

    ``first`` are the arms to show before others, such as those that a report compares.
    """
    arms, order = _shown(counts, first)
    colours = {"missed": LOST, "injected": ITEMS, "pinned": PINNED, "relevant": SOFT}
    panels = []
    for arm in arms:
        count = counts[arm]
        rows, left = [Bar("relevant", {"relevant": count.relevant}, f"{count.relevant}")], count.relevant
        for cause in order:
            if missed := count.causes.get(cause, 0):
                left -= missed
                rows.append(Bar(NAMES[cause], {"missed": missed}, f"{missed}", left))
        parts = {"injected": count.injected, "pinned": count.pinned}
        rows.append(Bar("in the prompt", parts, f"{count.injected + count.pinned}"))
        panels.append(Bars(rows, colours, count.relevant, title=arm))
    words = Words(
        _most_missed(counts, arms),
        f"All relevant memories of all probes, minus those missed for each cause, are those in the prompt; "
        f"{counted(len(arms), 'arm') if len(arms) == len(counts) else f'{len(arms)} of {len(counts)} arms'}.",
    )
    return Chart(words, panels, areas(colours), across=2)


def _shown(counts: Mapping[str, Counts], first: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arms to show, and their causes, the most frequent first."""
    known = [arm for arm in dict.fromkeys((*first, *FIRST, *counts)) if arm in counts]
    # An arm that injects nothing has one bar, so it is shown only if there is room.
    arms = sorted(known, key=lambda arm: "nothing" in counts[arm].causes)[:MOST_ARMS]
    causes = list(dict.fromkeys(cause for arm in arms for cause in counts[arm].causes))
    return arms, sorted(causes, key=lambda cause: -sum(counts[arm].causes.get(cause, 0) for arm in arms))


def _most_missed(counts: Mapping[str, Counts], arms: list[str]) -> str:
    parts = []
    for arm in arms[:2]:
        count = counts[arm]
        worst = max(count.causes, key=lambda cause: count.causes[cause], default=None)
        share = f"{arm} misses {count.missed / count.relevant:.0%} of the relevant memories"
        why = f", most often: {NAMES[worst]} ({count.causes[worst] / count.missed:.0%})" if worst else ""
        parts.append(share + why)
    return "; ".join(parts)


# Slices that fit on a slide.
MOST_SLICES = 14
DECIDED = {True: "better", False: "worse", None: "not significantly different"}
# The measures of an ablation that have a panel.
ABLATED = {
    "Success": "hit@{k}: a relevant memory is an item",
    "Present": "present: it is an item or in the Working Set",
    "RepeatRate": "repeat rate",
    "InjectedChars": "injected characters",
}


def forest_chart(
    differences: Sequence[Difference], baseline: str, candidate: str, beyond: Sequence[Difference] = ()
) -> Chart:
    """Return candidate minus baseline with 95 % intervals; the zero line means no difference.

    Shares are in points; measures that are no shares follow, relative to the baseline. ``beyond`` are measures that got
    worse and are not primary: the title names them.
    """
    primary = drawable(differences)
    shown = [*primary, *drawable(beyond)]
    conversations = max((difference.conversations for difference in shown), default=0)
    worse = _few([difference.measure for difference in beyond]) if beyond else ""
    words = Words(
        _decided(primary, candidate, baseline, differences)
        + (f"; but worse in {worse} (not primary)" if beyond else ""),
        f"{candidate} minus {baseline}, {_intervals(shown)} over {counted(conversations, 'conversation')}. "
        "Blue circle: better. Orange square: worse. Grey diamond: not significant.",
    )
    every = [*differences, *beyond]
    heads = (f"{candidate} minus {baseline}", units.POINTS, "95 % interval")
    panels = _rows([one for one in every if units.is_share(one.measure)], heads, differences)
    others = [one for one in every if not units.is_share(one.measure) and one.baseline > 0]
    panels += _relative(others, baseline, differences) if others else []
    return Chart(words, panels, better_legend(), across=1)


def _row(label: str, about: str, difference: Difference) -> Row:
    measure, estimate = difference.measure, difference.estimate
    return Row(
        *(label, about, estimate.mean, estimate.low, estimate.high),
        units.change_of(measure, estimate.mean),
        units.span_of(measure, estimate.low, estimate.high),
        difference.is_better,
    )


def _about(difference: Difference, primary: Sequence[Difference]) -> str:
    return f"{direction(difference.measure)} is better{'' if difference in primary else '; not primary'}"


def _rows(shown: Sequence[Difference], heads: tuple[str, str, str], primary: Sequence[Difference]) -> list[Intervals]:
    rows = [_row(one.measure, _about(one, primary), one) for one in shown]
    return [Intervals(rows, heads, _axis(rows))] if rows else []


def _relative(shown: Sequence[Difference], baseline: str, primary: Sequence[Difference]) -> list[Intervals]:
    rows = []
    for difference in shown:
        mean, low, high = (
            None if value is None else value / difference.baseline
            for value in (difference.estimate.mean, difference.estimate.low, difference.estimate.high)
        )
        between = "–" if low is None or high is None else f"{100 * low:+.1f} to {100 * high:+.1f}"
        value = f"{100 * (mean or 0.0):+.1f}"
        about = _about(difference, primary)
        rows.append(Row(difference.measure, about, mean or 0.0, low, high, value, between, difference.is_better))
    heads = (f"counted in other units, relative to {baseline}", "%", "95 % interval")
    return [Intervals(rows, heads, _axis(rows))]


def _axis(rows: Sequence[Row]) -> Axis:
    """Return an axis in points, or percent, that holds every interval and 0."""
    ends = [0.0, *(end for row in rows for end in (row.mean, row.low, row.high) if end is not None)]
    axis = nice_axis(min(ends), max(ends), most=7)
    texts = [f"{100 * value:+.3g}".replace("+0", "0").replace("-", units.MINUS) for value, _ in axis.ticks]
    return axis._replace(ticks=[(value, text) for (value, _), text in zip(axis.ticks, texts, strict=True)])


def slices_chart(slices: Sequence[Slice], baseline: str, candidate: str) -> Chart:
    """Return the slices of one measure, worst on top; slices are exploratory."""
    bounded = drawable([part.difference for part in slices])
    drawn = [part for part in slices if any(part.difference is difference for difference in bounded)]
    shown = drawn[:MOST_SLICES]
    measure = shown[0].difference.measure if shown else "no measure"
    worse = [part for part in drawn if part.difference.is_better is False]
    title = f"{measure} is not shown to be worse in any slice"
    if worse:
        among = ", most of all" if len(worse) > 1 else ":"
        title = f"{measure} is worse in {counted(len(worse), 'slice')}{among} {_name(worse[0])}"
    elif shown and all(map(_has_too_few, (part.difference for part in shown))):
        title = f"{measure}: every slice has too few conversations to show a difference"
    which = f"all {len(drawn)}" if len(shown) == len(drawn) else f"the worst {len(shown)} of {len(drawn)}"
    words = Words(
        title,
        f"{candidate} minus {baseline} by subgroup (number of probes in brackets), {which} "
        f"{_intervals([part.difference for part in shown], 'a 95 % interval')}; "
        "exploratory, not adjusted for multiple comparisons.",
    )
    rows = [_row(_name(part), counted(part.difference.n, "probe"), part.difference) for part in shown]
    heads = (f"{candidate} minus {baseline}", units.POINTS, "95 % interval")
    return Chart(words, [Intervals(rows, heads, _axis(rows))], better_legend(), across=1)


def drawable(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences on the scale of shares that have an interval.

    If none has one, because there are too few conversations, return those over several conversations.
    """
    shares = [difference for difference in differences if abs(difference.estimate.mean) <= 1]
    bounded = [difference for difference in shares if difference.estimate.low is not None]
    return bounded or [difference for difference in shares if difference.conversations > 1]


def _has_too_few(difference: Difference) -> bool:
    """Return whether two arms differ over too few conversations for an interval."""
    return difference.estimate.low is None and bool(difference.wins or difference.losses)


def _intervals(shown: Sequence[Difference], what: str = "95 % intervals") -> str:
    """Return what stands beside the differences of a picture."""
    return f"with {what}" if any(one.estimate.low is not None for one in shown) else "without intervals"


def _decided(shown: Sequence[Difference], candidate: str, baseline: str, primary: Sequence[Difference]) -> str:
    """Return what the intervals show; ``primary`` are all measures, of which ``shown`` have one."""
    by_decision: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for difference in shown:
        by_decision[difference.is_better].append(difference.measure)
    differing = [one for one in shown or primary if one.wins or one.losses]
    if differing and all(map(_has_too_few, differing)):
        most = max(one.conversations for one in differing)
        few = f"{counted(most, 'conversation')} {'is' if most == 1 else 'are'} too few"
        return f"{few} to show a difference between {candidate} and {baseline}"
    if not by_decision[True] and not by_decision[False]:
        return f"No difference between {candidate} and {baseline} is shown"
    only = [better for better, names in by_decision.items() if len(names) == len(primary) > 1]
    if only:
        return f"{candidate} is {DECIDED[only[0]]} in all {len(shown)} primary measures"
    parts = [f"{DECIDED[better]} in {_few(names)}" for better, names in by_decision.items() if names]
    return f"{candidate} is {_and(parts)}"


def _few(names: Sequence[str]) -> str:
    return _and(names) if len(names) <= 2 else f"{len(names)} measures"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _name(part: Slice) -> str:
    return f"{part.name} = {part.value[:40]}"


def ablation_chart(steps: Sequence[StepResult], cutoff: int) -> Chart:
    """Return the means of every step, marked as better, worse or not significantly different from the previous one."""
    panels = []
    for stem, title in ABLATED.items():
        name = f"{stem}@{cutoff}" if stem in ("Success", "Present") else stem
        rows = []
        for place, step in enumerate(steps):
            value, change = step.means.get(name), step.changes.get(name)
            if value is not None:
                better = change.is_better if change else None
                rows.append(Row(step.adds if place else step.arm, "", value, None, None, number(value), "", better))
        # The axis starts at 0, so that a small change looks small.
        axis = nice_axis(0.0, max((row.mean for row in rows), default=1.0))
        panels.append(Intervals(rows, ("step", "mean", ""), axis, title.format(k=cutoff)))
    words = Words(
        "Ablation: the effect of each phase",
        "Against the previous step: blue circle, better; orange square, worse; grey diamond, not significant.",
    )
    return Chart(words, panels, better_legend(), across=2)
