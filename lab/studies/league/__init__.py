"""Compare every memory system on every set at equal injected tokens (``lab study league``, docs/league.md)."""
