"""What a shell completes: shipped sets, formats, arms, policies, names of baselines."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import typer

from lab.base.errors import LabError


def sets(incomplete: str) -> list[str]:
    """Return the shipped sets, as ``shipped:NAME``."""
    from lab.base.set_registry import SHIPPED, shipped_sets

    return _those((SHIPPED + name for name in shipped_sets()), incomplete)


def formats(incomplete: str) -> list[str]:
    """Return the formats of recordings."""
    from lab.recordings.formats import FORMATS, VARIANTS

    return _those((*FORMATS, *VARIANTS), incomplete)


def origins(incomplete: str) -> list[str]:
    """Return what can have started a conversation."""
    from lab.recordings.origins import ALL, ORIGINS

    return _those((*ORIGINS, ALL), incomplete)


def systems(incomplete: str) -> list[str]:
    """Return every memory system that can be an arm, of the lab and of installed packages."""
    from lab.systems.registry import systems as known

    return _those(known(), incomplete)


def arms(incomplete: str) -> list[str]:
    """Return the arms of the runs on the line.

    The parser gives up at an option without its value, so the words are read from what the shell passes.
    """
    from lab.runs.directory import open_run

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    names: set[str] = set()
    with suppress(LabError, OSError, ValueError):
        for run in filter(_is_run, map(Path, shlex.split(line))):
            names.update(open_run(run).arms)
    return _those(names, incomplete)


def policies(incomplete: str) -> list[str]:
    """Return the shipped policies of the gate."""
    from lab.gate.shipped import shipped_policies

    return _those(shipped_policies(), incomplete)


def baselines(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the approved baselines."""
    folder = Path(str(context.params.get("folder") or "reports/baselines"))
    return _those((path.stem for path in (folder / "names").glob("*.json")), incomplete)


def _those(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _is_run(path: Path) -> bool:
    return (path / "manifest.json").is_file()
