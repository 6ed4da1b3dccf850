"""The charts of studies: saturation (seed 000), governance, silence, scale, sweep and latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import log10
from typing import Any

from lab.base.formatting import counted, milliseconds
from lab.report.charts import (
    COLOURS,
    MARKERS,
    TIERS,
    Bar,
    Bars,
    Chart,
    Columns,
    Heat,
    Key,
    Plot,
    Series,
    Words,
    areas,
    colour_of,
    nice_axis,
    powers_axis,
    shares_axis,
    sizes_axis,
)
from lab.report.figures_arms import STAGES
from lab.studies.points import (
    MODES,
    POLICIES,
    REFERENCES,
    SATURATED,
    UNTIERED,
    Chosen,
    Configuration,
    GovernancePoint,
    SaturationPoint,
    ScalePoint,
    SilencePoint,
    grading_finding,
    saturated,
)

TITLES = {
    "distractors": "irrelevant memories",
    "independent": "any memories",
}
PANELS = (
    ("hit", "hit@6: a relevant memory"),
    ("gold_nice", "GoldNice@6: relevant and nice"),
    ("repeat", "repeat rate, last 6 turns"),
)
FIRST, QUOTA = "tier_first_v1", "tier_quota_v1"
# The markers of other arms.
OTHERS = "D^v<>PX*"
# Colour, line and marker of each signal; colour is never the only encoding.
SIGNS = {
    "top": ("#0072B2", "-", "o"),
    "mean": ("#009E73", "--", "s"),
    "margin": ("#D55E00", "-.", "^"),
    "words": ("#CC79A7", ":", "D"),
}
# Panels that fit on a slide.
MOST_PANELS = 6
LOSS = 0.02
# The dash of a reference without tiers, and of the oracle.
LINES = {"hybrid": "--", "oracle": ":"}
# The parts of a column from the bottom, with the tier whose colour each has.
LABELS = {"must": "must", "nice": "nice", "unknown": "unknown", "ignored": "ignore"}
GOVERNED = (("hit", "hit@6"), ("repeat", "repeat rate"), ("full", "only must_remember"))
SHOWN = {"Success": "hit: a relevant memory is injected", "RepeatRate": "repeat rate", "InjectedChars": "characters"}
COSTS = {
    "RepeatRate": "repeat rate: items injected in the last 6 turns",
    "InjectedChars": "injected characters per turn",
}
SHADES = ("#56B4E9", "#0072B2", "#E69F00", "#CC79A7", "#999999")


def saturation_chart(points: Sequence[SaturationPoint]) -> Chart:
    """Return hits, relevant nice memories and repeats against the must_remember share.

    One row per way of choosing the must_remember memories; the band is the range over seeds.
    """
    draws = len({point.seed for point in points if point.seed is not None})
    policies = list(dict.fromkeys(point.arm for point in points if point.share is not None))
    others = "".join(f" Grey: {arm}." for arm in policies if arm not in MARKERS)
    words = Words(
        _saturation_finding(points),
        f"Recall as irrelevant (top) or any memories (bottom) become must_remember; mean and range over {draws} "
        "samples. Orange squares: tier_first_v1. Blue circles: tier_quota_v1."
        f"{others} Dashed: no tiers. Dotted: the oracle.",
    )
    references = [arm for arm in UNTIERED if any(point.arm == arm for point in points)]
    x = shares_axis("must_remember, share of all memories")
    panels = []
    for mode in MODES:
        for field, title in PANELS:
            series = []
            for arm in policies:
                selected = [point for point in points if point.mode == mode and point.arm == arm]
                band = [(share, min(values), max(values)) for share, values in _by_share(selected, field).items()]
                means = list(_means(selected, field).items())
                series.append(Series(arm, means, colour_of(arm), MARKERS.get(arm, "^"), band=band))
            lines = [
                (value, COLOURS[point.arm], LINES[point.arm])
                for point in points
                if point.arm in references and (value := getattr(point, field)) is not None
            ]
            panels.append(Plot(series, x, shares_axis(), f"{title}; of {TITLES[mode]}", tuple(dict.fromkeys(lines))))
    about = {"hybrid": "no tiers", "oracle": "only what is relevant"}
    key = [
        *(Key(arm, colour_of(arm), MARKERS.get(arm, "^"), "-") for arm in policies),
        *(Key(arm, colour_of(arm), "", LINES[arm], about.get(arm, "")) for arm in references),
    ]
    return Chart(words, panels, key)


def _saturation_finding(points: Sequence[SaturationPoint]) -> str:
    """Return, for each way of choosing must_remember memories, where the policies' hit rates differ most.

    Where the sign of the difference changes, also where it is largest the other way.
    """
    parts = []
    for mode in MODES:
        first, quota = (
            _means([point for point in points if (point.mode, point.arm) == (mode, arm)], "hit")
            for arm in (FIRST, QUOTA)
        )
        gaps = {share: quota[share] - first[share] for share in first if share in quota}
        if not gaps:
            continue
        share = max(gaps, key=lambda one: (abs(gaps[one]), -one))
        finding = (
            f"drawn from {TITLES[mode]}, {share:.0%} must_remember: {QUOTA} hits on {quota[share]:.0%} of the probes "
            f"and {FIRST} on {first[share]:.0%}"
        )
        opposite = [one for one in gaps if gaps[one] * gaps[share] < 0]
        if opposite:
            other = max(opposite, key=lambda one: (abs(gaps[one]), -one))
            finding += f", but with {other:.0%} on {quota[other]:.0%} and {first[other]:.0%}"
        parts.append(finding)
    if not parts:
        return "Recall by policy as the must_remember share increases"
    title = "; ".join(parts)
    return f"{title[0].upper()}{title[1:]}"


def _means(points: Sequence[SaturationPoint], field: str) -> dict[float, float]:
    return {share: sum(values) / len(values) for share, values in _by_share(points, field).items()}


def _by_share(points: Sequence[SaturationPoint], field: str) -> dict[float, list[float]]:
    by_share: dict[float, list[float]] = {}
    for point in points:
        value = getattr(point, field)
        if value is not None and point.share is not None:
            by_share.setdefault(point.share, []).append(value)
    return dict(sorted(by_share.items()))


def scale_chart(points: Sequence[ScalePoint], cutoff: int = 6) -> Chart:
    """Return hits, clean hits, repeats and the median time of a turn against the number of added memories."""
    rest = cycle(OTHERS)
    markers = {arm: MARKERS.get(arm) or next(rest) for arm in dict.fromkeys(point.arm for point in points)}
    x, places = sizes_axis((point.memories for point in points), "memories added to each conversation")
    fields = (
        ("hit", f"hit@{cutoff}: a relevant memory", ""),
        ("clean_hit", f"CleanHit@{cutoff}: and nothing misleading", ""),
        ("repeat", "repeat rate, last 6 turns", ""),
        ("p50", "time of a turn, median", "ms"),
    )
    panels = []
    for field, title, unit in fields:
        lines = {arm: _line(points, field, arm) for arm in markers}
        values = [value for line in lines.values() for value in line.values()]
        if not values:
            continue
        y, logarithmic = shares_axis(), unit and min(values) > 0
        if unit:
            # An arm that ranks every memory takes a hundred times as long as one that searches.
            y = powers_axis(values) if logarithmic else nice_axis(0.0, max(values), unit)
        series = [
            Series(
                arm,
                [(places[size], log10(value) if logarithmic else value) for size, value in line.items()],
                colour_of(arm),
                markers[arm],
            )
            for arm, line in lines.items()
            if line
        ]
        panels.append(Plot(series, x, y, title + (f", {unit}" if unit else "")))
    words = Words(
        _scale_finding(points, cutoff),
        "Each conversation gets memories of other conversations as distractors; 0 is the conversation alone. Equal "
        "steps are equal factors. A missing point is not available.",
    )
    return Chart(words, panels, [Key(arm, colour_of(arm), mark, "-") for arm, mark in markers.items()], across=2)


def _line(points: Sequence[ScalePoint], field: str, arm: str) -> dict[int, float]:
    values = {point.memories: getattr(point, field) for point in points if point.arm == arm}
    return {size: value for size, value in sorted(values.items()) if value is not None}


def _scale_finding(points: Sequence[ScalePoint], cutoff: int) -> str:
    """Return the hit rates of the best arm at the smallest and the largest size."""
    sizes = sorted({point.memories for point in points})
    last = {point.arm: point.hit for point in points if point.memories == sizes[-1] and point.hit is not None}
    if not last:
        return f"hit@{cutoff} by number of memories"
    arm = max(last, key=lambda name: last[name])
    first = _line(points, "hit", arm).get(sizes[0], 0.0)
    if len(sizes) == 1:
        return f"With {sizes[0]:,} memories added, {arm} hits on {last[arm]:.0%} of the probes"
    return (
        f"From {sizes[0]:,} to {sizes[-1]:,} added memories, the hit rate of {arm}, the best arm there, goes from "
        f"{first:.0%} to {last[arm]:.0%}"
    )


def silence_chart(points: Sequence[SilencePoint], chosen: Sequence[Chosen] = ()) -> Chart:
    """Return a panel for each embedder, language and arm: the curves of all signals, from never to always silent.

    ``chosen`` are the thresholds that were evaluated on other conversations than they were chosen on.
    """
    parts = list(dict.fromkeys(_part(point) for point in points))
    shown = parts[:MOST_PANELS]
    more = f" The first {len(shown)} of {len(parts)} panels." if len(shown) < len(parts) else ""
    words = Words(
        _silence_finding(points, chosen),
        "False recall against hits as the threshold rises, from the upper right (never silent) to the lower left "
        f"(always silent). Down and to the right is better; grey: at most {100 * LOSS:g} points of the hit rate lost. "
        f"All conversations are in every curve, so its best point looks better than a threshold is on others.{more}",
    )
    panels = []
    for part in shown:
        of_part = [point for point in points if _part(point) == part]
        before = next(point.hit for point in of_part if point.threshold == 0.0)
        series = []
        for signal, (colour, dash, marker) in SIGNS.items():
            curve = [(point.hit, point.false_recall) for point in of_part if point.signal == signal]
            every = max(1, len(curve) // 8)
            series.append(Series(signal, curve, colour, marker, dash, every=every, step=True))
        x = nice_axis(0.0, before or 1.0, "hit rate", share=True)
        y = shares_axis("FalseRecall")
        panels.append(Plot(series, x, y, ", ".join(part), shade=(before - LOSS, before)))
    return Chart(words, panels, [Key(signal, *sign[::2], sign[1]) for signal, sign in SIGNS.items()])


def _silence_finding(points: Sequence[SilencePoint], chosen: Sequence[Chosen]) -> str:
    """Return what the best signal of the first panel reaches at a loss of at most ``LOSS``, on what it was chosen on.

    With ``chosen``, also what its threshold does to the conversations that did not choose it.
    """
    first = [point for point in points if _part(point) == _part(points[0])]
    start = next(point for point in first if point.threshold == 0.0)
    kept = [point for point in first if start.hit - point.hit <= LOSS + 1e-9]
    best = min(kept, key=lambda point: (point.false_recall, point.threshold))
    if best.false_recall >= start.false_recall:
        return (
            f"No threshold that loses at most {100 * LOSS:g} points of the hit rate lowers FalseRecall, "
            f"{start.false_recall:.0%}"
        )
    finding = (
        f"Chosen on all probes to lose at most {100 * LOSS:g} points of the hit rate, a threshold lowers FalseRecall "
        f"from {start.false_recall:.0%} to {best.false_recall:.0%} (signal {best.signal})"
    )
    for row in chosen:
        if (_part(row), row.signal, row.rule) == (_part(best), best.signal, "loss"):
            lost = row.hit[0] - row.hit[1]
            finding += (
                f"; chosen on one half, on the other: to {row.false_recall[1]:.0%}, "
                f"{f'losing {100 * lost:.1f} points' if lost > 0 else 'losing nothing'}"
            )
    return finding


def _part(point: SilencePoint | Chosen) -> tuple[str, str, str]:
    return point.embedder, point.language, point.arm


def governance_chart(points: Sequence[GovernancePoint]) -> Chart:
    """Return a row for each grader: labels, hits, repeats and saturation of both policies by threshold."""
    first, second = POLICIES
    graders = list(dict.fromkeys(point.grader for point in points if point.grader))
    words = Words(
        grading_finding(points, graders[0]),
        "Each memory is graded; must_remember from the threshold on (x, falling). hit@6: a relevant memory is "
        f"injected. Orange squares: {first}. Blue circles: {second}. Dashed: {REFERENCES[0]}, without "
        f"tiers. Dotted: {REFERENCES[1]}. A vertical line: {first} injects only must_remember in "
        f"{SATURATED:.0%} of its recalls.",
    )
    panels: list[Plot | Columns] = []
    for grader in graders:
        of_grader = [point for point in points if point.grader == grader]
        graded = [point for point in of_grader if point.arm == first]
        thresholds = [point.must_from for point in graded if point.must_from is not None]
        high, low = max(thresholds), min(thresholds)
        x = nice_axis(low, high, "threshold")._replace(low=high, high=low if low < high else high - 1)
        x = x._replace(ticks=[(at, text) for at, text in x.ticks if low <= at <= high])
        labels = [{name: getattr(point, name) for name in LABELS} for point in graded]
        colours = {name: TIERS[tier] for name, tier in LABELS.items()}
        about = f"threshold, from {high:.2f} to {low:.2f}"
        panels.append(Columns(f"labels by {grader}", labels, colours, about, shares_axis("share of memories")))
        end = saturated(points, grader)
        for field, title in GOVERNED:
            series = [
                Series(
                    arm,
                    [
                        (point.must_from or 0.0, value)
                        for point in of_grader
                        if point.arm == arm and (value := getattr(point, field)) is not None
                    ],
                    colour_of(arm),
                    MARKERS[arm],
                )
                for arm in POLICIES
            ]
            if end is not None:
                at = end.must_from or 0.0
                series.append(Series("saturated", [(at, 0.0), (at, 1.0)], COLOURS[first]))
            lines = [
                (value, COLOURS[point.arm], LINES.get(point.arm, ":"))
                for point in points
                if not point.grader and (value := getattr(point, field)) is not None
            ]
            panels.append(Plot(series, x, shares_axis(), f"{title}, {grader}", lines))
    key = [
        *(Key(name, TIERS[tier], "s", None) for name, tier in LABELS.items()),
        *(Key(arm, colour_of(arm), MARKERS[arm], "-") for arm in POLICIES),
        *(Key(arm, colour_of(arm), "", LINES.get(arm, ":")) for arm in REFERENCES),
    ]
    return Chart(words, panels, key, across=4 if len(graders) > 1 else 2)


def front_chart(configurations: Sequence[Configuration], reference: Mapping[str, float | None]) -> Chart:
    """Return each configuration as a point: hits against repeats and characters; the Pareto front is joined."""
    sizes = sorted({int(one.knobs.get("autoRecall.maxItems", 0)) for one in configurations})
    colours = {size: SHADES[place % len(SHADES)] for place, size in enumerate(sizes)}
    names = {size: f"maxItems {size}" if size else "configurations" for size in sizes}
    panels = []
    for measure, title in COSTS.items():
        # A measure without a value, such as repeats of a single turn, has no point.
        at = {
            one.number: (spent, found)
            for one in configurations
            if (spent := one.measures[measure]) is not None and (found := one.measures["Success"]) is not None
        }
        drawn = [one for one in configurations if one.number in at]
        series = [
            Series(
                names[size],
                [at[one.number] for one in drawn if int(one.knobs.get("autoRecall.maxItems", 0)) == size],
                colours[size],
                "o",
                None,
            )
            for size in sizes
        ]
        front = sorted(at[one.number] for one in drawn if one.on_front)
        series.append(Series("front", front, "#333333", "D", None))
        cost, hit = reference.get(measure), reference.get("Success")
        if cost is not None and hit is not None:
            series.append(Series("hybrid (no tiers)", [(cost, hit)], COLOURS["hybrid"], "*", None))
        x = nice_axis(
            0.0, max([cost or 0.0, *(spent for spent, _ in at.values())]), title, share=measure != "InjectedChars"
        )
        panels.append(Plot(series, x, shares_axis("hit: a relevant memory is injected"), SHOWN[measure]))
    key = [
        *(Key(names[size], colours[size], "o") for size in sizes),
        Key("Pareto front of hits, repeats and characters", "#333333", "D"),
        Key("hybrid (no tiers)", COLOURS["hybrid"], "*"),
    ]
    words = Words(_front_finding(configurations, reference), "Up and to the left is better.")
    return Chart(words, panels, key, across=2)


def _front_finding(configurations: Sequence[Configuration], reference: Mapping[str, float | None]) -> str:
    """Return what the best configuration and the reference hit and repeat."""
    many, hit = counted(len(configurations), "configuration"), reference.get("Success")
    best = max(configurations, key=lambda one: one.measures["Success"] or 0.0, default=None)
    if best is None or hit is None or best.measures["Success"] is None:
        return f"{many} by hits, repeats and characters"
    first, second = (
        f"on {found:.0%} of the probes" + (f" with {repeats:.0%} repeats" if repeats is not None else "")
        for found, repeats in (
            (best.measures["Success"], best.measures["RepeatRate"]),
            (hit, reference.get("RepeatRate")),
        )
    )
    return f"The best of {many} hits {first}, hybrid {second}"


def heat_chart(
    configurations: Sequence[Configuration], across: str, down: str, columns: Sequence[Any], rows: Sequence[Any]
) -> Chart:
    """Return the mean over all other knobs for each pair of values of two knobs."""
    heads = [
        (knob.rpartition(".")[2], [f"{value:g}" for value in values])
        for knob, values in ((across, columns), (down, rows))
    ]
    panels = [
        Heat(
            title,
            heads[0],
            heads[1],
            [[_mean(configurations, {across: column, down: row}, measure) for column in columns] for row in rows],
            "higher" if measure == "Success" else "lower",
        )
        for measure, title in SHOWN.items()
    ]
    return Chart(Words("Mean over all other knobs; bluer is better"), panels)


def _mean(configurations: Sequence[Configuration], knobs: Mapping[str, Any], measure: str) -> float:
    values = [
        configuration.measures[measure] or 0.0
        for configuration in configurations
        if all(configuration.knobs.get(key) == value for key, value in knobs.items())
    ]
    return sum(values) / len(values) if values else float("nan")


# Arms without a colour of their own take these in order.
SPARE = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
STORES = {"lancedb": "-", "exact": "--"}
MARKS = "so^Dv<>PX"
SPENT = {"append, including compaction": "#E69F00", "recall": "#0072B2"}
EMBEDDED = {True: "the prompt is embedded each time", False: "the prompt is embedded before"}
Turns = Sequence[Mapping[str, Any]]


def size_chart(warm: Turns) -> Chart:
    """Return p50 and p95 of a turn against the number of memories, on logarithmic axes, with intervals as bars."""
    embedded = any("turn" in turn["stages"] for turn in warm)
    looks = _looks(warm)
    of_turns = {name: [turn for turn in warm if _of(turn, name)] for name in ("p50", "p95")}
    every = [_of(turn, name)["value"] for name, turns in of_turns.items() for turn in turns]
    # A bound of 0 has no place on a logarithmic axis.
    least = min(every, default=1.0) / 10
    x, places = sizes_axis((turn["memories"] for turn in warm), "memories in the store")
    panels, key = [], {}
    for name, title in (("p50", "median turn (p50)"), ("p95", "95th percentile (p95)")):
        series = []
        for store, dash in STORES.items():
            for arm, (colour, marker) in looks.items():
                turns = [turn for turn in of_turns[name] if (turn["store"], turn["arm"]) == (store, arm)]
                if turns:
                    label = arm if store == "lancedb" else f"{arm}, exact store"
                    key[label] = Key(label, colour, marker, dash)
                    at = [(places[turn["memories"]], _of(turn, name)) for turn in turns]
                    series.append(_curve(label, at, colour, marker, dash, least))
        values = [edge for one in series for _, low, high in one.band for edge in (low, high)]
        y = powers_axis([10**value for value in values], "milliseconds per turn")
        panels.append(Plot(series, x, y, title if series else f"{title}: n too small"))
    words = Words(
        "Memory latency of a turn by store size",
        f"Each arm searches, selects and renders by itself; {EMBEDDED[embedded]}. Bars are 95 % intervals.",
    )
    return Chart(words, panels, list(key.values()), across=2)


def stages_chart(warm: Turns) -> Chart:
    """Return the mean of each stage as a share of the turn, stacked, one bar per arm and size."""
    shown = [turn for turn in warm if _stage_mean(turn, _whole(turn))]
    several = len({turn["store"] for turn in shown}) > 1
    rows, stages = [], {**({"embed": "#333333"} if any("embed" in turn["stages"] for turn in shown) else {}), **STAGES}
    for turn in shown:
        total = _stage_mean(turn, _whole(turn))
        parts = {stage: _stage_mean(turn, stage) / total for stage in stages}
        parts["the rest"] = max(0.0, 1 - sum(parts.values()))
        where = f", {turn['store']}" if several else ""
        rows.append(Bar(f"{turn['arm']}{where}, {turn['memories']:,}", parts, f"{milliseconds(total)} ms"))
    colours = {**stages, "the rest": "#BBBBBB"}
    words = Words("Time of a turn by stage", "Shares of the mean turn, with the mean turn beside each bar.")
    return Chart(words, [Bars(rows, colours, 1.0)], areas(colours))


def compaction_chart(waiting: Turns, cadence: Turns, note: str | None = None) -> Chart:
    """Return a turn over a table with uncompacted rows, and the cost of an append and a recall by cadence.

    ``note`` is a sentence below both.
    """
    turns = [turn for turn in waiting if turn["recall"]["p50"]]
    spent = {turn["waiting"]: turn["compact_ms"] for turn in waiting if turn["compact_ms"]}
    x, places = sizes_axis((turn["waiting"] for turn in waiting), "rows appended one by one since the last compaction")
    every = [*spent.values(), *(turn["recall"]["p50"]["value"] for turn in turns)]
    least = min(every, default=1.0) / 10
    series = []
    for arm, (colour, marker) in _looks([*waiting, *cadence]).items():
        at = [(places[turn["waiting"]], turn["recall"]["p50"]) for turn in turns if turn["arm"] == arm]
        if at:
            series.append(_curve(f"{arm}, a turn (p50)", at, colour, marker, "-", least))
    points = [(places[rows], log10(max(ms, least))) for rows, ms in spent.items()]
    series.append(Series("compacting them all, once", points, "#333333", "X", ":"))
    edges = [edge for one in series for _, *pair in one.band for edge in pair] + [value for _, value in points]
    y = powers_axis([10**value for value in edges], "milliseconds")
    base = waiting[0]["memories"] if waiting else 0
    rows = [
        Bar(
            f"{turn['arm']}, {turn['compact_every']} rows between compactions",
            dict(zip(SPENT, (turn["append"]["mean"] or 0.0, turn["recall"]["mean"] or 0.0), strict=True)),
            f"{milliseconds((turn['append']['mean'] or 0.0) + (turn['recall']['mean'] or 0.0))} ms",
        )
        for turn in cadence
    ]
    most = max((sum(row.parts.values()) for row in rows), default=1.0)
    panels: list[Plot | Bars] = [
        Plot(series, x, y, f"uncompacted rows on top of {base:,} compacted ones"),
        Bars(rows, SPENT, most, title="one append and one recall, mean"),
    ]
    key = [*(Key(one.name, one.colour, one.marker, one.dash) for one in series), *areas(SPENT)]
    return Chart(Words("The cost of uncompacted rows", note or ""), panels, key, across=2)


def _curve(
    label: str, at: Sequence[tuple[float, Mapping[str, float]]], colour: str, marker: str, dash: str, least: float
) -> Series:
    """Return quantiles by place, with their intervals as bars, on a logarithmic axis."""

    def place(value: float) -> float:
        return log10(max(value, least))

    band = [(x, place(value["low"]), place(value["high"])) for x, value in at]
    return Series(label, [(x, place(value["value"])) for x, value in at], colour, marker, dash, band, has_bars=True)


def _looks(turns: Turns) -> dict[str, tuple[str, str]]:
    spare, arms = cycle(SPARE), dict.fromkeys(turn["arm"] for turn in turns)
    return {arm: (COLOURS.get(arm) or next(spare), marker) for arm, marker in zip(arms, cycle(MARKS), strict=False)}


def _of(turn: Mapping[str, Any], name: str) -> Any:
    return turn["stages"].get(_whole(turn), {}).get(name)


def _whole(turn: Mapping[str, Any]) -> str:
    """Return the stage that is the whole turn: with the embedding of the prompt, if that was timed."""
    return "turn" if "turn" in turn["stages"] else "recall"


def _stage_mean(turn: Mapping[str, Any], stage: str) -> float:
    return float(turn["stages"].get(stage, {}).get("mean") or 0.0)
