"""Choose the configuration of ``recommended``: 36 of them, on eight sets, each set left out once.

    python -m tests.trials.recommended DATA OUT [--jobs 2] [--set NAME …]

``DATA`` holds the public sets of :data:`SETS`; the others are shipped: ``operators``, and of ``harms`` the half that
may choose. ``OUT`` receives a run for each set; a repeated call reads those that are there.

A configuration may be chosen if it repeats no more than the first one, over the turns of all sets. Among those wins the
mean over the sets of its worth, less what it loses beyond :data:`LOSS` to the better single lane of the set. The worth
of a probe is NetBenefit@6, or Success@6 where nothing can mislead; both are hits. The rule that was fixed before the
runs put the losses first (``--losses-first``). It chooses by one probe of BEAM, so the sum replaced it.

Each set is also judged under the configuration that the others choose: the difference to the choice on everything is
what choosing has flattered (the winner's curse). Sets are never pooled into an interval, since they are not a sample.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base.files import read_json
from lab.base.set_registry import golden_at, recordings_at
from lab.base.shape import deep_merge
from lab.golden.files import golden_bytes, read_golden
from lab.golden.model import split_by
from lab.measures.score import score_run
from lab.replay.run import run_replay
from lab.report.tables import text_table
from lab.runs.request import ReplayRequest
from lab.systems.contract import Arm
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec

# Name, path (DATA is the folder of the public sets), format, other options.
SETS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "operators": ("shipped:operators", "lab", {"scope": "recorded"}),
    "harms": ("shipped:harms", "lab", {"scope": "recorded"}),
    "RealMem": ("DATA/realmem", "realmem", {}),
    "LoCoMo": ("DATA/locomo", "locomo", {"recall_turns": "all"}),
    "REALTALK": ("DATA/realtalk", "realtalk", {}),
    "BEAM": ("DATA/beam", "beam", {}),
    "iKAT": ("DATA/ikat", "ikat", {}),
    "MADial": ("DATA/madial", "madial", {}),
}
LANES = ("bm25", "vector")
REFERENCES = (*LANES, "hybrid")
LOSS = 0.02
HIT, CLEAN, NET, REPEAT = MEASURES = ("Success@6", "CleanHit@6", "NetBenefit@6", "RepeatRate")


@dataclass(frozen=True)
class Found:
    """One set: the means of each arm by measure (None without a value), its worth, and sum and turns of its repeats."""

    name: str
    means: Mapping[str, Mapping[str, float | None]]
    worth: Mapping[str, float]
    repeats: Mapping[str, tuple[float, int]]

    def behind(self, arm: str) -> float:
        """Return the hits of an arm minus those of the better single lane."""
        return float(self.means[arm][HIT] or 0) - max(float(self.means[lane][HIT] or 0) for lane in LANES)


def configurations(path: Path) -> dict[str, dict[str, Any]]:
    """Return the configurations by name; the first is that of the stage before."""
    given = read_json(path)
    return {
        f"{name}, replaced {share}": deep_merge(
            deep_merge(given["config"], ranking), {"lab": {"phases": {"replaced": share, "ended": share > 0}}}
        )
        for share in given["replaced"]
        for name, ranking in given["rankings"].items()
    }


def found_in(name: str, data: Path, out: Path, arms: Mapping[str, dict[str, Any]], jobs: int) -> Found:
    """Replay one set, or read its run."""
    path, format_name, more = SETS[name]
    if name == "harms":
        half = out / "choosing.jsonl"
        half.parent.mkdir(parents=True, exist_ok=True)
        half.write_bytes(golden_bytes(split_by(read_golden(golden_at(path)), "half")["choosing"].judged))
        more = more | {"golden": str(half)}
    # Labels are sampled where a set has none.
    where = str(recordings_at(path)) if path.startswith("shipped:") else path.replace("DATA", str(data))
    labels = {} if path.startswith("shipped:") else {"labels": "sampled"}
    numbered = {f"c{number:02}": config for number, config in enumerate(arms.values())}
    made: dict[str, Arm] = {arm: make_arm(ArmSpec(arm, "engine", config)) for arm, config in numbered.items()}
    request = ReplayRequest(where, format_name, (*REFERENCES, *made), **labels, **more)
    run = run_replay(request, out / name, jobs=jobs, made=made, announce=lambda text: print(text, file=sys.stderr)).run
    scores = score_run(run)
    names = dict(zip(made, arms, strict=True))
    means: dict[str, dict[str, float | None]] = {}
    worth: dict[str, float] = {}
    repeats: dict[str, tuple[float, int]] = {}
    for arm in run.arms:
        values = scores.of_arm(arm)
        named = names.get(arm, arm)
        means[named] = {
            one: sum(values[one].value) / len(values[one].value) if one in values else None for one in MEASURES
        }
        of_probes = dict(zip(values[HIT].at, values[HIT].value, strict=True))
        if NET in values:
            of_probes |= dict(zip(values[NET].at, values[NET].value, strict=True))
        worth[named] = sum(of_probes.values()) / len(of_probes)
        every = values[REPEAT].value if REPEAT in values else []
        repeats[named] = sum(every), len(every)
    return Found(name, means, worth, repeats)


def repeats_of(sets: Sequence[Found], arm: str) -> float:
    """Return the repeat rate of an arm over the turns of all sets."""
    sums = [one.repeats[arm] for one in sets]
    return sum(total for total, _ in sums) / max(1, sum(count for _, count in sums))


def choose(sets: Sequence[Found], arms: Sequence[str], *, losses_first: bool = False) -> str:
    """Return the configuration that the rule chooses on some sets."""
    most = repeats_of(sets, arms[0])

    def worth(arm: str) -> tuple[float, float]:
        lost = sum(max(0.0, -one.behind(arm) - LOSS) for one in sets) / len(sets)
        value = sum(one.worth[arm] for one in sets) / len(sets)
        return (-lost, value) if losses_first else (value - lost, 0.0)

    return max((arm for arm in arms if repeats_of(sets, arm) <= most), key=worth)


def main() -> None:
    """Replay, choose, leave each set out, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--grid", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--set", action="append", choices=SETS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--losses-first", action="store_true")
    given = parser.parse_args()
    arms = configurations(given.grid)
    names = list(arms)
    sets = [found_in(name, given.data, given.out, arms, given.jobs) for name in given.set or SETS]
    chosen = choose(sets, names, losses_first=given.losses_first)

    def shown(one: Found, arm: str) -> list[float | None]:
        return [one.means[arm][measure] for measure in MEASURES]

    print(f"{len(arms)} configurations. Before: {names[0]}. Chosen on everything: {chosen}")
    heads = ["set", "arm", *MEASURES, "behind"]
    print(
        text_table(
            heads,
            [
                [one.name, arm, *shown(one, arm), one.behind(arm)]
                for one in sets
                for arm in (*REFERENCES, names[0], chosen)
            ],
        )
    )
    print(f"Repeats over all turns: before {repeats_of(sets, names[0]):.3f}, chosen {repeats_of(sets, chosen):.3f}")
    if len(sets) > 1:
        print("Each set under the configuration that the others choose; flattered: what the choice on everything adds")
        rows = []
        for one in sets:
            rest = [other for other in sets if other is not one]
            others = choose(rest, names, losses_first=given.losses_first)
            rows.append(
                [one.name, others, *shown(one, others), one.behind(others), one.worth[chosen] - one.worth[others]]
            )
        print(text_table(["set", "chosen by the others", *MEASURES, "behind", "flattered"], rows))
    print("All configurations: mean worth over the sets, worst loss to a lane, repeats")
    every = [
        [
            arm,
            sum(one.worth[arm] for one in sets) / len(sets),
            min(one.behind(arm) for one in sets),
            repeats_of(sets, arm),
        ]
        for arm in names
    ]
    print(text_table(["configuration", "worth", "worst", "repeats"], every))


if __name__ == "__main__":
    main()
