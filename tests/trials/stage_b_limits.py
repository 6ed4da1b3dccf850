"""Limits of policy stage-b on what is injected, and how often its verdicts err.

python tests/trials/stage_b_limits.py FOLDER --data ../shared/data [--logs 200] [--live ../shared/live/logs]

Both selection policies are replayed on the shipped set and on public ones (:mod:`set_logs`). The limits come from the
development half alone, by a rule that was fixed before any log was read:

* of every development set with at least 300 answered recalls, the least that stage-b decides on, ``--logs`` logs of
  tier_quota_v1 with 300 to 1,000 answered recalls, sessions drawn with replacement;
* a limit is the value that at most :data:`FALSE_ALARMS` of these logs violate, all sets together. The four critical
  limits share a rate of 5 %, so each has a quarter (Bonferroni), and so has the advisory one; the limit is then rounded
  away from the logs, to two digits.

Logs of tier_first_v1 have no part in the limits: whether the limits tell the policies apart is a result, and it is
reported, not tuned. Then policy stage-b, as shipped, judges every whole log and ``--logs`` logs of each policy and set.
The whole log is written and audited; of a drawn one the receipts are counted as the audit counts them.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from canary_logs import POLICIES, RECEIPT, Pool, lines_of
from canary_table import LARGEST, SMALLEST, VARIETY, live_rows
from set_logs import CHECK, DEVELOPMENT, OPERATORS, PUBLIC, Set, half_of, replayed_set

from lab.canary.audit.audit import audit
from lab.canary.audit.check import TIERS
from lab.canary.audit.sessions import DAMAGE, Sessions
from lab.canary.audit.tally import Repeats, Tally
from lab.canary.audit.windows import Windows
from lab.gate.line import FAIL, INCONCLUSIVE, PASS
from lab.gate.policy import read_policy
from lab.gate.receipts import DOMINANCE, figure
from lab.gate.verdict import judge

SEED = 20261123
# The figures and the direction in which a limit is violated.
FIGURES = {name: -1 if name == "repeat.distinct_share" else 1 for name in (*VARIETY, DOMINANCE)}
FALSE_ALARMS = 0.05 / len(VARIETY)
SHOWN = {PASS: "GO", FAIL: "NO-GO", INCONCLUSIVE: "NO-GO YET"}


Receipt = dict[str, Any]
Receipts = list[list[Receipt]]


class Row(NamedTuple):
    """The results on one set under one policy: its line of the table, and the verdicts on drawn logs."""

    half: str
    policy: str
    text: str
    counts: Counter[str]


def main() -> None:
    """Derive the limits, compare them with the shipped policy, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the folder of public sets")
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--live", type=Path, help="the folder with logs of real gateways")
    given = parser.parse_args()
    sets = {one.name: replayed_set(given.folder, given.data, one) for one in (OPERATORS, *PUBLIC)}
    limits = derived({name: pools for name, pools in sets.items() if half_of(name) == DEVELOPMENT}, given.logs)
    shipped = {rule.measure: rule for rule in read_policy("stage-b").rules if rule.measure in FIGURES}
    print("| figure | limit from the development half | limit in stage-b |\n| --- | --- | --- |")
    for name, limit in limits.items():
        bound = shipped[name].at_most if FIGURES[name] > 0 else shipped[name].at_least
        print(f"| {name} | {limit:g} | {bound:g}{'' if bound == limit else ' (differs)'} |")
    print(
        "\n| set | half | recalls | policy | repeat rate | streak | must share | distinct share | dominance "
        "| whole log | GO | NO-GO | NO-GO YET | NO-GO because of |"
    )
    print(f"|{' --- |' * 14}", flush=True)
    rates: dict[tuple[str, str], Counter[str]] = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder, ProcessPoolExecutor(given.jobs) as processes:
        rows = [
            processes.submit(row_of, one, policy, sets[one.name][policy], Path(folder), given.logs)
            for half in (DEVELOPMENT, CHECK)
            for one in (one for one in (OPERATORS, *PUBLIC) if half_of(one.name) == half)
            for policy in POLICIES
        ]
        for row in (row.result() for row in rows):
            print(row.text, flush=True)
            rates.setdefault((row.half, row.policy), Counter()).update(row.counts)
    for (half, policy), counts in rates.items():
        shares = ", ".join(f"{text} {counts[status] / counts.total():.1%}" for status, text in SHOWN.items())
        print(f"\n{half}, {policy}, {counts.total()} logs: {shares}")
    if given.live:
        print("\n".join(("", *live_rows(given.live))))


def derived(sets: Mapping[str, Mapping[str, Pool]], logs: int) -> dict[str, float]:
    """Return the limits from logs of tier_quota_v1 on the development sets."""
    values: dict[str, list[float]] = {name: [] for name in FIGURES}
    for name, pools in sets.items():
        pool = receipts_of(pools[POLICIES[1]])
        if sum(_is_answered(receipt) for session in pool for receipt in session) < SMALLEST:
            continue
        for log in drawn(name, POLICIES[1], pool, logs):
            for measure, value in repetition(log).items():
                values[measure].append(value)
    return {measure: _limit(of_measure, FIGURES[measure]) for measure, of_measure in values.items()}


