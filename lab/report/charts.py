"""What a chart shows, as records, and the chart on a page: SVG and tables that take the width of the page.

A :class:`Chart` is described once; :func:`html` draws it for a page and :func:`lab.report.slides.draw` for a slide.
On a page, positions are percentages and text is text, so a chart is readable at 390 pixels and at 1,280, follows the
light or dark colours of the page, and prints. Everything given is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from lab.base.formatting import counted, number
from lab.report.units import unbroken

# Okabe and Ito's colours, which readers with colour blindness can distinguish; line styles and markers differ as well.
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
OTHER, SOFT = "#333333", "#5c5c66"
# The markers of the two policies.
MARKERS = {"tier_first_v1": "s", "tier_quota_v1": "o"}
TIERS = {"must": "#D55E00", "nice": "#0072B2", "unknown": "#E69F00", "ignore": "#BBBBBB"}
# Text on an area of that colour. Not pure white or black, which the page's dark theme would replace.
INKS = {"must": "#010101", "nice": "#fefefe", "unknown": "#010101", "ignore": "#010101"}
# Names of arms that fit beside a chart, one below the other.
MOST_NAMES = 16
# Marks of 10 by 10 pixels around (0, 0); colour is never the only encoding.
SHAPES = {
    "o": '<circle r="4.6"/>',
    "s": '<rect x="-4.3" y="-4.3" width="8.6" height="8.6"/>',
    "D": '<path d="M0-5.6 5.6 0 0 5.6-5.6 0z"/>',
    "^": '<path d="M0-5.4 5.2 4.2H-5.2z"/>',
    "v": '<path d="M0 5.4 5.2-4.2H-5.2z"/>',
    "<": '<path d="M-5.4 0 4.2-5.2V5.2z"/>',
    ">": '<path d="M5.4 0-4.2-5.2V5.2z"/>',
    "P": '<path d="M-1.8-5.2h3.6v3.4h3.4v3.6h-3.4v3.4h-3.6v-3.4h-3.4v-3.6h3.4z"/>',
    "X": '<path d="M-5-2.6-2.6-5 0-2.4 2.6-5 5-2.6 2.4 0 5 2.6 2.6 5 0 2.4-2.6 5-5 2.6-2.4 0z"/>',
    "*": '<path d="M0-6 1.5-1.9 5.8-1.8 2.4.8 3.6 5 0 2.5-3.6 5-2.4.8-5.8-1.8-1.5-1.9z"/>',
}
DASHES = {"-": "", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}
# Colours without enough contrast on one of the two backgrounds take one of the page's.
_THEMED = {
    "#333333": "var(--ink)",
    "#555555": "var(--soft)",
    "#777777": "var(--soft)",
    "#999999": "var(--rule)",
    "#BBBBBB": "var(--rule)",
    "#D55E00": "var(--orange)",
    "#0072B2": "var(--blue)",
    "#009E73": "var(--green)",
    "#CC79A7": "var(--pink)",
    "#5c5c66": "var(--soft)",
}
HEIGHT = 230
# Columns of a strip; an odd number, so that no change has one of its own.
BINS = 21
Point = tuple[float, float]


class Axis(NamedTuple):
    """The range of an axis, its ticks as positions and texts, and what it shows."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    label: str = ""

    def at(self, value: float) -> float:
        """Return a position in percent of the axis."""
        return 100 * (value - self.low) / ((self.high - self.low) or 1)


class Series(NamedTuple):
    """One line, or points without a ``dash``.

    ``band`` has the lower and the upper edge over the same positions, drawn as an area, or as bars with ``has_bars``.
    """

    name: str
    points: Sequence[Point]
    colour: str
    marker: str = ""
    dash: str | None = "-"
    band: Sequence[tuple[float, float, float]] = ()
    every: int = 1
    step: bool = False
    has_bars: bool = False


class Stripes(NamedTuple):
    """Short horizontal lines from ``begin`` to ``end`` at a height, in one colour."""

    name: str
    spans: Sequence[tuple[float, float, float]]
    colour: str
    width: float


class Row(NamedTuple):
    """A row with an interval: what it is, its value as text, and the mark: better, worse or neither."""

    label: str
    about: str
    mean: float
    low: float | None
    high: float | None
    value: str
    interval: str
    better: bool | None


class Bar(NamedTuple):
    """A stacked bar: its segments by name, and a text beside it. ``start`` is where it begins."""

    label: str
    parts: Mapping[str, float]
    note: str = ""
    start: float = 0.0


