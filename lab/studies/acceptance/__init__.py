"""Whether a candidate meets the acceptance criteria of the design documents: seed 000, and milestone M1 of seed 001.

docs/acceptance.md states every test, as registered before anything was measured, and argues the thresholds.
"""
