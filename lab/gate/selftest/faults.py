"""Named faults in TOML: each is one small change to a function or a constant of the engine.

::

    [[fault]]
    name = "nice-floor-dropped"
    about = "No slot is reserved for nice memories."
    in = "lab.systems.openclaw.select.policies:tier_quota_v1"
    change = "nice ="
    to = "0"

``in`` names a module and, after a colon, one of its functions, methods or classes (``Class.method``, ``outer.inner``).
Without a colon the module's own statements are changed. ``change`` says what ``to`` replaces:

* ``NAME =``: the value that one statement assigns to a name;
* ``return``: the value of the only ``return``;
* ``start``: nothing; the statements in ``to`` are put before those of the function;
* anything else is an expression, which is replaced wherever it occurs.

In ``to``, ``it`` stands for the code that is replaced. Code is compared as a syntax tree, so formatting, comments and
docstrings do not matter. A nested function is changed only where ``in`` names it. ``equivalent`` says why a fault that
changes nothing on the shipped sets changes nothing there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lab
from lab.base.errors import UnusableInput
from lab.base.files import read_toml, write_atomically
from lab.base.regex import regex
from lab.base.shape import expect, text_in, with_keys

PACKAGE = Path(lab.__file__).resolve().parent
SHIPPED = Path(__file__).parent / "faults"
_FAULT = ("name", "about", "in", "change", "to", "equivalent")
_TARGET = regex(r"lab((?:\.\w+)+)(?::(\w+(?:\.\w+)*))?")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Edit(NamedTuple):
    """A file of the package, and the function from its old text to the new one; the old text of a new file is empty."""

    file: str
    change: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its name, what it does, its edits, its group, and why it is equivalent to the original code, if so."""

    name: str
    about: str
    edits: tuple[Edit, ...]
    group: str = ""
    equivalent: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files that it edits, each once."""
        return tuple(dict.fromkeys(edit.file for edit in self.edits))


def shipped_faults() -> tuple[Fault, ...]:
    """Return the shipped faults, group by group."""
    return tuple(fault for path in sorted(SHIPPED.glob("*.toml")) for fault in read_faults(path))


def read_faults(path: Path) -> tuple[Fault, ...]:
    """Return the faults of a file; :class:`UnusableInput` says what is wrong and where."""
    value = read_toml(path)
    given = value.get("fault")
    if not isinstance(given, list) or not given or set(value) != {"fault"}:
        raise UnusableInput(f"{path}: expected [[fault]] tables and nothing else")
    faults = tuple(_fault(table, f"{path}: fault {number}", path.stem) for number, table in enumerate(given, 1))
    require_distinct(faults)
    return faults


def require_distinct(faults: Sequence[Fault]) -> None:
    """Raise :class:`UnusableInput` if two faults have the same name."""
    seen: set[str] = set()
    for fault in faults:
        if fault.name in seen:
            raise UnusableInput(f"two faults are named {fault.name!r}; give one of them another name")
        seen.add(fault.name)


def edited(package: Path, fault: Fault) -> dict[str, str]:
    """Return the changed files of a package by their paths in it.

    Raises :class:`UnusableInput` if a change does not apply.
    """
    texts: dict[str, str] = {}
    for edit in fault.edits:
        path = package / edit.file
        try:
            texts[edit.file] = edit.change(path.read_text("utf-8") if path.is_file() else "")
        except UnusableInput as error:
            raise UnusableInput(f"fault {fault.name!r} does not apply: {error}") from None
    return texts


def apply(package: Path, fault: Fault) -> None:
    """Edit a copy of the package; raise :class:`UnusableInput` for the installed package itself."""
    if package.resolve() == PACKAGE:
        raise UnusableInput(f"{package}: is the lab itself; faults are applied to copies only")
    for name, text in edited(package, fault).items():
        write_atomically(package / name, text.encode())
        # Python matches compiled code by the size and mtime of its source, and an edit may change neither.
        for compiled in (package / name).parent.glob(f"__pycache__/{Path(name).stem}.*.pyc"):
            compiled.unlink()


def change(within: str, what: str, to: str) -> Edit:
    """Return the edit that the keys ``in``, ``change`` and ``to`` describe; raise :class:`UnusableInput` for others."""
    target = _TARGET.fullmatch(within)
    if target is None:
        raise UnusableInput(f"in: expected lab.MODULE or lab.MODULE:FUNCTION, found {within!r}")
    try:
        expected = what if what in ("start", "return") else _unformatted(what)
        ast.parse(to, mode="exec" if what == "start" else "eval")
    except SyntaxError as error:
        raise UnusableInput(f"change, to: this is not Python: {error.text}") from None
    return Edit(target[1][1:].replace(".", "/") + ".py", partial(_changed, within, target[2], expected, to))


def _changed(within: str, name: str | None, expected: str, to: str, text: str) -> str:
    """Return the source of a module after a change, without comments."""
    if not text:
        raise UnusableInput(f"there is no module {within.partition(':')[0]}")
    tree = ast.parse(text)
    scope: ast.Module | _Definition = tree
    for part in name.split(".") if name else ():
        definition = next(
            (node for node in ast.walk(scope) if isinstance(node, _Definition) and node.name == part), None
        )
        if definition is None:
            raise UnusableInput(f"there is no {within}")
        scope = definition
    if expected == "start":
        scope.body[:0] = ast.parse(to).body
    else:
        swap = _Swap(expected, lambda old: _Swap("it", lambda _: old).visit(ast.parse(to, mode="eval").body))
        swap.generic_visit(scope)
        is_single = expected == "return" or expected.endswith(" = 0")
        if not swap.count or (is_single and swap.count > 1):
            number = "one is" if is_single else "one or more are"
            raise UnusableInput(f"{within} has {expected.removesuffix(' 0')!r} {swap.count} times; {number} expected")
    return ast.unparse(ast.fix_missing_locations(tree))


class _Swap(ast.NodeTransformer):
    """Replace code outside nested definitions, and count the replacements."""

    def __init__(self, expected: str, new: Callable[[ast.expr], ast.expr]) -> None:
        self.count, self._expected, self._new = 0, expected, new

    def visit(self, node: ast.AST) -> Any:
        """Return the replacement of a node."""
        if isinstance(node, _Definition):
            return node
        if isinstance(node, ast.Return | ast.Assign | ast.AnnAssign) and node.value and _form(node) == self._expected:
            self.count += 1
            node.value = self._new(node.value)
            return node
        if isinstance(node, ast.expr) and ast.unparse(node) == self._expected:
            self.count += 1
            return self._new(node)
        return self.generic_visit(node)


def _form(node: ast.Return | ast.Assign | ast.AnnAssign) -> str:
    """Return a statement in the form in which a fault names it."""
    if isinstance(node, ast.Return):
        return "return"
    targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
    return ast.unparse(ast.Assign(targets, ast.Constant(0), lineno=0))


def _unformatted(what: str) -> str:
    return ast.unparse(ast.parse(f"{what} 0") if what.endswith("=") else ast.parse(what, mode="eval"))


def _fault(value: Any, where: str, group: str) -> Fault:
    with_keys(value, _FAULT, where, "a table")
    name, about, within, what, to = (text_in(value, key, where) for key in _FAULT[:5])
    why = value.get("equivalent")
    expect(why, str | None, f"{where}: equivalent", "text")
    try:
        edit = change(within, what, to)
    except UnusableInput as error:
        raise UnusableInput(f"{where}: {error}") from None
    return Fault(name, about, (edit,), group, why)