class Plot(NamedTuple):
    """A panel with lines and marks; ``lines`` are horizontal: height, colour and dash; ``shade`` is a range of x."""

    series: Sequence[Series | Stripes]
    x: Axis
    y: Axis
    title: str = ""
    lines: Sequence[tuple[float, str, str]] = ()
    shade: tuple[float, float] | None = None


class Intervals(NamedTuple):
    """Values with their intervals on one axis; ``heads`` name the row, the value and the interval."""

    rows: Sequence[Row]
    heads: tuple[str, str, str]
    axis: Axis
    title: str = ""


class Bars(NamedTuple):
    """Stacked bars, longest at ``most``; ``show`` has the colour of the letters on segments with a number."""

    rows: Sequence[Bar]
    colours: Mapping[str, str]
    most: float
    show: Mapping[str, str] | None = None
    title: str = ""


class Columns(NamedTuple):
    """Stacked columns of shares, one for each part."""

    title: str
    parts: Sequence[Mapping[str, float]]
    colours: Mapping[str, str]
    x: str
    y: Axis


class Heat(NamedTuple):
    """A table of values, shaded from the worst to the best."""

    title: str
    across: tuple[str, Sequence[str]]
    down: tuple[str, Sequence[str]]
    cells: Sequence[Sequence[float]]
    is_better: str


class Key(NamedTuple):
    """An entry of a legend: name, colour, marker and dash, and a text beside the name."""

    name: str
    colour: str
    marker: str = "s"
    dash: str | None = None
    text: str = ""


class Words(NamedTuple):
    """The words of a figure: the finding as title, what is shown as subtitle, and the source."""

    title: str
    subtitle: str = ""
    source: str = ""

    @property
    def says(self) -> str:
        """The title and subtitle as sentences, for use as alternative text."""
        return " ".join(f"{text.rstrip('.')}." for text in self[:2] if text)


class Chart(NamedTuple):
    """A figure: its words, its panels and their legend; ``across`` panels stand beside each other on a slide."""

    words: Words
    panels: Sequence[Plot | Intervals | Bars | Columns | Heat]
    key: Sequence[Key] = ()
    across: int = 3
    is_beside: bool = False

    def of(self, source: str) -> Chart:
        """Return the chart with a source line, and every space in its words a single one."""
        title, subtitle = (" ".join(text.split()) for text in self.words[:2])
        return self._replace(words=Words(title, subtitle, source))


def html(chart: Chart) -> str:
    """Return a chart for a page, without its words: the panels under their legend, or a single one beside it."""
    names = legend(chart.key)
    panels = [_DRAWN[type(panel)](panel) for panel in chart.panels]  # type: ignore[operator]  # by its kind
    if chart.is_beside:
        return f'<div class="beside">{"".join(panels)}{names}</div>'
    if not any(panel.title for panel in chart.panels):
        return names + "".join(panels)
    return f'{names}<div class="panels">{"".join(panels)}</div>'


def colour_of(arm: str) -> str:
    """Return an arm's colour; arms without one share a colour."""
    return COLOURS.get(arm, OTHER)


def of_all(shown: int, total: int) -> str:
    """Return how many arms are shown, and of how many if not all."""
    return counted(shown, "arm") if shown == total else f"the first {shown} of {counted(total, 'arm')}"


def _say(text: str) -> str:
    """Return a text escaped, with percent signs that do not break."""
    return escape(unbroken(text))


def ink(colour: str) -> str:
    """Return a colour of a slide as the page shows it."""
    return _THEMED.get(colour, colour)


def nice_axis(low: float, high: float, label: str = "", *, share: bool = False, most: int = 5) -> Axis:
    """Return an axis with round ticks that covers a range; shares are in percent."""
    if not isfinite(high - low) or high <= low:
        high = low + 1
    rough = (high - low) / most
    scale = 10.0 ** floor(log10(rough))
    step = next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= rough * 0.999)
    begin, end = floor(low / step + 1e-9), -floor(-high / step + 1e-9)
    ticks = [number * step for number in range(begin, end + 1)]
    texts = [f"{tick * 100:.3g} %" if share else f"{tick:,.6g}" for tick in ticks]
    return Axis(ticks[0], ticks[-1], list(zip(ticks, texts, strict=True)), label)


def shares_axis(label: str = "") -> Axis:
    """Return an axis from 0 % to 100 %."""
    return Axis(0.0, 1.0, [(part / 4, f"{part * 25} %") for part in range(5)], label)


