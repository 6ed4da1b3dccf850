"""Packages that are called like the function of the same name: ``lab.replay(…)`` beside ``lab.replay.loop``.

A package of that name hides the function once any module of it is imported, so the package itself is made to be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _Package(ModuleType):
    def __call__(self, *args: object, **options: object) -> object:
        """The function of :mod:`lab.api` that has the package's name."""
        return getattr(import_module("lab.api"), self.__name__.rpartition(".")[2])(*args, **options)


def make_callable(name: str) -> None:
    """Make the package ``name`` (such as ``lab.replay``) callable."""
    sys.modules[name].__class__ = _Package
