"""Which of the simulated candidates a rollout policy lets through: ``python -m tests.trials.rollout_candidates DIR``.

Replays the candidates of :mod:`tests.candidates` beside ``tier_first_v1`` and ``hybrid`` into DIR, judges each
against ``tier_first_v1``, and prints a table: the verdict, what it ought to be, its first reason, and two shares of the
probes: those where a relevant memory is injected, of all that have one, and those where a misleading one is, of all.
They are counted here, and not by a measure, so that a fault of a measure is seen. Options: --recordings SET (a folder
or shipped:NAME), --embedder NAME, --policy NAME. Ends with 1 if a verdict is not what it ought to be.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lab.base.errors import LabError
from lab.base.set_registry import recordings_at
from lab.gate.line import PASS
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory, open_run
from lab.runs.request import ReplayRequest
from lab.systems.contract import Arm
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec
from tests.candidates import CASES, PASSING, SLOTS, Known, candidates

BASELINE, REFERENCE = "tier_first_v1", "hybrid"
# Their recalls fail, and a run with failed recalls is judged as a whole; so each has a run of its own.
ALONE = ("from_the_future", "lists_only")


def replayed(request: ReplayRequest, made: Mapping[str, Arm], out: Path) -> Path:
    """Replay arms beside the baseline into a folder, or what is missing there, and return it."""
    given = replace(request, arms=(BASELINE, REFERENCE, *made))
    outcome = run_replay(given, out, made=made, announce=lambda line: print(line, file=sys.stderr))
    if outcome.failures:
        sys.exit(f"{out}: {outcome.failures[0]['conversation']}: {outcome.failures[0]['reason']}")
    return out


def verdict_of(name: str, folder: Path, policy: str) -> tuple[str, str]:
    """Return the verdict of one arm of a run, and its first reason, blank if it passes."""
    try:
        run = open_run(folder)
        verdict = judge(read_policy(policy).of_pair(name, BASELINE, run.arms), run)
    except LabError as error:
        return "error", str(error)
    reasons = (line.reason for line in verdict.lines if line.critical and line.status == verdict.status != PASS)
    return verdict.status, next(reasons, "")


def shares_of(run: RunDirectory, known: Known) -> dict[str, tuple[float, float]]:
    """Return both shares of each arm."""
    hits, misled = Counter[str](), Counter[str]()
    for conversation in run.conversations:
        for row in run.read_receipts(conversation, ("arm", "turn", "injected", "item_key")).to_pylist():
            probe = known.probes.get(row["turn"])
            if probe is not None:
                keys = set(row["item_key"][: row["injected"]])
                hits[row["arm"]] += not keys.isdisjoint(probe.grades)
                misled[row["arm"]] += not keys.isdisjoint(judgement.memory for judgement in probe.forbidden)
    needed = sum(bool(probe.relevant) for probe in known.probes.values())
    return {arm: (hits[arm] / max(needed, 1), misled[arm] / max(len(known.probes), 1)) for arm in run.arms}


def main() -> None:
    """Replay, judge, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recordings", default="shipped:operators")
    parser.add_argument("--embedder", default=ReplayRequest("", "", ()).embedder)
    parser.add_argument("--policy", default="rollout")
    given = parser.parse_args()
    path = str(recordings_at(given.recordings))
    request = ReplayRequest(path, "lab", (BASELINE,), embedder=given.embedder, scope="recorded", hard_rules=2)
    known = Known.of(make_plan(request))
    made = candidates(known, lambda name: make_arm(ArmSpec(name, name, max_items=SLOTS)))
    together = {name: arm for name, arm in made.items() if name not in ALONE}
    folders = {name: given.folder / name for name in ALONE} | dict.fromkeys(together, given.folder / "together")
    shares: dict[str, tuple[float, float]] = {}
    for folder in dict.fromkeys(folders.values()):
        replayed(request, {name: made[name] for name in made if folders[name] == folder}, folder)
        shares |= shares_of(open_run(folder, allow_failed=True), known)
    form = "{:<16}{:<9}{:<14}{:>5}{:>8}  {}"
    print(form.format("candidate", "ought to", "verdict", "found", "misled", "first reason"))
    wrong = []
    for name in (BASELINE, REFERENCE, *CASES):
        status, reason = verdict_of(name, folders[name], given.policy) if name in CASES else ("–", "")
        ought = "–" if name not in CASES else "pass" if name in PASSING else "refuse"
        if name in CASES and (status == PASS) != (name in PASSING):
            wrong.append(name)
        row = form.format(name, ought, status, *(f"{share:.3f}" for share in shares[name]), reason)
        print(textwrap.fill(row.rstrip(), 80, subsequent_indent=" " * 18))
    print(
        f"\n{len(CASES) - len(wrong)} of {len(CASES)} verdicts are what they ought to be" + ", not: " * bool(wrong),
        end="",
    )
    print(", ".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