def powers_axis(values: Iterable[float], label: str = "") -> Axis:
    """Return a logarithmic axis that covers some values above 0: positions are powers of ten."""
    known = list(values) or [1.0]
    low, high = floor(log10(min(known))), ceil(log10(max(known)))
    ticks = [(power, f"{10.0**power:g}") for power in range(low, max(high, low + 1) + 1)]
    return Axis(low, max(high, low + 1), ticks, label)


def sizes_axis(sizes: Iterable[int], label: str = "") -> tuple[Axis, dict[int, float]]:
    """Return an axis on which equal steps are equal factors, with a tick at each size, and the places of the sizes."""
    known = sorted(set(sizes))
    least = next((size for size in known if size), 1)
    places = {size: 1 + log10(size / least) if size else 0.0 for size in known}
    first = min(places.values(), default=0.0)
    last = max(places.values(), default=1.0)
    return Axis(
        first, last if last > first else first + 1, [(places[size], f"{size:,}") for size in known], label
    ), places


def _plot(panel: Plot) -> str:
    series, x, y, title, lines, shade = panel
    body = [_grid(x, y)]
    if shade:
        left, right = sorted(x.at(edge) for edge in shade)
        body.append(f'<rect class="shade" x="{left:.2f}%" y="0" width="{right - left:.2f}%" height="100%"/>')
    body += [
        f'<line x1="0" x2="100%" y1="{100 - y.at(value):.2f}%" y2="{100 - y.at(value):.2f}%" '
        f'style="stroke:{ink(colour)}" stroke-width="1.6" stroke-dasharray="{DASHES.get(dash, "")}"/>'
        for value, colour, dash in lines
    ]
    stretched, marks = [], []
    for one in series:
        if isinstance(one, Stripes):
            path = "".join(f"M{_k(x.at(a))} {_k(100 - y.at(at))}H{_k(x.at(b))}" for a, b, at in one.spans)
            stretched.append(f'<path d="{path}" style="stroke:{ink(one.colour)}" stroke-width="{one.width:g}"/>')
        else:
            stretched.append(_line(one, x, y))
            marks += _marks(one, x, y)
    body.append(f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" class="stretch">{"".join(stretched)}</svg>')
    head = f'<p class="panel-title">{_say(title)}</p>' if title else ""
    side = f'<p class="axis">{_say(y.label)}</p>' if y.label else ""
    foot = f'<p class="axis under">{_say(x.label)}</p>' if x.label else ""
    drawn = f'<svg width="100%" height="{HEIGHT}">{"".join(body)}{"".join(marks)}</svg>'
    return f'<div class="panel">{head}{side}<div class="canvas">{drawn}</div>{foot}</div>'


def _grid(x: Axis, y: Axis) -> str:
    parts = []
    for value, text in y.ticks:
        at = 100 - y.at(value)
        parts.append(f'<line class="grid" x1="0" x2="100%" y1="{at:.2f}%" y2="{at:.2f}%"/>')
        parts.append(f'<text x="-7" y="{at:.2f}%" dy=".32em" text-anchor="end">{_say(text)}</text>')
    for value, text in x.ticks:
        at = x.at(value)
        parts.append(f'<line class="grid" y1="0" y2="100%" x1="{at:.2f}%" x2="{at:.2f}%"/>')
        parts.append(f'<text x="{at:.2f}%" y="100%" dy="1.4em" text-anchor="middle">{_say(text)}</text>')
    return "".join(parts)


def _line(one: Series, x: Axis, y: Axis) -> str:
    path = ""
    if one.has_bars:
        bars = "".join(f"M{_k(x.at(at))} {_k(100 - y.at(a))}V{_k(100 - y.at(b))}" for at, a, b in one.band)
        path += f'<path d="{bars}" style="stroke:{ink(one.colour)}" opacity=".6"/>'
    elif one.band:
        edge = [(at, high) for at, _, high in one.band] + [(at, low) for at, low, _ in reversed(one.band)]
        corners = " ".join(f"{_k(x.at(a))},{_k(100 - y.at(b))}" for a, b in edge)
        path += f'<polygon points="{corners}" style="fill:{ink(one.colour)}" opacity=".2"/>'
    if one.dash is not None and len(one.points) > 1:
        points = list(one.points)
        if one.step:
            points = [points[0], *(corner for a, b in pairwise(points) for corner in ((b[0], a[1]), b))]
        corners = " ".join(f"{_k(x.at(a))},{_k(100 - y.at(b))}" for a, b in points)
        dash = f' stroke-dasharray="{DASHES[one.dash]}"' if DASHES.get(one.dash) else ""
        path += f'<polyline points="{corners}" style="stroke:{ink(one.colour)}" stroke-width="2"{dash}/>'
    return path


def _marks(one: Series, x: Axis, y: Axis) -> list[str]:
    if not one.marker:
        return []
    return [
        f'<svg x="{x.at(a):.2f}%" y="{100 - y.at(b):.2f}%" class="mark" style="fill:{ink(one.colour)}">'
        f"{SHAPES[one.marker]}</svg>"
        for a, b in one.points[:: one.every]
    ]


def _k(share: float) -> str:
    """Return a position in percent as one of the stretched picture, which is 1,000 wide and high."""
    return f"{share * 10:.1f}".removesuffix(".0")


def legend(entries: Iterable[Key]) -> str:
    """Return a legend for a page."""
    rows = []
    for name, colour, marker, dash, text in entries:
        line = ""
        if dash is not None:
            dashes = DASHES.get(dash, "")
            line = f'<path d="M-12 0H12" style="stroke:{ink(colour)}" stroke-width="2.4" stroke-dasharray="{dashes}"/>'
        sign = f'<g style="fill:{ink(colour)}">{SHAPES[marker]}</g>' if marker else ""
        more = f' <span class="of">{_say(text)}</span>' if text else ""
        key = f'<svg class="key" viewBox="-13 -7 26 14" aria-hidden="true">{line}{sign}</svg>'
        rows.append(f"<li>{key}{_say(name)}{more}</li>")
    return f'<ul class="legend">{"".join(rows)}</ul>'


def areas(colours: Mapping[str, str]) -> list[Key]:
    """Return the legend of filled areas."""
    return [Key(name, colour) for name, colour in colours.items()]


def _intervals(panel: Intervals) -> str:
    rows, heads, axis, title = panel
    ticks = "".join(
        f'<text x="{axis.at(value):.2f}%" y="13" text-anchor="middle">{_say(text)}</text>' for value, text in axis.ticks
    )
    first, second, third = map(_say, heads)
    lines = [
        f'<tr><th scope="row" class="left">{_say(row.label)} <span class="of">{_say(row.about)}</span></th>'
        f'<td class="bar"><svg width="100%" height="24" aria-hidden="true">{_interval(row, axis)}</svg></td>'
        f'<td class="num">{_say(row.value)}</td><td class="num">{_say(row.interval)}</td></tr>'
        for row in rows
    ]
    table = (
        f'<table class="rows"><thead><tr><th scope="col" class="left">{first}</th>'
        f'<th scope="col" class="bar"><span class="hidden">chart</span>'
        f'<svg width="100%" height="18" role="presentation">{ticks}</svg></th>'
        f'<th scope="col" class="num">{second}</th><th scope="col" class="num">{third}</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )
    return _titled(title, table)


# Marks of a change that is better, worse, or not significant.
MARKED = {True: ("var(--good)", "o"), False: ("var(--bad)", "s"), None: ("var(--soft)", "D")}


def _interval(row: Row, axis: Axis) -> str:
    colour, shape = MARKED[row.better]
    zero = f'<line class="zero" x1="{axis.at(0):.2f}%" x2="{axis.at(0):.2f}%" y1="0" y2="24"/>'
    reach = ""
    if row.low is not None and row.high is not None:
        left, right = axis.at(max(row.low, axis.low)), axis.at(min(row.high, axis.high))
        reach = f'<line x1="{left:.2f}%" x2="{right:.2f}%" y1="12" y2="12" style="stroke:{colour}" stroke-width="3.2"/>'
    mark = f'<svg x="{axis.at(row.mean):.2f}%" y="12" class="mark" style="fill:{colour}">{SHAPES[shape]}</svg>'
    return zero + reach + mark


def better_legend() -> list[Key]:
    """Return the legend of the marks of differences."""
    names = {True: "better", False: "worse", None: "no difference shown"}
    return [Key(names[better], *MARKED[better], "-") for better in names]


def bars(panel: Bars) -> str:
    """Return stacked bars for a page."""
    rows, colours, most, show, title = panel
    lines = []
    for row in rows:
        start, parts = 100 * row.start / (most or 1), []
        for name, value in row.parts.items():
            width = 100 * value / (most or 1)
            if width <= 0:
                continue
            parts.append(
                f'<rect x="{start:.2f}%" width="{width:.2f}%" height="22" style="fill:{ink(colours[name])}">'
                f"<title>{_say(name)}</title></rect>"
            )
            if show and width >= 11:
                middle = start + width / 2
                parts.append(
                    f'<text x="{middle:.2f}%" y="11" dy=".34em" text-anchor="middle" style="fill:{show[name]}">'
                    f"{value * 100:.0f} %</text>"
                )
            start += width
        lines.append(
            f'<tr><th scope="row" class="left">{_say(row.label)}</th><td class="bar">'
            f'<svg width="100%" height="22" aria-hidden="true">{"".join(parts)}</svg></td>'
            f'<td class="num">{_say(row.note)}</td></tr>'
        )
    table = f'<table class="rows bars"><tbody>{"".join(lines)}</tbody></table>'
    return _titled(title, table)


def _titled(title: str, table: str) -> str:
    return f'<div class="panel"><p class="panel-title">{escape(title)}</p>{table}</div>' if title else table


def _columns(panel: Columns) -> str:
    title, parts, colours, x, y = panel
    body, width = [], 100 / (len(parts) or 1)
    for place, shares in enumerate(parts):
        bottom = 0.0
        for name, share in shares.items():
            if share > 0:
                body.append(
                    f'<rect x="{place * width:.2f}%" y="{100 - 100 * (bottom + share):.2f}%" width="{width:.2f}%" '
                    f'height="{100 * share:.2f}%" style="fill:{ink(colours[name])}"/>'
                )
            bottom += share
    drawn = f'<svg width="100%" height="{HEIGHT}">{_grid(Axis(0, 1, ()), y)}{"".join(body)}</svg>'
    return (
        f'<div class="panel"><p class="panel-title">{_say(title)}</p><p class="axis">{_say(y.label)}</p>'
        f'<div class="canvas">{drawn}</div><p class="axis under">{_say(x)}</p></div>'
    )


def strip(values: Sequence[float], mean: float, low: float | None, high: float | None, better: bool | None) -> str:
    """Return how many conversations lie where, as columns around 0, above the mean difference with its interval."""
    reach = max([abs(value) for value in (*values, mean, low or 0.0, high or 0.0)], default=0.0) or 1.0
    axis = Axis(-reach, reach, ())
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int((value + reach) / (2 * reach) * BINS))] += 1
    most, width = max(counts), 100 / BINS
    bins = "".join(
        f'<rect class="bin" x="{place * width:.2f}%" width="{width * 0.86:.2f}%" y="{30 - 28 * count / most:.1f}" '
        f'height="{28 * count / most:.1f}"/>'
        for place, count in enumerate(counts)
        if count
    )
    row = Row("", "", mean, low, high, "", "", better)
    zero = '<line class="zero" x1="50%" x2="50%" y1="0" y2="52"/>'
    return f'<svg class="strip" width="100%" height="52">{bins}{zero}<svg y="30">{_interval(row, axis)}</svg></svg>'


