"""How figures look: colours, type, and the slide that carries a finding, what it is of, and where it comes from.

Sizes are those of a slide of 16 to 9 that is read from the back of a room; nothing is told by colour alone.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from lab.files import write_atomically
from lab.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
INK, SOFT, LINE, PAPER = "#1d1d1f", "#5c5c66", "#e4e4e4", "#ffffff"
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
STRANGER = "#333333"
TIERS = {"must": "#D55E00", "nice": "#0072B2", "unknown": "#E69F00", "ignore": "#BBBBBB"}
# Text on an area of that colour. Not quite white: paper turns dark on a dark page, and this does not.
INKS = {"must": "#010101", "nice": "#fefefe", "unknown": "#010101", "ignore": "#010101"}
# A change for the better, for the worse, and one that is not decided.
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
    # A dollar sign in a name is a dollar sign.
    "text.parse_math": False,
}
SMALL, MIDDLE, LARGE = 12, 15, 21
# Names that fit beside a drawing, one below the other.
MOST_NAMES = 16
# Letters of a line of that size that fit a slide.
TITLE_WIDTH, SUBTITLE_WIDTH, SOURCE_WIDTH = 66, 104, 150
# Families with Chinese characters, the traditional forms first, and how their files are called.
CHINESE = ("Noto Sans CJK TC", "Noto Sans CJK SC", "Noto Sans TC", "Noto Sans SC", "WenQuanYi Micro Hei", "PingFang TC")
FILES = ("NotoSansCJK-", "NotoSansTC-", "NotoSansSC-", "wqy-microhei", "PingFang")
WEIGHTS = ("Regular", "Bold", "wqy", "PingFang")


class Words(NamedTuple):
    """What a figure says of itself: the finding; what is shown, of how many; and where it comes from."""

    title: str
    subtitle: str = ""
    source: str = ""


@cache
def chinese_font() -> str | None:
    """A family for what the default one lacks, Chinese before all; None where none is installed.

    matplotlib keeps a list of fonts that may be older than a font; so the files are looked at, too.
    """
    from matplotlib.font_manager import findSystemFonts, fontManager

    def known() -> str | None:
        families = {one.name for one in fontManager.ttflist}
        return next((one for one in CHINESE if one in families), None)

    if known() is None:
        for file in sorted(findSystemFonts()):
            name = Path(file).name
            if name.startswith(FILES) and any(weight in name for weight in WEIGHTS):
                fontManager.addfont(file)
    return known()


def _style() -> dict[str, Any]:
    # Named one by one: of a generic family matplotlib takes the first that it finds, and no other for what that lacks.
    fallback = chinese_font()
    return STYLE | {"font.family": ["DejaVu Sans", *([fallback] if fallback else [])]}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw under this project's style, without touching anybody else's."""

    @wraps(draw)
    def within(*args: P.args, **kwargs: P.kwargs) -> Figure:
        import matplotlib as mpl

        # An axis of one value is drawn all the same: matplotlib's advice is for whoever chose the axis.
        with mpl.rc_context(_style()), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return draw(*args, **kwargs)

    return within


def subplots(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    """A figure without pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    return figure, figure.subplots(rows, columns, squeeze=False)


def slide(rows: int, columns: int, words: Words, **options: Any) -> tuple[Figure, Any]:
    """A slide with its words and a grid of axes that fill the rest; :func:`told` gives the words back.

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
    figure.set_label("\n".join(" ".join(one.split()) for one in (words.title, words.subtitle)))
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    figure.set_layout_engine("constrained", rect=(0.015, bottom, 0.97, top - bottom), w_pad=0.1, h_pad=0.1)
    for axes in grid.flat:
        axes.tick_params(labelsize=MIDDLE - 1)
        axes.xaxis.label.set_size(MIDDLE)
        axes.yaxis.label.set_size(MIDDLE)
    return figure, grid


def told(figure: Figure) -> str:
    """The words of a slide: its finding, and what is shown."""
    return " ".join(f"{one.rstrip('.')}." for one in words_of(figure) if one)


def words_of(figure: Figure) -> Words:
    """What a slide says of itself, but for its source; nothing of a figure that is none."""
    title, _, subtitle = str(figure.get_label()).partition("\n")
    return Words(title, subtitle)


def within(figure: Figure) -> tuple[float, float]:
    """From where to where the drawing of a slide reaches, its words left out, in shares of its height from above.

    To be asked for before it is saved.
    """
    engine = figure.get_layout_engine()
    _, bottom, _, height = engine.get()["rect"] if engine else (0.0, 0.0, 1.0, 1.0)
    return 1 - bottom - height, 1 - bottom


def of_all(shown: int, all_of_them: int) -> str:
    """How many arms are shown, and of how many where that is not all."""
    return counted(shown, "arm") if shown == all_of_them else f"the first {shown} of {counted(all_of_them, 'arm')}"


def name_at_right(axes: Axes, points: Mapping[str, tuple[float | None, float]], colours: Mapping[str, str]) -> None:
    """Name lines or points beside the right edge, each with a line to it, pushed apart where they lie close together.

    ``points`` are places in data by what is written; without an x a line begins at the edge.
    """
    low, high = axes.get_ylim()
    step = 1.3 * MIDDLE / (0.66 * SLIDE[1] * 72) * (high - low)
    order = sorted(points, key=lambda name: (points[name][1], name))
    places = _apart([points[name][1] for name in order], step, low, high)
    for name, place in zip(order, places, strict=True):
        x, y = points[name]
        axes.annotate(
            name,
            (1.0 if x is None else x, y),
            xycoords=axes.get_yaxis_transform() if x is None else "data",
            xytext=(1.04, place),
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
    """Rising heights moved as little as keeps them a step apart, below the upper bound."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + step) if places else max(height, low))
    ceiling = high
    for at in reversed(range(len(places))):
        places[at] = min(places[at], ceiling)
        ceiling = places[at] - step
    return places


def save(figure: Figure, path: Path) -> list[Path]:
    """Write ``path.svg`` and ``path.png``."""
    files = []
    for kind in ("svg", "png"):
        file = path.with_name(f"{path.name}.{kind}")
        write_atomically(file, rendered(figure, kind))
        files.append(file)
    return files


def rendered(figure: Figure, kind: str) -> bytes:
    """A figure as ``svg`` or ``png``, named by its words.

    Letters of an SVG are drawn, unless no font that is installed here has them: then they are left as text, for whoever
    opens it may have one. In a PNG they are boxes, and the page beside spells them out.
    """
    drawn, missing = _rendered(figure, kind, STYLE["svg.fonttype"])
    if missing and kind == "svg":
        drawn, _ = _rendered(figure, kind, "none")
    # Laid out once: whatever it is drawn as next looks the same.
    figure.set_layout_engine("none")
    return drawn


def _rendered(figure: Figure, kind: str, letters: str) -> tuple[bytes, bool]:
    """A figure drawn once, and whether it has a letter that no font here has."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    title = {"Title": told(figure)} if told(figure) else {}
    metadata = {"Date": None, **title} if kind == "svg" else {"Software": None, **title}
    with mpl.rc_context(_style() | {"svg.fonttype": letters}), warnings.catch_warnings(record=True) as said:
        warnings.filterwarnings("always", message="Glyph .* missing")
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=150)
    missing = [one for one in said if str(one.message).startswith("Glyph ")]
    for one in said:
        if one not in missing:
            warnings.warn(one.message, stacklevel=2)
    return buffer.getvalue(), bool(missing)


def colour_of(arm: str) -> str:
    """An arm's colour; every stranger has the same."""
    return COLOURS.get(arm, STRANGER)
