"""Replay conversations through memory systems. Calling the package calls :func:`lab.api.replay`."""

from lab.callable_package import let_call

let_call(__name__)
