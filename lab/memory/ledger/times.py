"""Times in a ledger: texts that capture wrote, mostly ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime

from lab.base.times import as_datetime, epoch_ms


def moment(text: str) -> datetime | None:
    """Return a time in UTC, which is its zone if it names none (TI-2); None for a text that is no time."""
    try:
        # With its microseconds.
        time = datetime.fromisoformat(text.strip())
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        time_ms = epoch_ms(text)
        return None if time_ms is None else as_datetime(time_ms)


def stamp(time: datetime) -> str:
    """Return a time as a ledger writes it: ISO 8601 in UTC, whole seconds, ending in Z."""
    return time.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
