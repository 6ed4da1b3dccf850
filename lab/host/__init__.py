"""The home of a live host: what is in it, frozen snapshots of it, and what was added since one (IN-1 to IN-7)."""
