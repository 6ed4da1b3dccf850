"""What a verdict records of its inputs, and what it does not show.

With it, ``lab gate verify`` names what has changed since (:mod:`lab.gate.verify`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.base.files import digest, sha256_bytes
from lab.base.shape import to_json
from lab.runs.directory import GOLDEN, LATENCY, RunDirectory
from lab.runs.scores import read_gold

DOES_NOT_SHOW = (
    "intent: whoever changes the verdict, its run and its recordings together, consistently, is not found",
    "that policy, arms and recordings were chosen before the results were known, or that they are typical",
    "that the judgements are right",
    "how long recalls take on another machine",
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Content digests of the inputs of a verdict: of the policy (:attr:`Policy.key`) and of each run.

    ``others`` maps the path of each run with which the judged run was compared, and of the control, to its digest.
    ``policy_file`` is the path of the policy; None for a shipped one. ``audit`` is the digest of the audit, and
    ``audit_file`` its path. ``record`` is :func:`record_of` the judged run; None in a verdict of an earlier version.
    """

    policy: str
    run: str | None
    others: Mapping[str, str]
    policy_file: str | None = None
    audit: str | None = None
    audit_file: str | None = None
    record: Mapping[str, Any] | None = None
    does_not_show: Sequence[str] = DOES_NOT_SHOW


def record_of(run: RunDirectory) -> dict[str, Any]:
    """Return what a verdict records of its run: settings with seeds, arms, versions, counts, and digests of its files.

    No value depends on where the run is. Of two replays in different environments, ``versions`` and the digests of
    timings may differ. Raises what :func:`lab.runs.scores.read_gold` raises.
    """
    manifest, gold = run.manifest, read_gold(run)
    resolved = to_json(manifest.resolved)
    settings = {name: value for name, value in resolved.items() if name not in ("lab", "arms", "conversations")}
    if manifest.resolved.haystack:
        settings["haystack"] = _digested(to_json(manifest.resolved.haystack), "conversations")
    rest = {
        name: value for name, value in to_json(manifest).items() if name in ("status", "failed", "origins", "scarce")
    }
    contents = {name: digest(to_json(content)) for name, content in manifest.contents.items()}
    files = {name: sha256 for name, sha256 in sorted(run.digests.items()) if not name.startswith(f"{LATENCY}/")}
    timings = {name: sha256 for name, sha256 in sorted(run.digests.items()) if name not in files}
    return {
        "run_key": manifest.run_key,
        "comparable_key": manifest.comparable_key,
        "seed": manifest.asked.get("seed"),
        "settings": settings,
        "arms": {arm.name: digest(to_json(arm)) for arm in manifest.resolved.arms},
        "counts": {
            "conversations": len(run.conversations),
            "recall_points": sum(manifest.recall_points.values()),
            "probes": len(gold),
            "judgements": sum(len(probe.judged) for probe in gold.values()),
        },
        "files": files | ({} if run.gold is None else {GOLDEN: sha256_bytes(run.gold)}),
        "conversations": {name: contents.get(name) for name in manifest.resolved.conversations},
        **rest,
        "timings": digest(timings) if timings else None,
        "versions": to_json(manifest.environment) | {"lab": manifest.resolved.lab},
    }


def _digested(values: dict[str, object], name: str) -> dict[str, object]:
    """Return values with the digest of one of them in its place."""
    return values | {name: digest(values.get(name))}
