"""The memory tool of an operator: the table of memories, ledger, episodes, facts, graph and packs.

Nothing of the lab imports it; the tables of commands and of systems name parts of it.
"""
