"""Reports and figures. Calling the package calls :func:`lab.api.report`."""

from lab.base.callable_package import make_callable

make_callable(__name__)
