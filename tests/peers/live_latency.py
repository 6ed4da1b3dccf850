"""How well ``lab canary audit --home`` bounds the time of a real gateway's recalls, against the known time (CN-24).

    python -m tests.peers.live_latency FOLDER --openclaw NODE_MODULES --engine FOLDER [--slow MS]... [--port 18951]

FOLDER gets a home with a gateway and a stand-in for the model and for the provider of embeddings, as in
:mod:`tests.peers.live_watch`. The copy of the plugin also writes how long each recall took until its receipt. In each
round the provider answers later by a known time, while users say something: every fifth time a word that needs no
recall. Each line of the table is a round: the true p95, the bounds, the share of recalls within their bounds, and what
the rule of stage-b says with the first round as control. If FOLDER is of an earlier call, its table is printed again.
Nothing leaves this machine.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.base.files import dump_json
from lab.canary.audit.audit import audit
from lab.canary.audit.waits import Receipt, recalls_of, spans, waits
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from tests.peers.live_watch import ASKED, FACTS, Home, parser_of

HOOK, RECEIPT = '"before_prompt_build", promptMutationHook', "api.logger.info(`openclaw-mem-engine:autoRecall.receipt"
# What the copy of the plugin runs instead of its hook: the hook, whose time until its receipt is then written down.
TIMED = """"before_prompt_build", (async (event: any, ctx: any) => {
          const at = Date.now(), begun = performance.now(), shared = globalThis as any;
          shared.labReceipt = 0;
          const answer = await promptMutationHook(event, ctx);
          if (shared.labReceipt) {
            const row = { at, ms: shared.labReceipt - begun, hook: performance.now() - begun };
            (await import("node:fs")).appendFileSync(process.env.HOME + "/truth.jsonl", JSON.stringify(row) + "\\n");
          }
          return answer;
        }) as any"""
TRIVIAL = ("ok", "thanks", "hi")


def prepare(folder: Path, packages: Path, engine: Path, port: int) -> Home:
    """Return a home whose plugin writes the times of its hook."""
    home = Home(folder, packages, engine, port)
    source = home.engine / "index.ts"
    text = source.read_text("utf-8")
    if text.count(HOOK) != 1:
        raise RuntimeError(f"{source}: is another version of the plugin: its hook is not found")
    noted = text.replace(HOOK, TIMED).replace(RECEIPT, f"(globalThis as any).labReceipt = performance.now(); {RECEIPT}")
    source.write_text(noted, "utf-8")
    return home


def round_of(home: Home, slow: int, turns: int) -> dict[str, Any]:
    """Serve turns while the provider is late by ``slow`` ms; return when the round began and ended, in epoch ms."""
    home.stubs.delay = slow / 1000
    begun = 1000 * time.time()
    for number in range(turns):
        text = f"{ASKED[number % len(ASKED)]} I wonder, for the {slow + number}th time."
        home.say(TRIVIAL[number // 5 % len(TRIVIAL)] if number % 5 == 4 else text, f"room{number % 3}")
    # The plugin captures after the answer.
    time.sleep(3)
    return {"slow": slow, "turns": turns, "begun": begun, "ended": 1000 * time.time()}


def window_of(folder: Path, one: dict[str, Any]) -> Path:
    """Write the lines of the log that are of a round to a file of their own, and return it."""
    lines = []
    for line in (folder / "state" / "gateway.log").read_text("utf-8").splitlines():
        time_ms = 1000 * datetime.fromisoformat(json.loads(line)["time"]).timestamp()
        if one["begun"] <= time_ms <= one["ended"]:
            lines.append(line)
    file = folder / f"slow-{one['slow']}.log"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def report(folder: Path, rounds: list[dict[str, Any]]) -> None:
    """Print a line for each round."""
    truth = [json.loads(line) for line in (folder / "home" / "truth.jsonl").read_text("utf-8").splitlines()]
    turns, policy, control = spans(folder / "state"), read_policy("stage-b"), None
    print("slowed ms | recalls | true p50 | its bounds [of the upper one] | true p95 | its bounds | within | rule")
    for one in rounds:
        log = window_of(folder, one)
        found = audit([str(log)]) | {"latency": waits([str(log)], folder / "state")}
        (folder / f"slow-{one['slow']}.json").write_bytes(dump_json(found))
        within, true = [], []
        known = [row for row in truth if one["begun"] <= row["at"] <= one["ended"]]
        ends = [row["at"] + row["ms"] for row in known]
        receipts = sorted(
            Receipt(round(1000 * datetime.fromisoformat(value["time"]).timestamp()), '"skipped":true' in value["1"])
            for value in map(json.loads, log.read_text("utf-8").splitlines())
            if "autoRecall.receipt" in str(value.get("1"))
        )
        for recall in recalls_of(receipts, turns)[0]:
            gaps = [abs(end - recall.ms) for end in ends]
            at = gaps.index(min(gaps))
            if not recall.skipped and gaps[at] <= 50:
                true.append(known[at]["ms"])
                within.append(recall.low <= known[at]["ms"] <= recall.high)
        true.sort()
        (rule,) = (line for line in judge(policy, audit=found, control=control or found).lines if line.kind == "wait")
        control, upper = control or found, found["latency"]["p50"]["high"]
        shown = [
            one["slow"],
            len(true),
            f"{true[len(true) // 2]:.0f}",
            f"{_bounds(found, 'p50')} [{upper['low']:.0f} {upper['high']:.0f}]",
            f"{true[int(0.95 * len(true))]:.0f}",
            _bounds(found, "p95"),
            f"{sum(within) / len(within):.3f}",
            rule.status,
        ]
        print(" | ".join(map(str, shown)), flush=True)


def _bounds(found: dict[str, Any], name: str) -> str:
    low, high = (found["latency"][name][side] for side in ("low", "high"))
    return f"{low['value'] if low else 0:.0f} to {high['value'] if high else float('nan'):.0f}"


def main() -> None:
    """Run the rounds, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--slow", action="append", type=int)
    parser.add_argument("--port", type=int, default=18951)
    parser.add_argument("--turns", type=int, default=125)
    given = parser.parse_args()
    known = given.folder / "rounds.json"
    if known.exists():
        return report(given.folder, json.loads(known.read_text("utf-8")))
    home = prepare(given.folder, given.openclaw.absolute(), given.engine.resolve(), given.port)
    try:
        home.start()
        for fact in FACTS:
            home.say(f"I decided to {fact} this year. Please remember that.", "first")
        rounds = [round_of(home, slow, given.turns) for slow in given.slow or (0, 50, 100, 200, 400)]
        known.write_bytes(dump_json(rounds))
    finally:
        home.close()
    return report(given.folder, rounds)


if __name__ == "__main__":
    main()
