"""``lab.compare`` is a package, and called it is :func:`lab.api.compare`."""

from lab.callable_package import let_call

let_call(__name__)
