"""Reports and figures. Calling the package calls :func:`lab.api.report`."""

from lab.callable_package import let_call

let_call(__name__)
