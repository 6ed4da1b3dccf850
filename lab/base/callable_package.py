"""Make a package callable, so that both ``lab.replay(…)`` and ``lab.replay.loop`` work.

Importing a module of the package ``lab.replay`` sets the attribute ``replay`` of ``lab`` to the package. That hides
the function of that name, so calling the package calls the function.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _Package(ModuleType):
    def __call__(self, *args: object, **options: object) -> object:
        """Call the function of :mod:`lab.api` that has the package's name."""
        return getattr(import_module("lab.api"), self.__name__.rpartition(".")[2])(*args, **options)


def make_callable(name: str) -> None:
    """Make the package ``name`` (such as ``lab.replay``) callable."""
    sys.modules[name].__class__ = _Package
