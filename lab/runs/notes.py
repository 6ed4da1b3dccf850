"""Sentences on what the figures of a run mean, shown beside them wherever they appear.

They say why a run is a trial, whose figures are not those of an engine under real conditions; which arms are off, name
another embedder than the run used, or have settings that the lab lacks; and how many recalls failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from lab.base.formatting import counted
from lab.base.set_registry import DEMO
from lab.embedding.embedder import DEFAULT_MODEL
from lab.runs.directory import RunDirectory, failed_summary
from lab.runs.manifest import COMPLETE, Manifest, Resolved
from lab.systems.arm_info import ArmInfo
from lab.systems.external.protocol import remedy

TITLE = "trial"
HOST = "a live host: its own sessions and store, under the configurations that its operator named"


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
    that were not recorded; the live store instead of the exact one; arms with their own configuration, except on a host
    (:func:`of_host`), or another number of items.
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
    if configured and not of_host(resolved):
        reasons.append(f"arms configured by a file: {', '.join(configured)}")
    if request.get("max_items") is not None:
        reasons.append(f"at most {counted(resolved.arms[0].cutoff, 'item')} requested")
    return tuple(reasons)


def of_host(resolved: Resolved) -> bool:
    """Return whether a replay is of a live host: its sessions and its store under profile upstream.

    A configuration there is the operator's own, and what the replay is about.
    """
    is_host = resolved.profile == "upstream" and resolved.format.startswith("openclaw")
    return is_host and resolved.memories_from is not None


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


def config_notes(resolved: Resolved, arms: Collection[str] | None = None) -> tuple[str, ...]:
    """Return what the configurations of arms mean for the figures of a run: whose they are, and which arms are off.

    A sentence on a live host (:func:`of_host`), one for each arm that its host does not run (HC-9), and one for each
    embedder that configurations name and the run did not use, with its arms. ``resolved`` comes from a manifest;
    ``arms`` defaults to all. Only model names are compared, because configurations say no more. Empty where nothing
    differs.
    """
    chosen = [arm for arm in resolved.arms if arms is None or arm.name in arms]
    off = (off_note(arm.name, arm.off) for arm in chosen if arm.off)
    named = [(arm.name, arm.embedder) for arm in chosen if not arm.off]
    return (*([HOST] if of_host(resolved) else ()), *off, *other_embedders(resolved.embedder_model, named))


def sight_notes(resolved: Resolved) -> tuple[str, ...]:
    """Return a sentence on each arm that is a program of its own: what it could have seen besides its requests."""
    return tuple(
        f"arm {arm.name} is a program of its own: it could read {seen['files']}, and was {seen['probes']}"
        for arm in resolved.arms
        if isinstance(seen := arm.config.get("could_see"), Mapping)
    )


def off_note(arm: str, why: str) -> str:
    """Return the note on an arm that its host does not run."""
    return f"arm {arm} injects nothing, as on its host: {why}"


def other_embedders(used: str, named: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    """Return the notes of :func:`config_notes` from pairs of an arm and the model that its configuration names."""
    by_model: dict[str, list[str]] = {}
    for arm, model in named:
        if model and model != used:
            by_model.setdefault(model, []).append(arm)
    return tuple(_note(names, model, used) for model, names in by_model.items())


def config_note(named: str | None) -> str | None:
    """Return the note on one configuration before any replay; None if it names no embedder, or the default one."""
    if named in (None, DEFAULT_MODEL):
        return None
    return (
        f"embedder: this configuration names {named}; lab replay uses {DEFAULT_MODEL} unless --embedder names another, "
        "and its figures are then not those of this engine"
    )


def _note(arms: list[str], named: str, used: str) -> str:
    arm, engine = ("arm", "that engine") if len(arms) == 1 else ("arms", "these engines")
    return (
        f"embedder: the configuration of {arm} {', '.join(arms)} names {named}; this run used {used}, "
        f"so its figures are not those of {engine}"
    )


def missing_notes(infos: Iterable[ArmInfo]) -> tuple[str, ...]:
    """Return one sentence that lists the settings of arms which are not implemented here; empty if there are none."""
    by_path: dict[str, list[str]] = {}
    for info in infos:
        for path in info.missing:
            by_path.setdefault(path, []).append(info.name)
    if not by_path:
        return ()
    arms = list(dict.fromkeys(arm for named in by_path.values() for arm in named))
    named = f"{'arm' if len(arms) == 1 else 'arms'} {', '.join(arms)}"
    return (f"settings that the lab does not implement, so without effect here: {', '.join(by_path)} (of {named})",)


def why_failed(run: RunDirectory) -> str:
    """Return how many recalls of which arms failed, and the place, reason and remedy of the first one."""
    summary = failed_summary(run.manifest.failed)
    first = next(iter(run.failed_recalls()), None)
    if first is None:
        return summary
    mended = remedy(first.failure, first.arm)
    at = f"probe {first.probe} at {first.turn}" if first.probe else first.turn
    return f"{summary}; first at {at}: {first.failure}" + (f"; {mended}" if mended else "")
