"""What makes a run a trial: the reasons why its figures are not those of an engine under real conditions."""

from __future__ import annotations

from collections.abc import Iterable

from lab.formatting import counted
from lab.runs.directory import RunDirectory, failed_told
from lab.runs.manifest import COMPLETE, Manifest
from lab.set_registry import DEMO

TITLE = "trial"


def trial(manifest: Manifest) -> tuple[str, ...]:
    """The reasons in a fixed order, a few words each; empty for a run that is none.

    An embedder for tests; faults that were switched on; a part of the recordings; labels, hard rules or categories
    that were not recorded; the live store in place of the exact one; arms with a configuration of their own, or another
    number of items than theirs; recalls that failed; and a run that an earlier version made, or that is not
    complete.
    """
    resolved, asked = manifest.resolved, manifest.asked
    found: list[str] = []
    if resolved.embedder.get("kind") == "hashing":
        found.append("embedder hashing, which is for tests")
    if resolved.faults:
        found.append(f"faults switched on: {', '.join(resolved.faults)}")
    found += _part(manifest)
    if resolved.labels.are_sampled:
        found.append(f"labels {resolved.labels}")
    if resolved.hard_rules.drawn:
        found.append(f"{counted(resolved.hard_rules.drawn, 'hard rule')} a conversation drawn")
    if resolved.categories != "recorded":
        found.append(f"categories {resolved.categories}")
    if resolved.store != "exact":
        found.append(f"store {resolved.store}")
    own = _configured(asked.get("arms"), bool(asked.get("config")), [arm.name for arm in resolved.arms])
    if own:
        found.append(f"own configuration of {', '.join(own)}")
    if asked.get("max_items") is not None:
        found.append(f"at most {counted(resolved.arms[0].cutoff, 'item')} asked for")
    if manifest.migrated:
        found.append(f"migrated from schema {manifest.migrated.schema_version}, digests taken then")
    if manifest.failed:
        found.append(failed_told(manifest.failed))
    elif manifest.status != COMPLETE:
        found.append("not complete")
    return tuple(found)


def trial_of(*runs: RunDirectory) -> tuple[str, ...]:
    """The reasons of several runs, each once."""
    return tuple(dict.fromkeys(reason for run in runs for reason in trial(run.manifest)))


def trial_line(reasons: Iterable[str]) -> str | None:
    """The reasons as the line that comes first; None where there is none."""
    told = "; ".join(reasons)
    return f"{TITLE}: {told}" if told else None


def _part(manifest: Manifest) -> list[str]:
    chosen, limit = manifest.asked.get("conversation"), manifest.asked.get("limit")
    # The demo's list is part of the lab: nobody chose it for a result.
    if limit is None and (not chosen or chosen == list(DEMO)):
        return []
    how = "chosen by name" if chosen else "the first ones"
    return [f"{counted(len(manifest.resolved.conversations), 'conversation')}, {how}"]


def _configured(arms: object, shared: bool, names: list[str]) -> list[str]:
    """Arms that were given a file: NAME=FILE, or one for all."""
    texts = [one for one in arms if isinstance(one, str)] if isinstance(arms, list | tuple) else []
    return names if shared else [text.partition("=")[0] for text in texts if "=" in text]
