"""The report of a run: one model of what is shown, rendered as a self-contained HTML page and as its Markdown twin.

The report is a function of the run's receipts and gold alone: it holds no date and no machine, so that equal runs
have equal reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.compare.paired import Comparison, Difference, compare_arms
from lab.files import dump_json, write_whole
from lab.gate.outputs import cell
from lab.measures.catalogue import direction, is_better
from lab.measures.score import headlines, read_gold, score_run, summarise
from lab.replay.run_directory import RunDirectory
from lab.replay.tables import read_table
from lab.report import figures
from lab.report.pair import choose_pair
from lab.sweep.saturation import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[[], Figure]

EXTRA_COLUMNS = ("LongestStreak", "NicePresence", "InjectedChars")
TIER_OF = {"must_remember": "must", "nice_to_have": "nice", "unknown": "unknown", "ignore": "ignore"}
SHOWN_FLIPS = 12


def build_report(run: RunDirectory, baseline: str | None = None, candidate: str | None = None) -> list[Path]:
    """Write ``report.html``, ``report.md``, ``report.json`` and the figures; return their paths, the page first."""
    run.require_done()
    base, cand = choose_pair(run, baseline, candidate)
    summary = summarise(score_run(run), read_gold(run), run.arms)
    comparison = compare_arms(run, base, cand) if cand else None
    drawn = _draw(run, summary, comparison)
    model = _model(run, summary, comparison, drawn)
    data = {key: model[key] for key in ("title", "facts", "arms", "table", "comparison", "slices")}
    outputs = {
        run.path / "report.html": render("page.html.j2", model),
        run.path / "report.md": render("page.md.j2", model),
        run.path / "report.json": dump_json(data),
    }
    for path, content in outputs.items():
        write_whole(path, content)
    return [*outputs, *(file for files in drawn.values() for file in files)]


def _draw(run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None) -> dict[str, list[Path]]:
    """Every figure that this run has data for: name to its files."""
    folder = run.path / "figures"
    return {name: figures.save(draw(), folder / name) for name, draw in drawings(run, summary, comparison).items()}


def drawings(run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None) -> dict[str, Draw]:
    """What draws each figure that this run has data for, by its name."""
    rows = {
        name: read_table(run.receipts(name), ("arm", "recalls", "injected", "item_key", "item_label")).to_pylist()
        for name in run.conversations
    }
    drawn: dict[str, Draw] = {}
    saturation = run.path / "saturation.parquet"
    if saturation.exists():
        points = [Point(**row) for row in read_table(saturation).to_pylist()]
        drawn["saturation"] = partial(figures.saturation_figure, points)
    if comparison:
        primary = [one for one in comparison.differences if one.measure in comparison.primary]
        if any(one.estimate.low is not None for one in primary):
            drawn["forest"] = partial(figures.forest_figure, primary, comparison.baseline, comparison.candidate)
    measures = {arm: one["measures"] for arm, one in summary["arms"].items()}
    if figures.tradeoff_points(measures, run.cutoff):
        drawn["tradeoff"] = partial(figures.tradeoff_figure, measures, run.cutoff)
    drawn["composition"] = partial(figures.composition_figure, _composition(run, rows))
    longest = max(rows, key=lambda name: (sum(row["recalls"] for row in rows[name]), name))
    if any(row["recalls"] for row in rows[longest]):
        pair = [comparison.baseline, comparison.candidate] if comparison else run.arms[:1]
        turns = {
            arm: [row["item_key"][: row["injected"]] for row in rows[longest] if row["arm"] == arm and row["recalls"]]
            for arm in pair
        }
        labels = {
            key: TIER_OF[label]
            for row in rows[longest]
            for key, label in zip(row["item_key"], row["item_label"], strict=True)
        }
        drawn["timeline"] = partial(figures.timeline_figure, turns, labels)
    return drawn


def _composition(run: RunDirectory, rows: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    shares = {}
    for arm in run.arms:
        counts = Counter(
            TIER_OF[label]
            for some in rows.values()
            for row in some
            if row["arm"] == arm
            for label in row["item_label"][: row["injected"]]
        )
        shares[arm] = {tier: counts[tier] / counts.total() if counts else 0.0 for tier in figures.TIERS}
    return shares


def _model(
    run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None, drawn: dict[str, list[Path]]
) -> dict[str, Any]:
    resolved = run.manifest["resolved"]
    labels = resolved["labels"]
    drawn_labels = (
        labels["mode"]
        if labels["mode"] == "recorded"
        else "{mode}, must {must_share:.2f}, nice {nice_share:.2f}, seed {seed}".format(**labels)
    )
    facts = {
        "conversations": len(resolved["conversations"]),
        "probes with gold": next(iter(summary["arms"].values()))["n"],
        "format": resolved["format"],
        "memories": resolved["memories"],
        "labels": drawn_labels,
        "scope": resolved["scope"],
        "profile": resolved["profile"],
        "store": resolved["store"],
        "items injected at most": run.cutoff,
        "embedder": resolved["embedder"]["model"],
        "run key": run.manifest["run_key"][:12],
    }
    names = [
        name
        for name in (*headlines(run.cutoff), *EXTRA_COLUMNS)
        if any(one["measures"].get(name) is not None for one in summary["arms"].values())
    ]
    table = [[arm, *(one["measures"].get(name) for name in names)] for arm, one in summary["arms"].items()]
    svg = {name: inline(files[0]) for name, files in drawn.items()}
    return {
        "title": "Recall report",
        "sentence": _sentence(comparison, drawn_labels),
        "facts": facts,
        "arms": run.arms,
        "columns": names,
        "table": table,
        "comparison": comparison.as_json() if comparison else None,
        "primary": list(comparison.primary) if comparison else [],
        "lower": [name for name in names if direction(name) == "lower"],
        "cutoff": run.cutoff,
        "slices": summary["slices"],
        "gained": list(comparison.gained[:SHOWN_FLIPS]) if comparison else [],
        "lost": list(comparison.lost[:SHOWN_FLIPS]) if comparison else [],
        "figures": svg,
        "captions": CAPTIONS,
    }


CAPTIONS = {
    "saturation": (
        "Each share of must_remember memories was drawn several times; the band is the range over draws. "
        "Upper row: none of the memories in the pool is ever wanted, which is how a pool of durable rules behaves on "
        "an ordinary turn. Lower row: labels say nothing about what is wanted, so at the right edge everything is "
        "must_remember and the tiers cease to matter."
    ),
    "forest": "The conversation is the unit: the interval says what another set of conversations would show.",
    "tradeoff": "Every arm of the run. The oracle injects what is wanted and nothing else; none injects nothing.",
    "composition": "The importance labels of everything that was injected at recall turns.",
    "timeline": (
        "The conversation with the most recall turns. A long horizontal line is one memory that is injected turn after "
        "turn."
    ),
}


SAID = {
    "Success": "a wanted memory is injected on {candidate:.0%} of the probes against {baseline:.0%}",
    "GoldNice": "a wanted nice one on {candidate:.0%} against {baseline:.0%}",
    "RepeatRate": "{candidate:.0%} of the injected items are repeats against {baseline:.0%}",
}


def _sentence(comparison: Comparison | None, labels: str) -> str:
    """The result in one sentence, each part with its interval; ``labels`` says where importance came from."""
    found = (
        {one.measure.split("@")[0]: one for one in comparison.differences if one.measure in comparison.primary}
        if comparison
        else {}
    )
    parts = [
        f"{said.format(candidate=found[name].candidate, baseline=found[name].baseline)} ({_interval(found[name])})"
        for name, said in SAID.items()
        if name in found
    ]
    if comparison is None or not parts:
        return "This run has no two arms to compare on gold."
    conversations = max(one.conversations for one in comparison.differences)
    return (
        f"{comparison.candidate} against {comparison.baseline}, {conversations} conversations, labels {labels}: "
        f"{'; '.join(parts)}."
    )


def _interval(one: Difference) -> str:
    low, high = one.estimate.low, one.estimate.high
    if low is None or high is None:
        return "one conversation says nothing about others"
    side = {None: "not decided", True: "better", False: "worse"}[is_better(one.measure, low, high)]
    return f"{side}: {one.estimate.mean:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}"


def inline(svg: Path) -> str:
    """The figure's markup without its XML prologue."""
    text = svg.read_text(encoding="utf-8")
    return text[text.index("<svg") :]


def render(template: str, model: dict[str, Any]) -> bytes:
    """A template of ours, filled; what goes into HTML is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lab.report", "templates"),
        autoescape=template.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = lambda value: (
        "–" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"
    )
    environment.filters["cell"] = cell
    environment.filters["signed"] = lambda value: "–" if value is None else f"{value:+.3f}"
    return environment.get_template(template).render(model).encode()
