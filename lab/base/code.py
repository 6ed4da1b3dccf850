"""The version of the lab, and hashes of the source code that a result depends on.

A hash covers the import closure of the modules that make the result.

Imports are read from the sources, so nothing is loaded. An import inside a function counts, as it may be run; one for
types alone does not. Modules that are named as strings, such as those of the arms, are no imports: who loads them by
name gives them as further roots.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from lab.base.regex import regex

__version__ = "0.2.0"
# The folder of the package.
LAB = Path(__file__).parents[1]
_IMPORT = regex(
    r"^[ \t]*(?:from[ \t]+(lab(?:\.\w+)*)[ \t]+import[ \t]+(\([^)]*\)|.+)|import[ \t]+(lab(?:\.\w+)*))", re.MULTILINE
)
_TYPES_ALONE = regex(r"^([ \t]*)if TYPE_CHECKING:\n(?:\1[ \t]+.*\n|\n)+", re.MULTILINE)


def code_key(*roots: str) -> str:
    """Return the sha256 of the sources of :func:`closure`, names and contents; any edit of one changes it."""
    return _key(frozenset(roots))


def closure(*roots: str) -> dict[str, Path]:
    """Return the files of some modules of the lab and of all that they import, directly or not, by module name.

    The packages around each module count, because importing it runs them. Raises :class:`LookupError` for a root that
    is no module.
    """
    modules, found = _modules(LAB), dict[str, Path]()
    if unknown := [name for name in roots if name not in modules]:
        raise LookupError(f"no module {unknown[0]!r}")
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        # Most names are attributes of a module: `from lab.base.files import digest`.
        if name in modules and name not in found:
            found[name] = modules[name]
            waiting += (name.rpartition(".")[0], *_source(found[name])[1])
    return dict(sorted(found.items()))


def imports_of(text: str) -> set[str]:
    """Return the names of the lab that a source imports: modules, and attributes of modules."""
    names = set()
    for module, imported, plain in _IMPORT.findall(_TYPES_ALONE.sub("", text)):
        names.add(module or plain)
        for line in imported.strip("()").splitlines():
            names |= {f"{module}.{name.split()[0]}" for name in line.split("#")[0].split(",") if name.strip()}
    return names


def imported_by(files: Iterable[Path]) -> set[str]:
    """Return the modules of the lab that the sources of another package import."""
    return {name for file in files for name in _source(file)[1]}.intersection(_modules(LAB))


def modules_in(package: str) -> tuple[str, ...]:
    """Return the modules of a package of the lab that finds them by their files, as that of the measures does."""
    return tuple(sorted(name for name in _modules(LAB) if name.startswith(f"{package}.")))


@cache
def _key(roots: frozenset[str]) -> str:
    result = hashlib.sha256()
    for name, path in closure(*roots).items():
        data = _source(path)[0]
        result.update(f"{name}:{len(data)}:".encode())
        result.update(data)
    return result.hexdigest()


@cache
def _source(path: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return the content of a file and what it imports."""
    data = path.read_bytes()
    return data, tuple(sorted(imports_of(data.decode("utf-8", "replace"))))


@cache
def _modules(folder: Path) -> dict[str, Path]:
    """Return the files of all modules and packages below the folder of ``lab``, by name."""
    found: dict[str, Path] = {}
    for place, _, names in os.walk(folder):
        package = ".".join(("lab", *Path(place).relative_to(folder).parts))
        found |= {f"{package}.{name[:-3]}": Path(place, name) for name in names if name.endswith(".py")}
    return {name.removesuffix(".__init__"): path for name, path in found.items()}
