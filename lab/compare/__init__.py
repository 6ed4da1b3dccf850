"""Comparisons of two arms or two runs. Calling the package calls :func:`lab.api.compare`."""

from lab.base.callable_package import make_callable

make_callable(__name__)
