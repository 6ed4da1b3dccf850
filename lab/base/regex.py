"""Regular expressions that are compiled when they are first used.

Patterns are written at the top of modules. To compile those of all modules that a command loads would take longer than
most commands, which use few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Regex:
    def __init__(self, pattern: Any, flags: int) -> None:
        self._written = pattern, flags

    def __getattr__(self, name: str) -> Any:
        # Copies and pickles ask for special methods before there is a pattern to compile.
        if name.startswith("_"):
            raise AttributeError(name)
        # The method is kept, so that the pattern is as fast from its second use as a compiled one.
        found = self.__dict__[name] = getattr(re.compile(*self._written), name)
        return found


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what :func:`re.compile` returns, compiled on first use; an invalid pattern raises :class:`re.error` then.

    Functions of :mod:`re` do not take it: use its methods.
    """
    return cast("re.Pattern[AnyStr]", _Regex(pattern, flags))
