"""What a run depends on: versions, hashes and configurations."""

from __future__ import annotations

import json
from typing import NamedTuple

from lab.base.files import digest
from lab.runs.directory import RunDirectory


def versions(run: RunDirectory) -> dict[str, str]:
    """Return the versions that made the run: the lab, its code, Python, the platform and packages."""
    environment = run.manifest.environment
    git = environment.git
    names = {
        "recall lab": run.manifest.resolved.lab,
        "code": environment.code,
        "git commit": f"{git.commit}{' with uncommitted changes' if git.dirty else ''}" if git else None,
        "Python": environment.python,
        "platform": environment.platform,
    }
    return {name: str(value) for name, value in {**names, **environment.packages}.items() if value}


def hashes(run: RunDirectory) -> dict[str, str]:
    """Return the keys of the run, the identity of the embedder, and the sha256 of every file that was read."""
    resolved = run.manifest.resolved
    return {
        "run key": run.manifest.run_key,
        "comparable key": run.manifest.comparable_key,
        **{f"embedder {name}": str(value) for name, value in resolved.embedder.items()},
        **{f"golden {name}": value for name, value in resolved.golden.items()},
        **{f"recording {name}": value for name, value in resolved.recordings.items()},
    }


class Config(NamedTuple):
    """A configuration as indented JSON, its hash, and the arms that have it."""

    hash: str
    config: str
    arms: list[str]


def configs(run: RunDirectory) -> list[Config]:
    """Return each configuration of a run once."""
    by_hash: dict[str, Config] = {}
    for arm in run.manifest.resolved.arms:
        key = digest(arm.config)
        text = json.dumps(arm.config, ensure_ascii=False, indent=1)
        by_hash.setdefault(key, Config(key, text, [])).arms.append(arm.name)
    return list(by_hash.values())
