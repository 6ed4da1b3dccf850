"""How well ``lab canary audit`` bounds the time of a real gateway's recalls, against the known time.

    python -m tests.peers.live_latency FOLDER --openclaw NODE_MODULES --engine FOLDER [--slow MS]... [--port 18951]

FOLDER gets a home with a gateway and a stand-in for the model and for the provider of embeddings, as in
:mod:`tests.peers.live_watch`. The copy of the plugin also writes how long each run of its hook took. In each round the
provider answers later by a known time, while users say something: every fifth time a word that needs no recall.
Nothing leaves this machine.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.peers.live_watch import ASKED, FACTS, Home

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


def main() -> None:
    """Run the rounds, and print a line of JSON for each."""
    # So that a harness that is ended leaves no gateway behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--openclaw", type=Path, required=True)
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--slow", action="append", type=int)
    parser.add_argument("--port", type=int, default=18951)
    parser.add_argument("--turns", type=int, default=125)
    given = parser.parse_args()
    home = prepare(given.folder, given.openclaw.absolute(), given.engine.resolve(), given.port)
    try:
        home.start()
        for fact in FACTS:
            home.say(f"I decided to {fact} this year. Please remember that.", "first")
        for slow in given.slow or (0, 50, 100, 200, 400):
            print(json.dumps(round_of(home, slow, given.turns)), flush=True)
    finally:
        home.close()


if __name__ == "__main__":
    main()
