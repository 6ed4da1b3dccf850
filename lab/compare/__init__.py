"""``lab.compare`` is a package, and called it is :func:`lab.api.compare`."""

from lab.callable_package import make_callable

make_callable(__name__)
