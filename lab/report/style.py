"""The style of figures: colours, fonts, and the slide layout with title, subtitle and source.

Sizes suit a 16:9 slide in a large room. Colour is never the only encoding.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from lab.base.files import write_atomically
from lab.base.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
INK, SOFT, LINE = "#1d1d1f", "#5c5c66", "#e4e4e4"
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
OTHER = "#333333"
# The markers of the two policies.
MARKERS = {"tier_first_v1": "s", "tier_quota_v1": "o"}
TIERS = {"must": "#D55E00", "nice": "#0072B2", "unknown": "#E69F00", "ignore": "#BBBBBB"}
# Text on an area of that colour. Not pure white or black, which the page's dark theme would replace.
INKS = {"must": "#010101", "nice": "#fefefe", "unknown": "#010101", "ignore": "#010101"}
# Marks of a change that is better, worse, or not significant.
MARKS: dict[bool | None, tuple[str, str]] = {True: ("#0072B2", "o"), False: ("#D55E00", "s"), None: ("#777777", "D")}
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
# Names that fit beside a chart, one below the other.
MOST_NAMES = 16
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


class Words(NamedTuple):
    """The words of a figure: the finding as title, what is shown as subtitle, and the source."""

    title: str
    subtitle: str = ""
    source: str = ""


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


def subplots(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    """Return a figure and its axes without pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    return figure, figure.subplots(rows, columns, squeeze=False)


def slide(rows: int, columns: int, words: Words, **options: Any) -> tuple[Figure, Any]:
    """Return a slide with its words, and a grid of axes that fills the rest.

    :func:`words_of` returns the words again. ``options`` are those of ``Figure.subplots``.
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
    figure.set_label("\n".join(" ".join(text.split()) for text in (words.title, words.subtitle)))
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    figure.set_layout_engine("constrained", rect=(0.015, bottom, 0.97, top - bottom), w_pad=0.1, h_pad=0.1)
    for axes in grid.flat:
        axes.tick_params(labelsize=MIDDLE - 1)
        axes.xaxis.label.set_size(MIDDLE)
        axes.yaxis.label.set_size(MIDDLE)
    return figure, grid


def alt_text(figure: Figure) -> str:
    """Return the title and subtitle of a slide as sentences, for use as alternative text."""
    return " ".join(f"{text.rstrip('.')}." for text in words_of(figure) if text)


def words_of(figure: Figure) -> Words:
    """Return the title and subtitle of a slide; empty for a figure that is not a slide."""
    title, _, subtitle = str(figure.get_label()).partition("\n")
    return Words(title, subtitle)


def within(figure: Figure) -> tuple[float, float]:
    """Return the top and bottom of a slide's chart without its words, as shares of the height from the top.

    Call this before the slide is saved, which removes its layout engine.
    """
    engine = figure.get_layout_engine()
    _, bottom, _, height = engine.get()["rect"] if engine else (0.0, 0.0, 1.0, 1.0)
    return 1 - bottom - height, 1 - bottom


def of_all(shown: int, total: int) -> str:
    """Return how many arms are shown, and of how many if not all."""
    return counted(shown, "arm") if shown == total else f"the first {shown} of {counted(total, 'arm')}"


def name_at_right(axes: Axes, points: Mapping[str, tuple[float | None, float]], colours: Mapping[str, str]) -> None:
    """Write names at the right edge with a line to each point, spread so that they do not overlap.

    ``points`` maps a name to its data coordinates; if x is None, the line starts at the edge.
    """
    low, high = axes.get_ylim()
    step = 1.3 * MIDDLE / (0.66 * SLIDE[1] * 72) * (high - low)
    order = sorted(points, key=lambda name: (points[name][1], name))
    heights = _apart([points[name][1] for name in order], step, low, high)
    for name, height in zip(order, heights, strict=True):
        x, y = points[name]
        axes.annotate(
            name,
            (1.0 if x is None else x, y),
            xycoords=axes.get_yaxis_transform() if x is None else "data",
            xytext=(1.04, height),
            textcoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=MIDDLE - 1,
            arrowprops={
                "arrowstyle": "-",
                "color": colours[name],
                "linewidth": 1.2,
                "shrinkA": 2,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )


def _apart(heights: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Return ascending heights moved so that they are at least a step apart and below the upper bound."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + step) if moved else max(height, low))
    ceiling = high
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - step
    return moved


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
    title = {"Title": alt_text(figure)} if alt_text(figure) else {}
    metadata = {"Date": None, **title} if kind == "svg" else {"Software": None, **title}
    with mpl.rc_context(_style() | {"svg.fonttype": letters}), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph .* missing")
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=150)
    missing = [warning for warning in caught if str(warning.message).startswith("Glyph ")]
    for warning in caught:
        if warning not in missing:
            warnings.warn(warning.message, stacklevel=2)
    return buffer.getvalue(), bool(missing)


def colour_of(arm: str) -> str:
    """Return an arm's colour; arms without one share a colour."""
    return COLOURS.get(arm, OTHER)
