"""Why a run is a trial: its figures are not those of an engine under real conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.base.formatting import counted
from lab.base.set_registry import DEMO
from lab.runs.directory import RunDirectory, failed_summary
from lab.runs.manifest import COMPLETE, Manifest, Resolved

TITLE = "trial"


def trial(manifest: Manifest) -> tuple[str, ...]:
    """Return the reasons why a run is a trial, in a fixed order; empty if it is not one.

    Reasons are those of :func:`trial_of_replay`; failed recalls; an incomplete run.
    """
    reasons = [*trial_of_replay(manifest.resolved, manifest.asked)]
    if manifest.failed:
        reasons.append(failed_summary(manifest.failed))
    elif manifest.status != COMPLETE:
        reasons.append("not complete")
    return tuple(reasons)


def trial_of_replay(resolved: Resolved, request: Mapping[str, object]) -> tuple[str, ...]:
    """Return the reasons why a replay is a trial by its arguments, also for a command that keeps no run.

    Reasons are: an embedder for tests; injected faults; only part of the recordings; labels, hard rules or categories
    that were not recorded; the live store instead of the exact one; arms with their own configuration, or another
    number of items.
    """
    reasons: list[str] = []
    if resolved.embedder.get("kind") == "hashing":
        reasons.append("embedder hashing, which is for tests")
    if resolved.faults:
        reasons.append(f"faults switched on: {', '.join(resolved.faults)}")
    reasons += _part(resolved, request)
    if resolved.labels_are_sampled:
        reasons.append(f"labels {resolved.labels}")
    if resolved.hard_rules.drawn:
        reasons.append(f"{counted(resolved.hard_rules.drawn, 'hard rule')} per conversation sampled")
    if resolved.categories != "recorded":
        reasons.append(f"categories {resolved.categories}")
    if resolved.store != "exact":
        reasons.append(f"store {resolved.store}")
    configured = _configured(request.get("arms"), bool(request.get("config")), [arm.name for arm in resolved.arms])
    if configured:
        reasons.append(f"arms configured by a file: {', '.join(configured)}")
    if request.get("max_items") is not None:
        reasons.append(f"at most {counted(resolved.arms[0].cutoff, 'item')} requested")
    return tuple(reasons)


def trial_of(*runs: RunDirectory) -> tuple[str, ...]:
    """Return the reasons of several runs, without repetitions."""
    return tuple(dict.fromkeys(reason for run in runs for reason in trial(run.manifest)))


def trial_line(reasons: Iterable[str]) -> str | None:
    """Return the reasons as one line, which outputs show first; None if there are none."""
    listed = "; ".join(reasons)
    return f"{TITLE}: {listed}" if listed else None


def _part(resolved: Resolved, request: Mapping[str, object]) -> list[str]:
    chosen, limit = request.get("conversation"), request.get("limit")
    # The demo's list is part of the lab, and was not chosen for a result.
    if limit is None and (not chosen or chosen == list(DEMO)):
        return []
    how = "chosen by name" if chosen else "the first ones"
    return [f"{counted(len(resolved.conversations), 'conversation')}, {how}"]


def _configured(arms: object, shared: bool, names: list[str]) -> list[str]:
    """Return the arms that were given a configuration file: NAME=FILE, or one for all."""
    texts = [arm for arm in arms if isinstance(arm, str)] if isinstance(arms, list | tuple) else []
    return names if shared else [text.partition("=")[0] for text in texts if "=" in text]
