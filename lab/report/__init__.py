"""``lab.report`` is a package, and called it is :func:`lab.api.report`."""

from lab.callable_package import make_callable

make_callable(__name__)
