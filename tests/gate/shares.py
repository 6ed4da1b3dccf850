"""Audits of sessions that all have one share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.shape import deep_merge


def with_share(audit: Mapping[str, Any], measure: str, share: float, **figures: Any) -> dict[str, Any]:
    """Return an audit in which every session has this share of a measure; ``figures`` are others of its section."""
    section, _, name = measure.partition(".")
    recalls = audit["sessions"]["recalls"]
    sums = {measure: {"part": [share * count for count in recalls], "of": recalls}}
    return deep_merge(audit, {section: {name: share, **figures}, "sessions": {"sums": sums}})
