"""One function a figure.

Each returns a matplotlib figure and reads plain records; :func:`save` writes SVG and PNG, equal bytes for equal data.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from lab.compare.paired import Difference
from lab.files import write_whole
from lab.measures.catalogue import direction, is_better
from lab.sweep.draws import MODES
from lab.sweep.saturation import REFERENCES, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
# Okabe and Ito's colours: told apart by readers with any colour vision, and in grey by their line styles and markers.
COLOURS = {
    "tier_first_v1": "#D55E00",
    "tier_quota_v1": "#0072B2",
    "hybrid": "#009E73",
    "vector": "#56B4E9",
    "bm25": "#CC79A7",
    "oracle": "#555555",
    "recency": "#E69F00",
    "random": "#999999",
    "none": "#BBBBBB",
}
TIERS = {"must": "#D55E00", "nice": "#0072B2", "unknown": "#E69F00", "ignore": "#BBBBBB"}
TITLES = {
    "distractors": "pool of unwanted memories",
    "independent": "pool of any memories",
}
# A change for the better, for the worse, and one that is not decided.
MARKS: dict[bool | None, tuple[str, str]] = {True: ("#0072B2", "o"), False: ("#D55E00", "s"), None: ("#777777", "D")}
# Text on a bar of that colour.
INKS = {"must": "white", "nice": "white", "unknown": "black", "ignore": "black"}
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "figure.dpi": 100,
    "svg.hashsalt": "recall-lab",
    "svg.fonttype": "path",
    "legend.frameon": False,
    # A dollar sign in a name is a dollar sign.
    "text.parse_math": False,
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw under this project's style, without touching anybody else's."""

    @wraps(draw)
    def within(*args: P.args, **kwargs: P.kwargs) -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return within


@styled
def saturation_figure(points: Sequence[Point]) -> Figure:
    """Hits, nice gold and repeats against the size of the must pool.

    One row a way of growing it, a band for the range over seeds.
    """
    figure, grid = subplots(2, 3, (12, 7.2))
    panels = (
        ("hit", "hit@6: a wanted memory is injected"),
        ("gold_nice", "GoldNice@6: a wanted nice one is"),
        ("repeat", "repeat rate: items seen in the last 6 turns"),
    )
    for row, mode in enumerate(MODES):
        for column, (field, title) in enumerate(panels):
            axes = grid[row][column]
            for arm in ("tier_first_v1", "tier_quota_v1"):
                _band(axes, [point for point in points if point.mode == mode and point.arm == arm], field, arm)
            for point in points:
                value = getattr(point, field)
                if point.arm in REFERENCES and value is not None:
                    axes.axhline(
                        value,
                        color=COLOURS[point.arm],
                        linestyle="--" if point.arm == "hybrid" else ":",
                        linewidth=1.3,
                        label=f"{point.arm} (no tiers)" if point.arm == "hybrid" else point.arm,
                    )
            axes.set(xlim=(0, 1), ylim=(0, 1.03), title=title if row == 0 else "")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
            if row == 1:
                axes.set_xlabel("must_remember, share of all memories")
            if column == 0:
                axes.set_ylabel(TITLES[mode], fontweight="bold", fontsize=11)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4)
    figure.suptitle("What each policy recalls as the must_remember pool grows", fontsize=13, fontweight="bold")
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def _band(axes: Axes, points: Sequence[Point], field: str, arm: str) -> None:
    by_share: dict[float, list[float]] = {}
    for point in points:
        value = getattr(point, field)
        if value is not None and point.share is not None:
            by_share.setdefault(point.share, []).append(value)
    shares = sorted(by_share)
    means = [sum(by_share[share]) / len(by_share[share]) for share in shares]
    axes.fill_between(
        shares,
        [min(by_share[share]) for share in shares],
        [max(by_share[share]) for share in shares],
        color=COLOURS[arm],
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(shares, means, color=COLOURS[arm], marker="o" if arm == "tier_quota_v1" else "s", markersize=4, label=arm)


@styled
def tradeoff_figure(measures: Mapping[str, Mapping[str, float | None]], cutoff: int = 6) -> Figure:
    """Each arm as a point: how often it hits, how often it repeats itself. Up and to the left is better."""
    figure, ((axes,),) = subplots(1, 1, (8, 4.4))
    points = tradeoff_points(measures, cutoff)
    for (arm, (hit, repeat)), marker in zip(points.items(), cycle("osD^v<>PX"), strict=False):
        # The policies under study lie on top: good arms lie close together.
        top = 3 if arm.startswith("tier_") else 2
        axes.plot(
            repeat, hit, marker, markersize=9, color=_colour(arm), zorder=top, label=f"{arm}  {hit:.2f} / {repeat:.2f}"
        )
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.05),
        xlabel="repeat rate (lower is better)",
        ylabel=f"hit@{cutoff} (higher is better)",
    )
    # Named in a legend and not beside the points: good arms lie close together.
    if axes.lines:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title="hit / repeat")
    figure.tight_layout()
    return figure


