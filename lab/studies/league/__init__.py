"""Compare every memory system on every set at equal injected tokens (``lab league``, docs/league.md)."""
