"""Measure packs beside recall at equal tokens: the tables and the chart of docs/pack.md.

python -m tests.trials.pack_table DATA --out FOLDER [--set NAME …] [--arm NAME …] [--chart FILE] [--jobs N]

DATA holds one folder for each public set. Finished replays in FOLDER are not repeated, so a second call only prints.
The figures are also written to FOLDER/pack.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.api import replay
from lab.league.table import measured
from lab.report.style import Words, save, slide, styled
from lab.runs.directory import RunDirectory
from lab.runs.gold import read_gold
from lab.runs.tables import read_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (256, 512, 768, 1200)
# Arms with their own configuration, if any.
ARMS: dict[str, dict[str, Any] | None] = {
    "hybrid": None,
    "tier_quota_v1": None,
    "recommended": None,
    "pack": None,
    "pack_no_dissent": {"lab": {"arm": "pack"}, "dissent": False},
}
# Sets with the options of their replay; LoCoMo's probes come after the last session, so every turn recalls.
SETS: dict[str, dict[str, Any]] = {
    "operators": {"recordings": "shipped:operators", "format": "lab", "scope": "recorded"},
    "LoCoMo": {"folder": "locomo", "format": "locomo", "recall_turns": "all"},
    "BEAM": {"folder": "beam", "format": "beam"},
    "RealMem": {"folder": "realmem", "format": "realmem"},
}
CONTRADICTION = "contradiction_resolution"
COLUMNS = ("arm", "probe", "is_recall_turn", "tokens", "injected", "item_key", "prefix_tokens")


class Figures(NamedTuple):
    """One arm at a budget on a set: shares from 0 to 1, None where the set has no such probe.

    ``gold``: a relevant memory is in the block in any layer; ``whole``: with its whole text. ``cost``: tokens for each
    relevant memory in a block. ``stale``: a superseded memory without its successor. ``misled``: a misleading memory,
    of the probes that have one; ``misled_alone``: and no relevant one beside it. ``both`` and ``one_side``: probes of a
    contradiction whose block has all of its messages, or some only. ``prefix``: share of the tokens of the blocks that
    equal the start of the block before.
    """

    set: str
    arm: str
    budget: int
    gold: float
    low: float | None
    high: float | None
    whole: float
    cost: float | None
    tokens: float
    items: float
    stale: float | None
    misled: float | None
    misled_alone: float | None
    both: float | None
    one_side: float | None
    prefix: float | None


def main() -> None:
    """Print the tables; write the figures and the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--arm", action="append", choices=list(ARMS))
    parser.add_argument("--chart", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    figures = [
        one
        for name in given.set or SETS
        for arm in given.arm or ARMS
        for one in measure(name, arm, given.data, given.out, given.jobs)
    ]
    (given.out / "pack.json").write_text(json.dumps([one._asdict() for one in figures], indent=1) + "\n", "utf-8")
    print("\n".join([*gold_table(figures), "", *harm_table(figures)]))
    if given.chart:
        save(chart(figures), given.chart.with_suffix(""))


def measure(name: str, arm: str, data: Path, out: Path, jobs: int) -> Iterator[Figures]:
    """Replay a set through an arm at all budgets, and yield its figures."""
    options = dict(SETS[name])
    folder = options.pop("folder", None)
    recordings = options.pop("recordings", None) or data / folder
    texts = _arm_texts(arm, ARMS[arm], out / name)
    run = replay(recordings, arms=texts, out=out / name / arm, jobs=jobs, announce=print, **options).directory
    blocks = list(_blocks(run))
    budgets: dict[str, int | None] = {f"{arm}@{budget}": budget for budget in BUDGETS}
    for row in measured(name, arm, run, budgets):
        part = row.row
        assert part.budget is not None
        own = [block for block in blocks if block["arm"] == f"{arm}@{part.budget}"]
        yield _figures(part.set, arm, part.budget, part.cells, own)


def _arm_texts(arm: str, config: dict[str, Any] | None, out: Path) -> list[str]:
    suffix = ""
    out.mkdir(parents=True, exist_ok=True)
    if config is not None:
        file = out / f"{arm}.json"
        file.write_text(json.dumps(config), "utf-8")
        suffix = f"={file}"
    return [f"{arm}@{budget}{suffix}" for budget in BUDGETS]


def _blocks(run: RunDirectory) -> Iterator[dict[str, Any]]:
    """Yield what is injected at every recall, with the keys of relevant memories in it."""
    gold = read_gold(run)
    for conversation in run.conversations:
        for row in read_table(run.check(run.receipts(conversation)), COLUMNS).to_pylist():
            judged = gold.get(row["probe"])
            keys = set(row["item_key"][: row["injected"]])
            grades = {key for key, grade in judged.grades.items() if grade > 0} if judged else set()
            yield {
                **{key: row[key] for key in ("arm", "tokens", "prefix_tokens", "is_recall_turn")},
                "relevant": grades,
                "found": keys & grades,
                "ability": judged.slices.get("ability", "") if judged else "",
                "misled": bool(keys & set(judged.forbidden)) if judged and judged.forbidden else None,
            }


def _figures(name: str, arm: str, budget: int, cells: Mapping[str, Any], blocks: Sequence[dict[str, Any]]) -> Figures:
    judged = [block for block in blocks if block["relevant"]]
    found = sum(len(block["found"]) for block in judged)
    sides = [block for block in judged if block["ability"] == CONTRADICTION and len(block["relevant"]) > 1]
    judged_harm = [block for block in blocks if block["misled"] is not None]
    turns = [block for block in blocks if block["is_recall_turn"] and block["prefix_tokens"] is not None]
    spent = sum(block["tokens"] for block in turns)
    hit = cells["hit"]
    return Figures(
        name,
        arm,
        budget,
        hit.mean,
        hit.low,
        hit.high,
        cells["whole"].mean,
        sum(block["tokens"] for block in judged) / found if found else None,
        math.fsum(block["tokens"] for block in judged) / len(judged),
        cells["items"].mean,
        cells["StaleRecall"].mean if "StaleRecall" in cells else None,
        _share([block["misled"] for block in judged_harm]),
        _share([block["misled"] and not block["found"] for block in judged_harm]),
        _share([block["found"] == block["relevant"] for block in sides]),
        _share([bool(block["found"]) and block["found"] != block["relevant"] for block in sides]),
        sum(block["prefix_tokens"] for block in turns) / spent if spent else None,
    )


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def gold_table(figures: Sequence[Figures]) -> list[str]:
    """Return gold in the block and whole gold of each set and arm at each budget."""
    lines = [
        f"| set | arm | {' | '.join(f'gold@{budget:,} (whole)' for budget in BUDGETS)} |",
        f"| --- | --- | {' | '.join('---:' for _ in BUDGETS)} |",
    ]
    for key, cells in _rows(figures).items():
        shown = [f"{_shown(cell.gold)} ({_shown(cell.whole)})" for cell in cells]
        lines.append(f"| {key[0]} | `{key[1]}` | {' | '.join(shown)} |")
    return lines


def harm_table(figures: Sequence[Figures], budget: int = 768) -> list[str]:
    """Return all figures at one budget."""
    names = ("gold", "whole", "cost", "items", "stale", "misled", "misled_alone", "both", "one_side", "prefix")
    lines = [f"| set | arm | {' | '.join(names)} |", f"| --- | --- | {' | '.join('---:' for _ in names)} |"]
    for one in figures:
        if one.budget == budget:
            cells = [_shown(getattr(one, name)) for name in names]
            lines.append(f"| {one.set} | `{one.arm}` | {' | '.join(cells)} |")
    return lines


def _rows(figures: Sequence[Figures]) -> dict[tuple[str, str], list[Figures]]:
    rows: dict[tuple[str, str], list[Figures]] = {}
    for one in figures:
        rows.setdefault((one.set, one.arm), []).append(one)
    return rows


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 10 else f"{value:.3f}".removeprefix("0")


@styled
def chart(figures: Sequence[Figures]) -> Figure:
    """Draw gold in the block against the budget, one panel a set, and in the other panels what else a block brings."""
    rows = _rows(figures)
    sets = list(dict.fromkeys(one.set for one in figures))
    panels = [(name, harm) for name, harm in PANELS if (name, "pack") in rows]
    columns = max(len(sets) + 1, len(panels))
    figure, grid = slide(2, columns, _words(figures, sets))
    lines = [(name, "gold", name) for name in sets] + [
        (sets[0], "prefix", f"{sets[0]}: same start\nas the block before")
    ]
    for panel, (name, value, title) in zip(grid[0], lines, strict=False):
        for arm in ("hybrid", "recommended", "pack"):
            line = rows.get((name, arm), [])
            style = {"color": INKS[arm], "linewidth": 2.5}
            panel.plot(range(len(line)), [getattr(one, value) for one in line], "-o", label=arm, **style)
            if value == "gold":
                panel.plot(range(len(line)), [one.whole for one in line], ":", **style)
        panel.set_ylim(0, 1)
        _label(panel, title)
    for panel, (name, value) in zip(grid[1], panels, strict=False):
        for at, arm in enumerate(INKS):
            values = [getattr(one, value) or 0 for one in rows.get((name, arm), [])]
            panel.bar(
                [index + (at - 1.5) * 0.2 for index in range(len(values))], values, 0.19, color=INKS[arm], label=arm
            )
        panel.set_ylim(0, 1 if value != "cost" else None)
        _label(panel, f"{name}:\n{HARMS[value]}")
    for panel in (*grid[0][len(lines) :], *grid[1][len(panels) :]):
        panel.set_axis_off()
    grid[0][0].set_ylabel("share of probes")
    figure.legend(
        *grid[1][0].get_legend_handles_labels(), loc="lower right", ncols=len(INKS), fontsize=11, frameon=False
    )
    return figure


def _label(panel: Any, title: str) -> None:
    panel.set_title(title, fontsize=10)
    panel.set(xticks=range(len(BUDGETS)), xticklabels=[f"{budget:,}" for budget in BUDGETS])
    panel.tick_params(labelsize=9)
    panel.set_xlabel("tokens of the block", fontsize=10)


INKS = {"hybrid": "#0072B2", "recommended": "#999999", "pack_no_dissent": "#F0B48A", "pack": "#D55E00"}
PANELS = (
    ("operators", "stale"),
    ("operators", "misled"),
    ("BEAM", "misled_alone"),
    ("BEAM", "one_side"),
    ("LoCoMo", "cost"),
)
HARMS = {
    "stale": "a superseded memory",
    "misled": "a misleading memory",
    "misled_alone": "only a misleading memory",
    "one_side": "one side of a contradiction",
    "cost": "tokens per relevant memory",
}


def _words(figures: Sequence[Figures], sets: Sequence[str]) -> Words:
    at = {(one.set, one.arm, one.budget): one for one in figures}
    pairs = [(at[name, "pack", 512], at[name, "hybrid", 512]) for name in sets]
    gains = [100 * (pack.gold - recall.gold) for pack, recall in pairs]
    whole = [100 * (pack.whole - recall.whole) for pack, recall in pairs]
    return Words(
        f"Packs hold a relevant memory {min(gains):.0f} to {max(gains):.0f} points more often than recall (512 tokens)"
        f"; its whole text: {_more_or_less(whole, sets)}",
        "Above: share of probes with a relevant memory in the block; dotted: with its whole text; right: share of the "
        "block that a prompt cache can reuse. Below: harms and cost (no bar: 0); lower is better.",
        f"tests/trials/pack_table.py; sets: {', '.join(sets)}.",
    )


def _more_or_less(gains: Sequence[float], sets: Sequence[str]) -> str:
    """Return the largest and the smallest gain with their sets, in words."""
    worst, best = min(zip(gains, sets, strict=True)), max(zip(gains, sets, strict=True))
    return f"{best[0]:+.0f} on {best[1]}, {worst[0]:+.0f} on {worst[1]}"


if __name__ == "__main__":
    main()
