"""Print the tables of docs/league.md from the folder of a league.

python tests/trials/league_table.py DIR [--tokens 256 768 1200] [--at 768]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

OTHERS = ("hit", "CleanHit", "Present", "nDCG", "RepeatRate", "FalseRecall", "StaleRecall", "tokens")
OVERALL, WHOLE = "all sets", "whole"
Rows = dict[tuple[str, str, int | None], dict[str, Any]]


def main() -> None:
    """Print who wins, the whole hits at some budgets, the other measures at one, and the hits of each set at it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 768, 1200])
    parser.add_argument("--at", type=int, default=768)
    given = parser.parse_args()
    league = json.loads((given.folder / "league.json").read_text())
    rows: Rows = {(row["set"], row["arm"], row["budget"]): row["measures"] for row in league["rows"]}
    arms = list(dict.fromkeys(arm for _, arm, _ in rows))
    arms.sort(key=lambda arm: -rows[OVERALL, arm, given.at][WHOLE]["mean"])
    print(
        "\n".join(
            [
                *winners(league, given.tokens),
                "",
                *hits(rows, arms, given.tokens),
                "",
                *others(rows, arms, given.at),
                "",
                *by_set(league, rows, arms, given.at),
                *growth(league, rows, arms),
            ]
        )
    )


def winners(league: dict[str, Any], budgets: list[int]) -> list[str]:
    """Return who wins on all sets and on each set."""
    lines = [
        "| set | conversations | tokens | most whole hits | 95 % interval | not shown to differ from it (p) |",
        "| --- | ---: | ---: | --- | --- | --- |",
    ]
    for one in league["contests"]:
        if one["measure"] != WHOLE or one["budget"] not in budgets:
            continue
        alike = [f"`{other['arm']}` ({other['p_holm']:.2f})" for other in one["against"] if not other["is_shown"]]
        few = one["conversations"] < one["least"]
        cell = one["cell"]
        shown = "too few conversations" if few else ", ".join(alike) or "none"
        lines.append(
            f"| {one['set']} | {one['conversations']} | {one['budget']:,} | `{one['winner']}` {share(cell['mean'])} | "
            f"{bounds(cell)} | {shown} |"
        )
    return lines


def hits(rows: Rows, arms: list[str], budgets: list[int]) -> list[str]:
    """Return the hits over all sets, as configured and at each budget."""
    lines = [
        f"| arm | hits as configured | tokens | {' | '.join(f'{budget:,}' for budget in budgets)} |",
        f"| --- | ---: | ---: | {' | '.join('---:' for _ in budgets)} |",
    ]
    for arm in arms:
        own = rows[OVERALL, arm, None]
        cells = [rows[OVERALL, arm, budget][WHOLE] for budget in budgets]
        shown = [f"{share(cell['mean'])} ({bounds(cell)})" for cell in cells]
        lines.append(f"| `{arm}` | {share(own['hit']['mean'])} | {own['tokens']['mean']:,.0f} | {' | '.join(shown)} |")
    return lines


def others(rows: Rows, arms: list[str], budget: int) -> list[str]:
    """Return the other measures over all sets at a budget."""
    lines = [f"| arm | {' | '.join(OTHERS)} |", f"| --- | {' | '.join('---:' for _ in OTHERS)} |"]
    for arm in arms:
        of_arm = rows[OVERALL, arm, budget]
        cells = [
            f"{of_arm[name]['mean']:,.0f}"
            if name == "tokens"
            else share(of_arm[name]["mean"])
            if name in of_arm
            else "–"
            for name in OTHERS
        ]
        lines.append(f"| `{arm}` | {' | '.join(cells)} |")
    return lines


def by_set(league: dict[str, Any], rows: Rows, arms: list[str], budget: int) -> list[str]:
    """Return the hits on each set at a budget."""
    names = list(league["sets"])
    lines = [f"| arm | {' | '.join(names)} |", f"| --- | {' | '.join('---:' for _ in names)} |"]
    for arm in arms:
        cells = [share(rows[name, arm, budget][WHOLE]["mean"]) for name in names]
        lines.append(f"| `{arm}` | {' | '.join(cells)} |")
    return lines


def growth(league: dict[str, Any], rows: Rows, arms: list[str]) -> list[str]:
    """Return how many memories a turn leaves in the store on each set; nothing if no arm captured."""
    if league["source"] != "captured":
        return []
    names = [*league["sets"], OVERALL]
    lines = ["", f"| arm | {' | '.join(names)} |", f"| --- | {' | '.join('---:' for _ in names)} |"]
    for arm in arms:
        of_arm = [rows[name, arm, None].get("StoreGrowth") for name in names]
        shown = [f"{cell['mean']:.2f}" if cell else "–" for cell in of_arm]
        lines.append(f"| `{arm}` | {' | '.join(shown)} |")
    return lines


def bounds(cell: dict[str, float]) -> str:
    """Return the ends of an interval."""
    return f"{share(cell['low'])}–{share(cell['high'])}" if "low" in cell and cell["low"] is not None else "–"


def share(value: float) -> str:
    """Return a share with three digits."""
    return f"{value:.3f}".removeprefix("0") if value < 1 else "1.00"


if __name__ == "__main__":
    main()
