"""Replay conversations through memory systems. Calling the package calls :func:`lab.api.replay`."""

from lab.base.callable_package import make_callable

make_callable(__name__)
