"""A live memory system behind JSON lines: a child process, or an HTTP endpoint (docs/external.md).

``protocol`` says what may be sent and answered, ``session`` carries it to one instance of a host. ``answers`` records
what it answered, and ``arm`` is the arm and the memory system that the loop sees. ``host`` wraps a Python object for
the other side.
"""
