"""What a turn took: which stages it is the sum of, and which turns count."""

from __future__ import annotations

# The whole of a turn, beside its stages.
TOTAL = "total"
