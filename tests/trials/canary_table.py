"""Verdicts of the health rules of policy stage-b on sound and damaged logs, and how often it errs over resampled ones.

python tests/trials/canary_table.py FOLDER --logs 200 [--live ../shared/live/logs]

Replays the shipped operators in profile upstream (about a minute a run, kept in FOLDER), damages what they log, and
prints a table: the verdict and exit code of the log of a whole pool under either policy, and the shares of GO, NO-GO
and NO-GO YET over so many logs of 300 to 1,000 recalls, sessions drawn with replacement, policies in turn.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from canary_logs import (
    POLICIES,
    REPLAYS,
    Pool,
    console_of,
    edited,
    frozen,
    lines_of,
    no_limit,
    no_quota,
    other_scope,
    over_budget,
    replayed,
    sampled,
)

from lab.canary.audit.audit import audit
from lab.gate.line import FAIL, INCONCLUSIVE, PASS
from lab.gate.policy import read_policy
from lab.gate.verdict import Verdict, judge

SMALLEST, LARGEST = 300, 1000
SEED = 20261122
# The rules on what is injected: a log of tier_first_v1 violates them, damaged or not. stage_b_limits.py is about them.
VARIETY = ("repeat.rate", "repeat.longest_streak", "must.share", "repeat.distinct_share")
SAYS = {PASS: "GO", FAIL: "NO-GO", INCONCLUSIVE: "NO-GO YET"}
# How a pool is written as a log: one file or several.
Write = Callable[[Path, Pool, random.Random], list[Path]]


class Kind(NamedTuple):
    """A kind of log: the pools by policy that sessions are drawn from, their damage, and how they are written.

    ``then`` are the pools of the second half, where something breaks amid the log.
    """

    pools: dict[str, Pool]
    edit: Callable[[Pool], Pool] = list
    write: Write = lambda folder, pool, draw: [_written(folder / "gateway.log", lines_of(pool, draw=draw))]
    then: Mapping[str, Pool] = MappingProxyType({})

    def whole(self, policy: str) -> Pool:
        """Return all sessions."""
        return [*self.pools[policy], *self.then.get(policy, ())]

    def sampled(self, policy: str, recalls: int, draw: random.Random) -> Pool:
        """Return sessions drawn with replacement that have at least so many recalls."""
        if policy not in self.then:
            return sampled(self.pools[policy], recalls, draw)
        return [pool for half in (self.pools, self.then) for pool in sampled(half[policy], recalls // 2, draw)]

    def log(self, folder: Path, pool: Pool, draw: random.Random) -> list[Path]:
        """Return the files of a log."""
        return self.write(folder, self.edit(pool), draw)


def main() -> None:
    """Make the pools, judge the logs, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--live", type=Path, help="the folder with logs of real gateways")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    given = parser.parse_args()
    print("| log | tier_first_v1 | tier_quota_v1 | decided by | GO | NO-GO | NO-GO YET |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    kinds = {name: kind for name, kind in _kinds(given.folder).items() if given.only in name}
    # Two trials may share runs but not logs.
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for name, kind in kinds.items():
            _row(name, kind, Path(folder), given.logs)
    if given.live:
        print("\n".join(live_rows(given.live)))


def _kinds(folder: Path) -> dict[str, Kind]:
    """Return every kind of log by name."""
    made = {name: Kind(replayed(folder / "runs", name)) for name in REPLAYS}
    sound = made["sound"]
    # The other policy has no quotas.
    quota = Kind({"tier_quota_v1": sound.pools["tier_quota_v1"]})
    return made | {
        "text lane dies half-way": sound._replace(then=made["dead text lane"].pools),
        "vector lane dies half-way": sound._replace(then=made["dead vector lane"].pools),
        "blocks over the budget": sound._replace(edit=lambda pool: edited(pool, over_budget)),
        "maxItems not kept": sound._replace(edit=lambda pool: edited(pool, no_limit)),
        "mustMax not kept": quota._replace(edit=lambda pool: edited(pool, no_quota)),
        "items of another scope": sound._replace(edit=lambda pool: edited(pool, other_scope)),
        "stale answers": sound._replace(edit=frozen),
        "paired injections in 45 %": sound._replace(write=_paired),
        "cut off at both ends": sound._replace(write=_cut_off),
        "file and console": sound._replace(write=_with_console),
    }


def _paired(folder: Path, pool: Pool, draw: random.Random) -> list[Path]:
    return [_written(folder / "gateway.log", lines_of(pool, twice=0.45, draw=draw))]


def _cut_off(folder: Path, pool: Pool, draw: random.Random) -> list[Path]:
    lines = lines_of(pool, draw=draw)
    return [_written(folder / "gateway.log", [lines[0][300:], *lines[1:-1], lines[-1][:-300]])]


def _with_console(folder: Path, pool: Pool, draw: random.Random) -> list[Path]:
    lines = lines_of(pool, draw=draw)
    return [_written(folder / "gateway.log", lines), _written(folder / "console.txt", console_of(lines, 8))]


def _written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def _row(name: str, kind: Kind, folder: Path, logs: int) -> None:
    whole: dict[str, Verdict] = {}
    for policy in kind.pools:
        # Each log replaces the one before.
        whole[policy] = judged_log(kind.log(folder, kind.whole(policy), random.Random(SEED)), health=True)
    counts, undecided = Counter[str](), Counter[str]()
    for number in range(logs):
        draw = random.Random(f"{SEED} {name} {number}")
        policy = list(kind.pools)[number % len(kind.pools)]
        pool = kind.sampled(policy, draw.randint(SMALLEST, LARGEST), draw)
        verdict = judged_log(kind.log(folder, pool, draw), health=True)
        counts[verdict.status] += 1
        undecided.update(one.measure for one in verdict.lines if one.critical and one.status == INCONCLUSIVE)
    cells = [_said(whole[policy]) if policy in whole else "–" for policy in POLICIES]
    shares = [f"{counts[status] / logs:.1%}" if logs else "–" for status in SAYS]
    print(f"| {' | '.join([name, *cells, _reasons(list(whole.values())), *shares])} |", flush=True)
    if undecided and not counts[FAIL]:
        print(f"  undecided by {dict(undecided.most_common(3))}", file=sys.stderr, flush=True)


def live_rows(folder: Path) -> Iterator[str]:
    """Yield a row for each log of a real gateway, alone and with its console."""
    for logs in _live(folder):
        verdict = judged_log(logs)
        names = " + ".join(path.name for path in logs)
        yield f"| {names} | – | {_said(verdict)} | {_reasons([verdict])} | – | – | – |"


def judged_log(logs: list[Path], *, health: bool = False) -> Verdict:
    """Return the verdict of policy stage-b on the audit of some logs; with ``health``, without :data:`VARIETY`."""
    policy = read_policy("stage-b")
    rules = tuple(rule for rule in policy.rules if not health or rule.measure not in VARIETY)
    return judge(replace(policy, rules=rules), audit=audit([str(path) for path in logs]))


def _said(verdict: Verdict) -> str:
    return f"{SAYS.get(verdict.status, 'NO-GO (could not measure)')}, {verdict.exit_code}"


def _reasons(verdicts: list[Verdict]) -> str:
    failed = {one.measure: None for verdict in verdicts for one in verdict.lines if one.critical and one.status == FAIL}
    return ", ".join(failed) or "–"


def _live(folder: Path) -> list[list[Path]]:
    """Return logs of real gateways, each alone and together with its console."""
    found = []
    for log in sorted(folder.glob("gateway-*.log")):
        console = folder / f"console-{log.stem.removeprefix('gateway-')}.txt"
        found += [[log], [console], [log, console]] if console.exists() else [[log]]
    return found


if __name__ == "__main__":
    main()
