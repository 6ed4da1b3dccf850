"""Comparisons of two arms or two runs. Calling the package calls :func:`lab.api.compare`."""

from lab.callable_package import let_call

let_call(__name__)