def tradeoff_points(
    measures: Mapping[str, Mapping[str, float | None]], cutoff: int = 6
) -> dict[str, tuple[float, float]]:
    """Hit and repeat rate of the arms that have both."""
    pairs = {arm: (values.get(f"Success@{cutoff}"), values.get("RepeatRate")) for arm, values in measures.items()}
    return {arm: (hit, repeat) for arm, (hit, repeat) in pairs.items() if hit is not None and repeat is not None}


@styled
def forest_figure(differences: Sequence[Difference], baseline: str, candidate: str) -> Figure:
    """Candidate minus baseline with 95 % intervals; the zero line is "no difference"."""
    shown = [one for one in differences if one.estimate.low is not None and abs(one.estimate.mean) <= 1]
    figure, ((axes,),) = subplots(1, 1, (8, 1.2 + 0.42 * max(1, len(shown))))
    for place, one in enumerate(reversed(shown)):
        low, high = one.estimate.low or 0.0, one.estimate.high or 0.0
        colour, marker = MARKS[is_better(one.measure, low, high)]
        axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot(one.estimate.mean, place, marker, color=colour)
    axes.axvline(0, color="#333333", linewidth=1)
    axes.set_yticks(
        range(len(shown)),
        [f"{one.measure} ({direction(one.measure)} is better)" for one in reversed(shown)],
    )
    axes.set_title("Blue circle: better. Orange square: worse. Grey diamond: not decided.", fontsize=10)
    axes.set(
        xlabel=f"{candidate} minus {baseline}, with its 95 % interval",
        ylim=(-0.6, len(shown) - 0.4),
    )
    figure.tight_layout()
    return figure


@styled
def composition_figure(shares: Mapping[str, Mapping[str, float]]) -> Figure:
    """What the injected places hold: the share of each importance label, an arm a bar."""
    arms = [arm for arm, values in shares.items() if sum(values.values())]
    figure, ((axes,),) = subplots(1, 1, (8, 1.3 + 0.4 * max(1, len(arms))))
    for place, arm in enumerate(reversed(arms)):
        start = 0.0
        for tier, colour in TIERS.items():
            width = shares[arm].get(tier, 0.0)
            axes.barh(place, width, left=start, color=colour, label=tier if place == 0 else None)
            if width >= 0.08:
                axes.text(
                    start + width / 2, place, f"{width:.0%}", ha="center", va="center", color=INKS[tier], fontsize=9
                )
            start += width
    axes.set_yticks(range(len(arms)), list(reversed(arms)))
    axes.set(xlim=(0, 1), title="What fills the places")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=False)
    if arms:
        figure.legend(loc="lower center", ncols=4)
    figure.tight_layout(rect=(0, 0.32 / figure.get_figheight(), 1, 1))
    return figure


@styled
def timeline_figure(selections: Mapping[str, Sequence[Sequence[str]]], labels: Mapping[str, str]) -> Figure:
    """Which memory was injected in which turn, arms side by side: a static prefix shows as long horizontal lines."""
    figure, (row,) = subplots(1, len(selections), (6 * len(selections), 5))
    height = max((len({key for chosen in turns for key in chosen}) for turns in selections.values()), default=1)
    for axes, (arm, turns) in zip(row, selections.items(), strict=True):
        order = {key: place for place, key in enumerate(dict.fromkeys(key for chosen in turns for key in chosen))}
        for tier, colour in TIERS.items():
            spots = [
                (turn, order[key]) for turn, chosen in enumerate(turns, 1) for key in chosen if labels.get(key) == tier
            ]
            if spots:
                axes.plot(*zip(*spots, strict=True), "s", markersize=3.2, color=colour, label=tier)
        axes.set(title=f"{arm}: {len(order)} different memories", xlabel="recall turn", ylim=(-1, height))
        if order:
            axes.legend(loc="upper left", fontsize=8)
    row[0].set_ylabel("memory, in order of first appearance")
    figure.suptitle("Which memory in which turn", fontweight="bold")
    figure.tight_layout()
    return figure


def save(figure: Figure, path: Path) -> list[Path]:
    """Write ``path.svg`` and ``path.png``."""
    files = []
    for kind in ("svg", "png"):
        file = path.with_name(f"{path.name}.{kind}")
        write_whole(file, rendered(figure, kind))
        files.append(file)
    return files


def rendered(figure: Figure, kind: str) -> bytes:
    """A figure as ``svg`` or ``png``."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # A name in a script that no installed font has is drawn as boxes; the page beside spells it out.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=144)
    return buffer.getvalue()


def subplots(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    """A figure without pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _colour(arm: str) -> str:
    return COLOURS.get(arm, "#333333")
