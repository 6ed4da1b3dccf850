"""Comparisons of two arms or two runs. Calling the package calls :func:`lab.api.compare`."""

from lab.callable_package import make_callable

make_callable(__name__)
