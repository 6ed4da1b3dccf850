"""Indexes and versions of the table ``memories`` in a LanceDB folder (IX-1 to IX-13)."""
