"""Run `lab acceptance` on the shipped set and on public sets, and print the tables of docs/acceptance.md.

The second table is `lab gate --policy rollout` with each candidate in turn, over the same replays. With --readings, the
tables have the two default candidates under each reading: the status of each criterion, then the figures.

python tests/trials/acceptance_table.py --out FOLDER [--realmem DIR] [--locomo DIR] [--set NAME …] [--readings]

Finished replays in FOLDER are not repeated, so a second call only prints.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lab.api import judge
from lab.gate.line import FAIL
from lab.gate.shipped import SHIPPED

CANDIDATES = ("tier_quota_v1", "seed_full", "recommended")
SAMPLED = (*("--labels", "sampled", "--must-share", "0.10", "--nice-share", "0.63"), "--categories", "detected")
SETS = {
    "shipped": ("shipped:operators",),
    "shipped, 100 added": ("shipped:operators", "--haystack", "100"),
    "shipped, none added": ("shipped:operators", "--haystack", "0"),
    "RealMem": ("{realmem}", "--format", "realmem", *SAMPLED),
    "LoCoMo": ("{locomo}", "--format", "locomo", "--recall-turns", "all", *SAMPLED),
}
WORDS = {"pass": "**pass**", "fail": "**fail**", "inconclusive": "open"}


def main() -> None:
    """Print one table: a row for each set and candidate, and for M1, which has no candidate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--realmem", type=Path)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--readings", action="store_true")
    given = parser.parse_args()
    candidates = CANDIDATES[:2] if given.readings else CANDIDATES
    figures: dict[str, dict[str, str]] = {}
    verdicts = ["| set | candidate | `rollout` | fails | tiers |", "| --- | --- | --- | --- | --- |"]
    columns = ["reading", "rollout", "hit"] if given.readings else []
    headers = ["set", "arm", *"12345", *columns]
    print(f"| {' | '.join(headers)} |\n{'| --- ' * len(headers)}|")
    for name in given.set or SETS:
        words = [word.format(realmem=given.realmem, locomo=given.locomo) for word in SETS[name]]
        if "None" in words:
            continue
        folder = given.out / name.replace(", ", "-").replace(" ", "-").lower()
        judged = [word for candidate in candidates for word in ("--candidate", candidate)]
        judged += ["--readings"] if given.readings else []
        command = [sys.executable, "-m", "lab", "acceptance", *words, "--hard-rules", "3", *judged]
        done = subprocess.run([*command, "--out", str(folder), "--jobs", given.jobs, "--json"], stdout=subprocess.PIPE)
        if done.returncode not in (0, 1, 3):
            raise SystemExit(done.returncode)
        if given.readings:
            verdict = json.loads(done.stdout)
            print("\n".join(_of_readings(name, verdict)), flush=True)
            figures |= {f"{name}, `{arm}`": of_arm for arm, of_arm in _figures(verdict).items()}
            continue
        print("\n".join(_rows(name, json.loads(done.stdout))), flush=True)
        verdicts += [f"| {name} | `{arm}` | {_rollout(folder, arm)} |" for arm in CANDIDATES]
    if given.readings:
        verdicts = [f"| reading | {' | '.join(figures)} |", f"| --- {'| --- ' * len(figures)}|"]
        for reading in next(iter(figures.values()), ()):
            verdicts.append(f"| `{reading}` | {' | '.join(of_arm[reading] for of_arm in figures.values())} |")
    print("\n".join(["", *verdicts]))


def _rollout(folder: Path, candidate: str) -> str:
    """Return the status of policy rollout with another candidate, the critical rules that fail, and its answer."""
    policy = folder / f"rollout-{candidate}.toml"
    shipped = (SHIPPED / "rollout.toml").read_text()
    policy.write_text(shipped.replace('candidate = "tier_quota_v1"', f'candidate = "{candidate}"'))
    verdict = judge(folder / "run", policy=policy)
    failed = dict.fromkeys(
        line.measure + (f" against {line.against}" if line.against else "") + (f", {line.slice}" if line.slice else "")
        for line in verdict.lines
        if line.critical and line.status == FAIL and line.kind != "worth"
    )
    answer = verdict.control.sentence if verdict.control else "–"
    return f"{WORDS[verdict.status]} | {'; '.join(failed) or '–'} | {answer}"


def _rows(name: str, verdict: dict[str, Any]) -> list[str]:
    (m1,) = (result for result in verdict["criteria"] if result["criterion"] == "M1")
    rows: list[str] = []
    for arm in CANDIDATES:
        of_arm = [result for result in verdict["criteria"] if result["arm"] == arm]
        cells = [_cell(result) for result in of_arm]
        rows.append("| " + " | ".join([name if not rows else "", f"`{arm}`", *cells]).strip() + " |")
    return [*rows, f"| | M1: `hybrid` over `vector` | {_cell(m1)} | | | | |"]


def _of_readings(name: str, verdict: dict[str, Any]) -> list[str]:
    floor = verdict["floor"]
    rows: list[str] = []
    for row in verdict["compared"]:
        cells = [_cell(result) for result in verdict["criteria"] if result["arm"] == row["arm"]]
        where = "" if rows else f"{name}, floor {floor['value']:g}"
        cells = [where, f"`{row['of']}`", *cells, row["reading"], WORDS[row["rollout"]], f"{row['hit']:.3f}"]
        rows.append("| " + " | ".join(cells).strip() + " |")
    return rows


def _figures(verdict: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return GoldNice@6, MustRepeat and hit@6 by candidate and reading."""
    figures: dict[str, dict[str, str]] = {}
    for row in verdict["compared"]:
        tests = [test for result in verdict["criteria"] if result["arm"] == row["arm"] for test in result["tests"]]
        means = {test["measure"]: test["candidate"] for test in reversed(tests) if not test["is_check"]}
        values = (means["GoldNice@6"], means["MustRepeat"], row["hit"])
        figures.setdefault(row["of"], {})[row["reading"]] = "/".join(f"{value:.3f}".lstrip("0") for value in values)
    return figures


def _cell(result: dict[str, Any]) -> str:
    if not result["applies"]:
        return "–"
    tests = [test for test in result["tests"] if not test["is_check"] and test["candidate"] is not None]
    # The test that decided: the first with the status of the criterion.
    test = next((test for test in tests if test["status"] == result["status"]), tests[0] if tests else None)
    if test is None:
        return WORDS[result["status"]]
    reference = f" / {test['baseline']:.3f}" if test["baseline"] is not None else ""
    return f"{WORDS[result['status']]} {test['candidate']:.3f}{reference}"


if __name__ == "__main__":
    main()
