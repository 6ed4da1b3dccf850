"""Charts as slides: matplotlib draws what :mod:`lab.report.charts` describes, with title, subtitle and source.

Sizes suit a 16:9 slide in a large room. Colour is never the only encoding.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any, ParamSpec

from lab.base.files import write_atomically
from lab.base.formatting import number
from lab.report import charts
from lab.report.charts import MOST_NAMES, SOFT, Bars, Chart, Columns, Heat, Intervals, Key, Plot, Series, Stripes, Words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
INK, LINE = "#1d1d1f", "#e4e4e4"
# Colours of the page in light mode.
PLAIN = {"var(--good)": "#0072B2", "var(--bad)": "#D55E00", "var(--soft)": "#777777"}
SLIDE = (12.8, 7.2)
STYLE: dict[str, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "figure.dpi": 100,
    "svg.hashsalt": "recall-lab",
    "svg.fonttype": "path",
    "legend.frameon": False,
    # Dollar signs in names are not math.
    "text.parse_math": False,
}
SMALL, MIDDLE, LARGE = 12, 15, 21
# Characters per line at that size.
TITLE_WIDTH, SUBTITLE_WIDTH, SOURCE_WIDTH = 66, 104, 150
# Font families with Chinese characters, traditional forms first, and the names of their files.
CHINESE = (
    "Noto Sans CJK TC",
    "Noto Sans CJK SC",
    "Noto Sans TC",
    "Noto Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang TC",
)
FILES = ("NotoSansCJK-", "NotoSansTC-", "NotoSansSC-", "wqy-microhei", "wqy-zenhei", "PingFang")
WEIGHTS = ("Regular", "Bold", "wqy", "PingFang")


@cache
def chinese_font() -> str | None:
    """Return a fallback font family with Chinese characters; None if none is installed.

    matplotlib's list of fonts may be out of date, so the font files are searched as well.
    """
    from matplotlib.font_manager import findSystemFonts, fontManager

    # A family may lack a weight, and matplotlib would print a warning for each text that it draws with the next one.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)

    def known() -> str | None:
        families = {font.name for font in fontManager.ttflist}
        return next((family for family in CHINESE if family in families), None)

    if known() is None:
        for file in sorted(findSystemFonts()):
            name = Path(file).name
            if name.startswith(FILES) and any(weight in name for weight in WEIGHTS):
                fontManager.addfont(file)
    return known()


def _style() -> dict[str, Any]:
    # Listed explicitly: for a generic family matplotlib uses only the first font that it finds, without fallback.
    fallback = chinese_font()
    return STYLE | {"font.family": ["DejaVu Sans", *([fallback] if fallback else [])]}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a function to draw in this project's style without changing global settings."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        import matplotlib as mpl

        # An axis of one value is drawn all the same: matplotlib's warning is for a chosen axis.
        with mpl.rc_context(_style()), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return draw(*args, **kwargs)

    return wrapper


def slide(rows: int, columns: int, words: Words, **options: Any) -> tuple[Figure, Any]:
    """Return a slide with its words, and a grid of axes that fills the rest.

    ``options`` are those of ``Figure.subplots``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=SLIDE)
    height, left = SLIDE[1] * 72, 0.025
    top = 1 - 18 / height
    for text, size, width, weight, colour in (
        (words.title, LARGE, TITLE_WIDTH, "bold", INK),
        (words.subtitle, MIDDLE, SUBTITLE_WIDTH, "normal", SOFT),
    ):
        lines = wrap(text, width)
        figure.text(left, top, "\n".join(lines), va="top", fontsize=size, fontweight=weight, color=colour)
        top -= (len(lines) * size * 1.3 + 5) / height
    bottom = 10 / height
    if words.source:
        lines = wrap(words.source, SOURCE_WIDTH)
        figure.text(left, bottom, "\n".join(lines), va="bottom", fontsize=SMALL - 1, color=SOFT)
        bottom += len(lines) * SMALL * 1.3 / height
    figure.set_label(words.says)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    figure.set_layout_engine("constrained", rect=(0.015, bottom, 0.97, top - bottom), w_pad=0.1, h_pad=0.1)
    for axes in grid.flat:
        axes.tick_params(labelsize=MIDDLE - 1)
        axes.xaxis.label.set_size(MIDDLE)
        axes.yaxis.label.set_size(MIDDLE)
    return figure, grid