def heat_shades(heat: Heat) -> list[list[float]]:
    """Return how good each cell is, from 0 to 1; a negligible difference does not span the whole range."""
    known = [value for line in heat.cells for value in line]
    middle = (min(known) + max(known)) / 2
    half = max((max(known) - min(known)) / 2, 0.05 * abs(middle)) or 1.0
    sign = 1 if heat.is_better == "higher" else -1
    return [[0.5 + sign * (value - middle) / (2 * half) for value in line] for line in heat.cells]


def _heat(heat: Heat) -> str:
    head = "".join(f'<th scope="col">{_say(text)}</th>' for text in heat.across[1])
    lines = []
    for name, cells, shades in zip(heat.down[1], heat.cells, heat_shades(heat), strict=True):
        inner = "".join(
            f'<td style="background:color-mix(in srgb,var(--blue) {70 * shade:.0f}%,transparent)">{number(value)}</td>'
            for value, shade in zip(cells, shades, strict=True)
        )
        lines.append(f'<tr><th scope="row" class="left">{_say(name)}</th>{inner}</tr>')
    # A long name that did not wrap would hide the columns.
    first = (
        f'<th scope="col" class="left" style="white-space:normal">{_say(heat.down[0])} ↓ {_say(heat.across[0])} →</th>'
    )
    return (
        f'<div class="panel"><p class="panel-title">{_say(heat.title)}</p><div class="scroll" tabindex="0" '
        f'role="region" aria-label="{_say(heat.title)}"><table><thead><tr>{first}{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div></div>"
    )


_DRAWN = {Plot: _plot, Intervals: _intervals, Bars: bars, Columns: _columns, Heat: _heat}
