"""``lab.report`` is a package, and called it is :func:`lab.api.report`."""

from lab.callable_package import let_call

let_call(__name__)
