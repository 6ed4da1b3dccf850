"""Audit, switch and watch a running engine: its logs, its agreement with the lab, and switches that are rolled back.

Nothing of the lab imports it; the table of commands names its commands.
"""