def _limit(values: Sequence[float], side: int) -> float:
    """Return the value that at most :data:`FALSE_ALARMS` of the values violate, rounded away from them."""
    ordered = sorted(side * value for value in values)
    bound = ordered[math.ceil((1 - FALSE_ALARMS) * len(ordered)) - 1]
    per = 1 if max(map(abs, values)) > 1 else 100
    return side * math.ceil(bound * per - 1e-9) / per


def receipts_of(pool: Pool) -> Receipts:
    """Return the receipts of a pool, by session."""
    return [
        [json.loads(line.removeprefix(RECEIPT)) for recall in session for line in recall if line.startswith(RECEIPT)]
        for session in pool
    ]


def drawn(name: str, policy: str, pool: Receipts, logs: int) -> Iterator[Receipts]:
    """Yield logs of 300 to 1,000 answered recalls by session, sessions drawn with replacement."""
    for number in range(logs):
        draw = random.Random(f"{SEED} {name} {policy} {number}")
        wanted, answered, log, times = draw.randint(SMALLEST, LARGEST), 0, Receipts(), Counter[int]()
        while answered < wanted:
            session = draw.randrange(len(pool))
            log.append([_again(receipt, times[session]) for receipt in pool[session]])
            answered += sum(map(_is_answered, pool[session]))
            times[session] += 1
        yield log


def _is_answered(receipt: Receipt) -> bool:
    return not receipt["skipped"] and "failed" not in receipt


def _again(receipt: Receipt, times: int) -> Receipt:
    """Return a receipt whose scores differ in the fifth digit if its session was drawn before."""
    if not times:
        return receipt
    lists = {
        name: [hit | {"score": round(hit["score"] * (1 - times * 1e-5), 6)} for hit in receipt[name]]
        for name in ("ftsTop", "vecTop")
    }
    return receipt | lists


def counted(log: Receipts) -> dict[str, Any]:
    """Return the figures and the sessions of a log, as an audit has them."""
    tally, sessions = Tally(), Sessions()
    for session in log:
        for receipt in session:
            tally.add(receipt, None)
            sums = tally.sums()
            sessions.add(None, None, {**sums, DAMAGE: (0, sums["errors.rate"][1])}, recall=True)
        sessions.close_all()
    return tally.as_json(0) | {"sessions": sessions.as_json()}


def repetition(log: Receipts) -> dict[str, float]:
    """Return the figures of a log, as :class:`lab.canary.audit.tally.Tally` counts them."""
    repeats, windows = Repeats(), Windows()
    for receipt in chain.from_iterable(log):
        if _is_answered(receipt):
            repeats.add(None, receipt["scope"], receipt["fusedTop"])
            by_tier = receipt["whySummary"]["byTier"]
            windows.add(by_tier["must"], sum(by_tier[tier] for tier in TIERS))
    found = {"repeat": repeats.as_json(), "must": windows.as_json()}
    return {name: figure(found, name, name) or 0.0 for name in FIGURES}


def row_of(one: Set, policy: str, pool: Pool, folder: Path, logs: int) -> Row:
    """Judge the whole log of a set under a policy, and logs drawn from it if it has enough recalls for one."""
    name, shipped = one.name, read_policy("stage-b")
    stage_b = replace(shipped, rules=tuple(rule for rule in shipped.rules if rule.measure not in one.without))
    path = folder / f"{name}-{policy}.log"
    path.write_text("".join(f"{line}\n" for line in lines_of(pool)), "utf-8")
    found = audit([str(path)])
    whole = judge(stage_b, audit=found)
    counts, decided = Counter[str](), Counter[str]()
    logs = logs if found["recalls"]["answered"] >= SMALLEST else 0
    for log in drawn(f"{name} judged", policy, receipts_of(pool), logs):
        verdict = judge(stage_b, audit=found | counted(log))
        counts[verdict.status] += 1
        decided.update(one.measure for one in verdict.lines if one.critical and one.status == FAIL)
    figures = [figure(found, measure, measure) for measure in FIGURES]
    cells = ["–" if value is None else f"{value:.3g}" for value in figures]
    said = f"{SHOWN.get(whole.status, 'NO-GO (could not measure)')}, {whole.exit_code}"
    shares = [f"{counts[status] / logs:.1%}" if logs else "–" for status in SHOWN]
    reasons = ", ".join(f"{measure} {count}" for measure, count in decided.most_common(4)) or "–"
    text = [name, half_of(name), str(sum(map(len, pool))), policy, *cells, said, *shares, reasons]
    return Row(half_of(name), policy, f"| {' | '.join(text)} |", counts)


if __name__ == "__main__":
    main()
