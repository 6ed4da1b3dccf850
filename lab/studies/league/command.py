"""The ``lab study league`` command of a league, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from shlex import join

from lab.runs.request import ReplayRequest
from lab.studies.league.arms import TOKENS


def league_command(
    sets: Sequence[str], arms: Sequence[str], budgets: Sequence[int], shared: ReplayRequest, format_name: str | None
) -> str:
    """Return the command, without options at their defaults."""
    words = ["lab", "study", "league", *sets]
    if format_name:
        words += ["--format", format_name]
    for arm in arms:
        words += ["--arm", arm]
    if tuple(budgets) != TOKENS:
        words += ["--tokens", ",".join(map(str, budgets))]
    for field in fields(ReplayRequest):
        value = getattr(shared, field.name)
        if field.default is MISSING or value == field.default:
            continue
        option = f"--{field.name.replace('_', '-')}"
        for entry in value if isinstance(value, tuple) else (value,):
            words += [option] if entry is True else [option, str(entry)]
    return join([*words, "--out", "DIR"])
