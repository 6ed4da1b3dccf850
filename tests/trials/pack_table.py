"""Measure packs beside recall at equal tokens: the tables and the chart of docs/pack.md.

python -m tests.trials.pack_table DATA --out FOLDER [--set NAME …] [--arm NAME …] [--chart FILE] [--jobs N]

DATA holds one folder for each public set. Finished replays in FOLDER are not repeated, so a second call only prints.
The figures are also written to FOLDER/pack.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.api import replay
from lab.base.token_estimate import tokens
from lab.replay.plan import plan_of
from lab.report.charts import Words
from lab.report.slides import save, slide, styled
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from lab.runs.tables import read_table
from lab.studies.league.table import measured

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
# The plainest packing: what ``hybrid`` ranks, whole, skipping what does not fit, with no frame around it.
SKIPPING, WIDEST = "hybrid_skipping", "hybrid@32768"
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
    gold: float = 0.0
    whole: float = 0.0
    cost: float | None = None
    tokens: float = 0.0
    items: float = 0.0
    stale: float | None = None
    misled: float | None = None
    misled_alone: float | None = None
    both: float | None = None
    one_side: float | None = None
    prefix: float | None = None


def main() -> None:
    """Print the tables; write the figures and the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--arm", action="append", choices=[*ARMS, SKIPPING])
    parser.add_argument("--chart", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    figures = [
        one
        for name in given.set or SETS
        for arm in given.arm or (*ARMS, SKIPPING)
        for one in (skipping if arm == SKIPPING else measure)(name, arm, given.data, given.out, given.jobs)
    ]
    (given.out / "pack.json").write_text(json.dumps([one._asdict() for one in figures], indent=1) + "\n", "utf-8")
    print("\n".join([*gold_table(figures), "", *harm_table(figures)]))
    if given.chart:
        save(chart(figures), given.chart.with_suffix(""))


def measure(name: str, arm: str, data: Path, out: Path, jobs: int) -> Iterator[Figures]:
    """Replay a set through an arm at all budgets, and yield its figures."""
    run = _replayed(name, _arm_texts(arm, ARMS[arm], out / name), data, out / name / arm, jobs)
    blocks = list(_blocks(run))
    budgets: dict[str, int | None] = {f"{arm}@{budget}": budget for budget in BUDGETS}
    for row in measured(name, arm, run, budgets):
        part = row.row
        assert part.budget is not None
        own = [block for block in blocks if block["arm"] == f"{arm}@{part.budget}"]
        yield _figures(part.set, arm, part.budget, own)._replace(
            gold=part.cells["hit"].mean,
            whole=part.cells["whole"].mean,
            items=part.cells["items"].mean,
            stale=part.cells["StaleRecall"].mean if "StaleRecall" in part.cells else None,
        )


def skipping(name: str, arm: str, data: Path, out: Path, jobs: int) -> Iterator[Figures]:
    """Yield the figures of :data:`SKIPPING`, as far as they follow from its memories alone."""
    run = _replayed(name, [WIDEST], data, out / name / arm, jobs)
    texts = {memory.key: memory.text for recording in plan_of(run).recordings for memory in recording.memories}
    for budget in BUDGETS:
        blocks = list(_blocks(run, partial(_fitting, texts, budget)))
        judged = [block for block in blocks if block["relevant"]]
        gold = _share([bool(block["found"]) for block in judged])
        assert gold is not None
        items = fmean(block["items"] for block in judged)
        yield _figures(name, arm, budget, blocks)._replace(gold=gold, whole=gold, items=items, prefix=None)


def _fitting(texts: Mapping[str, str], budget: int, row: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the memories of a row that fit into a budget, in order, one a line, and the tokens of their lines."""
    kept: list[str] = []
    block, size = "", 0
    for key in row["item_key"]:
        longer = f"{block}\n- {texts[key]}".lstrip()
        if (more := tokens(longer)) <= budget:
            block, size = longer, more
            kept.append(key)
    return kept, size


def _replayed(name: str, arms: Sequence[str], data: Path, out: Path, jobs: int) -> RunDirectory:
    options = dict(SETS[name])
    folder = options.pop("folder", None)
    recordings = options.pop("recordings", None) or data / folder
    return replay(recordings, arms=arms, out=out, jobs=jobs, announce=print, **options).directory


def _arm_texts(arm: str, config: dict[str, Any] | None, out: Path) -> list[str]:
    suffix = ""
    out.mkdir(parents=True, exist_ok=True)
    if config is not None:
        file = out / f"{arm}.json"
        file.write_text(json.dumps(config), "utf-8")
        suffix = f"={file}"
    return [f"{arm}@{budget}{suffix}" for budget in BUDGETS]


def _injected(row: Mapping[str, Any]) -> tuple[list[str], int]:
    return row["item_key"][: row["injected"]], row["tokens"]


def _blocks(
    run: RunDirectory, packed: Callable[[Mapping[str, Any]], tuple[list[str], int]] = _injected
) -> Iterator[dict[str, Any]]:
    """Yield what is injected at every recall, with the keys of relevant memories in it.

    ``packed`` returns the keys of the memories in the block of a row of receipts, and its tokens.
    """
    gold = read_gold(run)
    for conversation in run.conversations:
        for row in read_table(run.check(run.receipts(conversation)), COLUMNS).to_pylist():
            judged = gold.get(row["probe"])
            listed, size = packed(row)
            keys = set(listed)
            grades = _relevant(judged)
            yield {
                **{key: row[key] for key in ("arm", "prefix_tokens", "is_recall_turn")},
                "tokens": size,
                "items": len(listed),
                "relevant": grades,
                "found": keys & grades,
                "ability": judged.slices.get("ability", "") if judged else "",
                "misled": bool(keys & set(judged.forbidden)) if judged and judged.forbidden else None,
            }


def _relevant(judged: Any) -> set[str]:
    return {key for key, grade in judged.grades.items() if grade > 0} if judged else set()


def _figures(name: str, arm: str, budget: int, blocks: Sequence[dict[str, Any]]) -> Figures:
    """Return what follows from the blocks alone; gold, whole texts, items and stale memories do not."""
    judged = [block for block in blocks if block["relevant"]]
    found = sum(len(block["found"]) for block in judged)
    sides = [block for block in judged if block["ability"] == CONTRADICTION and len(block["relevant"]) > 1]
    harmed = [block for block in blocks if block["misled"] is not None]
    turns = [block for block in blocks if block["is_recall_turn"] and block["prefix_tokens"] is not None]
    spent = sum(block["tokens"] for block in turns)
    return Figures(
        name,
        arm,
        budget,
        cost=sum(block["tokens"] for block in judged) / found if found else None,
        tokens=math.fsum(block["tokens"] for block in judged) / len(judged),
        misled=_share([block["misled"] for block in harmed]),
        misled_alone=_share([block["misled"] and not block["found"] for block in harmed]),
        both=_share([block["found"] == block["relevant"] for block in sides]),
        one_side=_share([bool(block["found"]) and block["found"] != block["relevant"] for block in sides]),
        prefix=sum(block["prefix_tokens"] for block in turns) / spent if spent else None,
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
    columns = max(len(sets) + 2, len(panels))
    figure, grid = slide(2, columns, _words(figures, sets))
    lines = [(name, "gold", name) for name in sets]
    lines += [(name, "prefix", f"{name}: same start\nas the block before") for name in sets[:2]]
    for panel, (name, value, title) in zip(grid[0], lines, strict=False):
        for arm in ("hybrid", "recommended", "pack"):
            line = rows.get((name, arm), [])
            style = {"color": INKS[arm], "linewidth": 2.5}
            panel.plot(range(len(line)), [getattr(one, value) for one in line], "-o", label=arm, **style)
            if value == "gold":
                panel.plot(range(len(line)), [one.whole for one in line], ":", **style)
        if value == "gold":
            plain = rows.get((name, SKIPPING), [])
            panel.plot(range(len(plain)), [one.gold for one in plain], "--", color="#56B4E9", linewidth=2.5)
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
    ("BEAM", "misled"),
    ("BEAM", "misled_alone"),
    ("BEAM", "one_side"),
    ("LoCoMo", "cost"),
)
HARMS = {
    "stale": "a superseded memory",
    "misled": "a misleading memory",
    "misled_alone": "a misleading one alone",
    "one_side": "one side of two",
    "cost": "tokens per relevant memory",
}


def _words(figures: Sequence[Figures], sets: Sequence[str]) -> Words:
    at = {(one.set, one.arm, one.budget): one for one in figures}
    pairs = [(at[name, "pack", 512], at[name, "hybrid", 512]) for name in sets]
    gains = [100 * (pack.gold - recall.gold) for pack, recall in pairs]
    harms = [
        (100 * (pack.misled - recall.misled), pack.set)
        for pack, recall in pairs
        if pack.misled is not None and recall.misled is not None
    ]
    harm = ", ".join(f"{change:+.0f} {name}" for change, name in harms)
    plain = [round(100 * (at[name, "pack", 512].gold - at[name, SKIPPING, 512].gold)) for name in sets]
    return Words(
        f"Packs beat recall by {min(gains):.0f} to {max(gains):.0f} points at 512 tokens, recall that skips by "
        f"{min(plain)} to {max(plain)}{harm and f'; misleading: {harm}'}",
        "Above: probes with a relevant memory in the block (dotted: whole; dashed: hybrid that skips what does not "
        "fit), and what a cache can reuse. Below: harms and cost, lower is better.",
        f"tests/trials/pack_table.py; sets: {', '.join(sets)}.",
    )


if __name__ == "__main__":
    main()