@styled
def draw(chart: Chart) -> Figure:
    """Return the slide of a chart."""
    across = max(1, min(chart.across, len(chart.panels)))
    down = max(1, -(-len(chart.panels) // across))
    heights = [len(panel.rows) + 1.5 if isinstance(panel, Intervals) else 1.0 for panel in chart.panels[::across]]
    figure, grid = slide(down, across, chart.words, gridspec_kw={"height_ratios": heights or [1.0]})
    for axes in list(grid.flat)[len(chart.panels) :]:
        axes.set_visible(False)
    letters = 84 // across
    for place, (axes, panel) in enumerate(zip(grid.flat, chart.panels, strict=False)):
        _DRAWN[type(panel)](axes, panel)
        axes.set_title(fill(panel.title, letters), fontsize=SMALL, loc="left")
        if len(chart.panels) > 1:
            axes.tick_params(labelsize=SMALL)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_label_text(fill(axis.get_label_text(), letters), fontsize=SMALL)
        if across > 1 and isinstance(panel, Intervals):
            # Long names, or names in every column, would leave no room for the axes.
            axes.set_yticks(range(len(panel.rows)), [fill(row.label, 38) for row in panel.rows], fontsize=SMALL - 3)
            left = chart.panels[place - 1] if place % across else None
            if isinstance(left, Intervals) and [row.label for row in left.rows] == [row.label for row in panel.rows]:
                axes.set_yticklabels([])
        if across > 2 and isinstance(panel, Plot):
            axes.set_xticks(axes.get_xticks()[::2], [text.get_text() for text in axes.get_xticklabels()[::2]])
            # Panels above each other have the same label.
            if place + across < len(chart.panels):
                axes.set_xlabel("")
    if chart.key:
        # If there is no room for all names, the policies under study come first.
        names = sorted(chart.key, key=lambda key: not key.name.startswith("tier_"))[:MOST_NAMES]
        shown = [key for key in chart.key if key in names]
        figure.legend(
            handles=[_handle(key, "\n" if across > 2 else "  ") for key in shown],
            loc="outside right center",
            fontsize=SMALL,
        )
    return figure


def _handle(key: Key, between: str) -> Any:
    from matplotlib.lines import Line2D

    name = f"{key.name}{between}{key.text}" if key.text else key.name
    line = key.dash if key.dash is not None else "none"
    return Line2D(
        [], [], color=_plain(key.colour), marker=key.marker or "none", linestyle=line, markersize=9, label=name
    )


def _plain(colour: str) -> str:
    return PLAIN.get(colour, colour)


def _frame(axes: Axes, x: charts.Axis | None, y: charts.Axis | None) -> None:
    """Give the axes the range, the ticks and the labels of a chart's."""
    for one, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if one is not None:
            axis.set_ticks([at for at, _ in one.ticks], [text for _, text in one.ticks])
            axis.set_label_text(one.label)
    if x is not None:
        axes.set_xlim(x.low, x.high)
    if y is not None:
        axes.set_ylim(y.low, y.high)


def _plot(axes: Axes, panel: Plot) -> None:
    for one in panel.series:
        # An empty line that is not clipped would leave no room for the axes.
        if isinstance(one, Series) and one.points:
            if one.band:
                at, low, high = zip(*one.band, strict=True)
                if one.has_bars:
                    axes.vlines(at, low, high, color=one.colour, alpha=0.6, linewidth=1)
                else:
                    axes.fill_between(at, low, high, color=one.colour, alpha=0.18, linewidth=0)
            axes.plot(
                [at for at, _ in one.points],
                [value for _, value in one.points],
                linestyle=one.dash or "none",
                drawstyle="steps-post" if one.step else "default",
                color=one.colour,
                marker=one.marker or "none",
                markevery=one.every,
                markersize=7 if one.dash else 12,
                linewidth=1.8,
                clip_on=False,
                label=one.name,
            )
        elif isinstance(one, Stripes) and one.spans:
            # One line with gaps instead of many lines keeps the file small.
            xs = [x for begin, end, _ in one.spans for x in (begin, end, float("nan"))]
            ys = [y for _, _, at in one.spans for y in (at, at, float("nan"))]
            width = max(1.2, one.width * 1.2)
            axes.plot(xs, ys, color=one.colour, linewidth=width, solid_capstyle="butt", label=one.name)
    for value, colour, dash in panel.lines:
        axes.axhline(value, color=colour, linestyle=dash, linewidth=1.6)
    if panel.shade:
        axes.axvspan(*panel.shade, color=SOFT, alpha=0.25, linewidth=0)
    _frame(axes, panel.x, panel.y)


def _rows(axes: Axes, names: list[str]) -> None:
    """Give the axes one row for each name, the first on top."""
    size = MIDDLE if len(names) < 10 else SMALL
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, labelsize=size)
    axes.set_ylim(max(1, len(names)) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _intervals(axes: Axes, panel: Intervals) -> None:
    for place, row in enumerate(panel.rows):
        colour, marker = charts.MARKED[row.better]
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [place, place], color=_plain(colour), linewidth=3)
        axes.plot(row.mean, place, marker, color=_plain(colour), markersize=11)
        at, where = (1.02, place), axes.get_yaxis_transform()
        axes.annotate(
            row.value + (f"  ({row.interval})" if row.interval else ""), at, xycoords=where, va="center", fontsize=SMALL
        )
    axes.axvline(0, color=SOFT, linewidth=1.2)
    first, second, third = panel.heads
    label = f"{first}, {second}, with its {third}" if third else second
    _rows(axes, [f"{row.label} ({row.about})" if row.about else row.label for row in panel.rows])
    _frame(axes, panel.axis._replace(label=label), None)


def _bars(axes: Axes, panel: Bars) -> None:
    for place, row in enumerate(panel.rows):
        start = row.start
        for name, value in row.parts.items():
            axes.barh(place, value, left=start, color=panel.colours[name], height=0.72)
            if panel.show and value >= 0.11 * panel.most:
                inks: dict[str, Any] = {"ha": "center", "va": "center", "color": panel.show[name], "fontsize": SMALL}
                axes.text(start + value / 2, place, f"{value:.0%}", **inks)
            start += value
        axes.text(start + 0.01 * panel.most, place, row.note, va="center", fontsize=SMALL)
    _rows(axes, [row.label for row in panel.rows])
    longest = max((len(row.note) for row in panel.rows), default=0)
    axes.set_xlim(0, (panel.most or 1.0) * (1.02 + 0.02 * min(longest, 24)))
    axes.set_xticks([])


def _columns(axes: Axes, panel: Columns) -> None:
    bottom = [0.0] * len(panel.parts)
    for name, colour in panel.colours.items():
        heights = [part.get(name, 0.0) for part in panel.parts]
        axes.bar(range(len(heights)), heights, 1.0, bottom, color=colour, edgecolor=colour, linewidth=0.3)
        bottom = [base + height for base, height in zip(bottom, heights, strict=True)]
    _frame(axes, charts.Axis(-0.5, max(1, len(panel.parts)) - 0.5, (), panel.x), panel.y)


def _heat(axes: Axes, heat: Heat) -> None:
    shades = charts.heat_shades(heat)
    axes.imshow(shades, aspect="auto", cmap="Blues", vmin=0, vmax=1)
    for y, (values, bright) in enumerate(zip(heat.cells, shades, strict=True)):
        for x, value in enumerate(values):
            colour = "white" if bright[x] > 0.6 else "black"
            axes.text(x, y, number(value), ha="center", va="center", fontsize=SMALL, color=colour)
    for axis, (label, names) in ((axes.xaxis, heat.across), (axes.yaxis, heat.down)):
        axis.set_ticks(range(len(names)), names)
        axis.set_label_text(label)
    axes.grid(visible=False)


_DRAWN: Mapping[type, Callable[[Axes, Any], None]] = {
    Plot: _plot,
    Intervals: _intervals,
    Bars: _bars,
    Columns: _columns,
    Heat: _heat,
}


def save(figure: Figure, path: Path) -> list[Path]:
    """Write ``path.svg`` and ``path.png``."""
    files = []
    for kind in ("svg", "png"):
        file = path.with_name(f"{path.name}.{kind}")
        write_atomically(file, rendered(figure, kind))
        files.append(file)
    return files


def rendered(figure: Figure, kind: str) -> bytes:
    """Return a figure as ``svg`` or ``png``, with its words as the file's title.

    SVG text is drawn as paths. If no installed font has some characters, it stays text, which the reader's fonts may be
    able to show; in a PNG these characters are boxes.
    """
    drawn, missing = _rendered(figure, kind, STYLE["svg.fonttype"])
    if missing and kind == "svg":
        drawn, _ = _rendered(figure, kind, "none")
    # Freeze the layout, so that the next format looks the same.
    figure.set_layout_engine("none")
    return drawn


def _rendered(figure: Figure, kind: str, letters: str) -> tuple[bytes, bool]:
    """Return a rendered figure, and whether it has a character that no installed font has."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    title = {"Title": str(figure.get_label())} if figure.get_label() else {}
    metadata = {"Date": None, **title} if kind == "svg" else {"Software": None, **title}
    with mpl.rc_context(_style() | {"svg.fonttype": letters}), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph .* missing")
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=150)
    missing = [warning for warning in caught if str(warning.message).startswith("Glyph ")]
    for warning in caught:
        if warning not in missing:
            warnings.warn(warning.message, stacklevel=2)
    return buffer.getvalue(), bool(missing)
