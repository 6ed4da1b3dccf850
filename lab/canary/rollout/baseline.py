"""What a watch compares with, from a canary of Stage B or from an earlier watch (CN-15)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json
from lab.canary.rollout.evidence import Limits, repeat_limit
from lab.canary.rollout.watching import RECEIPT
from lab.canary.rollout.watching import SCHEMA as WATCH
from lab.gate.audit_file import SCHEMA as AUDIT_SCHEMA
from lab.runs.directory import AUDIT

# Turns with a repeat rate from which a mean is a baseline.
LEAST_TURNS = 100


def read_baseline(path: Path) -> Limits:
    """Return the limits that an audit or an earlier watch gives; what it does not give is None.

    ``path`` is the folder of a canary or of a watch, or an ``audit.json``. Receipts of automatic recall hold no times,
    so an audit gives no limit of the latency. Raises :class:`UnusableInput`.
    """
    files = [path / AUDIT, path / RECEIPT] if path.is_dir() else [path]
    file = next((one for one in files if one.exists()), files[0])
    value = read_json(file)
    schema = value.get("schema") if isinstance(value, Mapping) else None
    try:
        if schema == AUDIT_SCHEMA:
            return Limits(repeat=_of_audit(value, file))
        if schema == WATCH:
            limits = value["limits"]
            return Limits(latency=_share(limits["latency"], None), repeat=_share(limits["repeat"], 1.0))
    except (KeyError, TypeError, ValueError):
        raise UnusableInput(f"{file}: is damaged; write it again with lab canary audit") from None
    raise UnusableInput(f"{file}: is neither an audit of receipts nor the receipt of a watch")


def _of_audit(value: Mapping[str, Any], file: Path) -> float:
    repeat = value["repeat"]
    if int(repeat["turns"]) < LEAST_TURNS:
        raise UnusableInput(
            f"{file}: has {repeat['turns']} turns with a repeat rate; a baseline needs {LEAST_TURNS}; without "
            "--baseline the watch learns it"
        )
    return repeat_limit(float(repeat["rate"]))


def _share(value: object, most: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0 or (most and value >= most):
        raise ValueError(value)
    return float(value)
