"""Times in a ledger: texts that capture wrote, mostly ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(text: str) -> datetime | None:
    """Return an ISO 8601 time in UTC, which is its zone if it names none; None for anything else."""
    try:
        time = datetime.fromisoformat(text.strip())
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def stamp(time: datetime) -> str:
    """Return a time as a ledger writes it: ISO 8601 in UTC, whole seconds, ending in Z."""
    return time.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
