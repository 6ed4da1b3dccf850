"""Compare ``lab config check`` with ``openclaw config validate`` on generated configurations.

    python tests/trials/host_verdicts.py FOLDER VERSION ENGINE [--count 300] [--seed 0]

FOLDER holds ``node_modules/openclaw`` of VERSION (``npm install openclaw@VERSION``; its Node has to be on PATH), ENGINE
is the plugin's folder. Prints the disagreements, and ends with 1 where there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.systems.openclaw.config.file import ENTRY
from lab.systems.openclaw.config.table import SEED, Knob, Section
from lab.systems.openclaw.upstream.host import ANY_KEY, ENGINE, KNOWN_HOSTS, META_OF, PLUGINS_OF, check_host, host_of

ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.5, 2.0, 7, 1e9, "", " ", "3", "true", "x"),
    *([], ["a"], ["", 1], {}, {"a": 1}),
]


def main() -> None:
    """Generate configurations, check them with both, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("version", choices=KNOWN_HOSTS)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    refused = wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(given.count):
            config = base(given.engine.resolve())
            changes = [change(config, dice, given.version) for _ in range(dice.choice((1, 1, 1, 2, 3)))]
            theirs = validate(given.folder.resolve(), config, Path(scratch))
            host = host_of(config, given.version)
            assert host is not None
            ours = not check_host(config, host).problems
            refused += not theirs
            if ours != theirs:
                wrong += 1
                print(
                    f"{number}: the host {'accepts' if theirs else 'refuses'}, the lab does not: {changes}", flush=True
                )
    print(f"{given.version}: {given.count - wrong} of {given.count} verdicts agree; the host refused {refused}")
    sys.exit(1 if wrong else 0)


def base(engine: Path) -> dict[str, Any]:
    """Return a small configuration that both accept."""
    entry = {"enabled": True, "hooks": {"allowConversationAccess": True}, "config": {"autoRecall": {"maxItems": 4}}}
    plugins = {"load": {"paths": [str(engine)]}, "slots": {"memory": ENTRY}, "entries": {ENTRY: entry}}
    return {"gateway": {"mode": "local"}, "plugins": plugins}


def change(config: dict[str, Any], dice: random.Random, version: str) -> str:
    """Change one value, and return which."""
    roots: list[tuple[tuple[str, ...], Section]] = [(("plugins", "entries", ENTRY, "config"), ENGINE)] * 4
    roots += [(("plugins",), PLUGINS_OF[version]), (("meta",), META_OF[version])]
    start, section = dice.choice(roots)
    entries = list(places(section, start))
    path, entry = dice.choice(entries)
    if dice.random() < 0.08:
        path, entry = (*path[:-1], dice.choice(("other", "lab", "enabled", "maxItems"))), None
    # The lab cannot know what the host finds on disk.
    if path[:3] in {("plugins", "load", "paths"), ("plugins", "slots", "memory")} or path == ("plugins", "load"):
        return "nothing"
    value = dice.choice(sound(entry, dice)) if isinstance(entry, Knob) and dice.random() < 0.5 else dice.choice(ODD)
    target: Any = config
    for key in path[:-1]:
        if not isinstance(target.get(key), dict):
            target[key] = {}
        target = target[key]
    target[path[-1]] = value
    return f"{'.'.join(path)} = {json.dumps(value)}"


def places(section: Section, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Knob | Section]]:
    """Return every path below a section."""
    for key, entry in section.keys.items():
        at = (*path, ENTRY if key == ANY_KEY and path[-1] == "entries" else "any" if key == ANY_KEY else key)
        if at[-2:] == (ENTRY, "config"):
            continue
        yield at, entry
        if isinstance(entry, Section):
            yield from places(entry, at)


def sound(knob: Knob, dice: random.Random) -> list[Any]:
    """Return values at and beyond the limits of a key."""
    if knob.kind in ("whole", "number", "positive"):
        edges = [knob.low, min(knob.high, 1e7), *(knob.manifest or ()), knob.high_in(SEED) if knob.high < 1e7 else 1]
        near = [round(edge + step, 6) for edge in edges for step in (-1, -0.01, 0, 0.5, 1)]
        return [int(one) if float(one).is_integer() else one for one in near]
    if knob.kind in ("choice", "word"):
        return [*knob.choices, *(one.upper() for one in knob.choices)]
    if knob.kind == "map":
        return [{"a": ["b"]}, {"a": "b"}, {"a": [1]}, {}]
    if knob.kind in ("texts", "args", "scopes"):
        return [["a"], ["a", ""], [], ["a", None], ["a"] * dice.randint(1, 80)]
    return [True, False] if knob.kind == "flag" else ["a", "", "a b", "~/x"]


def validate(folder: Path, config: dict[str, Any], scratch: Path) -> bool:
    """Return whether ``openclaw config validate`` accepts a configuration."""
    file = scratch / "openclaw.json"
    file.write_text(json.dumps(config), "utf-8")
    state = {"HOME": str(scratch), "OPENCLAW_STATE_DIR": str(scratch / "state"), "OPENCLAW_CONFIG_PATH": str(file)}
    command = [folder / "node_modules/.bin/openclaw", "config", "validate", "--json"]
    done = subprocess.run(command, env=os.environ | state, capture_output=True, text=True, check=False)
    try:
        return bool(json.loads(done.stdout)["valid"])
    except (ValueError, KeyError):
        raise SystemExit(f"openclaw did not answer: {done.stdout[:300]} {done.stderr[:300]}") from None


if __name__ == "__main__":
    main()
