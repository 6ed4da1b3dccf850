"""The charts of a sweep: the Pareto front of hits against costs, and the heat map of two knobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lab.base.formatting import number
from lab.report.style import COLOURS, styled, subplots
from lab.studies.sweep.front import Configuration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = {"Success": "hit: a relevant memory\nis injected", "RepeatRate": "repeat rate", "InjectedChars": "characters"}


@styled
def front_figure(configurations: Sequence[Configuration], reference: Mapping[str, float | None]) -> Figure:
    """Draw each configuration as a point: hits against repeats and characters; the Pareto front is ringed."""
    figure, (row,) = subplots(1, 2, (12, 5))
    panels = (
        ("RepeatRate", "repeat rate: items injected in the last 6 turns"),
        ("InjectedChars", "injected characters per turn"),
    )
    sizes = sorted({int(configuration.knobs.get("autoRecall.maxItems", 0)) for configuration in configurations})
    shades = ["#56B4E9", "#0072B2", "#E69F00", "#CC79A7", "#999999"]
    for axes, (measure, title) in zip(row, panels, strict=True):
        for index, size in enumerate(sizes):
            selected = [
                configuration
                for configuration in configurations
                if int(configuration.knobs.get("autoRecall.maxItems", 0)) == size
            ]
            axes.scatter(
                [configuration.measures[measure] or 0.0 for configuration in selected],
                [configuration.measures["Success"] or 0.0 for configuration in selected],
                s=16,
                color=shades[index % len(shades)],
                alpha=0.7,
                linewidths=0,
                label=f"maxItems {size}" if size else "configurations",
            )
        front = sorted(
            (configuration for configuration in configurations if configuration.on_front),
            key=lambda configuration: configuration.measures[measure] or 0.0,
        )
        axes.scatter(
            [configuration.measures[measure] or 0.0 for configuration in front],
            [configuration.measures["Success"] or 0.0 for configuration in front],
            s=46,
            facecolors="none",
            edgecolors="#222222",
            linewidths=1.1,
            label="Pareto front of hits, repeats and characters",
        )
        if reference.get(measure) is not None and reference.get("Success") is not None:
            axes.plot(
                reference[measure] or 0.0,
                reference["Success"] or 0.0,
                "*",
                markersize=15,
                color=COLOURS["hybrid"],
                label="hybrid (no tiers)",
            )
        axes.set(xlabel=title)
    row[0].set_ylabel("hit: a relevant memory is injected")
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4)
    figure.suptitle(
        f"{len(configurations)} configurations: up and to the left is better", fontsize=13, fontweight="bold"
    )
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure


@styled
def heat_figure(
    configurations: Sequence[Configuration], across: str, down: str, columns: Sequence[Any], rows: Sequence[Any]
) -> Figure:
    """Draw the mean over all other knobs for each pair of values of two knobs."""
    figure, (panels,) = subplots(1, len(SHOWN), (13, 1.9 + 0.62 * len(rows)))
    for panel, (axes, (measure, title)) in enumerate(zip(panels, SHOWN.items(), strict=True)):
        cells = [[_mean(configurations, {across: column, down: row}, measure) for column in columns] for row in rows]
        known = [value for line in cells for value in line]
        middle = (min(known) + max(known)) / 2
        # A minimum range, so that a negligible difference does not span all colours.
        half = max((max(known) - min(known)) / 2, 0.05 * middle)
        colours = "cividis" if measure == "Success" else "cividis_r"
        axes.imshow(cells, aspect="auto", cmap=colours, vmin=middle - half, vmax=middle + half)
        for y, line in enumerate(cells):
            for x, value in enumerate(line):
                text = number(value)
                is_bright = (value > middle) == (measure == "Success")
                axes.text(x, y, text, ha="center", va="center", fontsize=9, color="black" if is_bright else "white")
        axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
        axes.set_yticks(range(len(rows)), [f"{value:g}" for value in rows] if panel == 0 else [""] * len(rows))
        axes.set(title=title, xlabel=across.rpartition(".")[2])
        axes.grid(visible=False)
    panels[0].set_ylabel(down.rpartition(".")[2])
    figure.suptitle("Mean over all other knobs; brighter is better", fontsize=13, fontweight="bold")
    figure.tight_layout()
    return figure


def _mean(configurations: Sequence[Configuration], knobs: Mapping[str, Any], measure: str) -> float:
    values = [
        configuration.measures[measure] or 0.0
        for configuration in configurations
        if all(configuration.knobs.get(key) == value for key, value in knobs.items())
    ]
    return sum(values) / len(values) if values else float("nan")
