"""The environment of a run, and which differences forbid continuing it elsewhere."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lab.base.code import code_key
from lab.runs.manifest import Environment, Git

# Packages that receipts depend on.
DECISIVE = (
    *("recall-lab", "torch", "sentence-transformers", "transformers", "lancedb"),
    *("numpy", "pyarrow", "orjson", "pyuca"),
)
# pandas is listed in reports, and has no influence on receipts.
PACKAGES = (*DECISIVE[:7], "pandas", *DECISIVE[7:])
DIGITS = 12


def environment(*roots: str) -> Environment:
    """Return what a run depends on besides its arguments: versions, platform, code, state of the source tree.

    The code is that of the modules ``roots`` and of all that they import.
    """
    return Environment(
        platform.python_version(), platform.platform(), platform.machine(), packages(), code_key(*roots), _git()
    )


def packages() -> dict[str, str | None]:
    """Return the versions of :data:`PACKAGES`; None for a package that is not installed."""
    return {name: _version(name) for name in PACKAGES}


def made_on(*roots: str) -> dict[str, object]:
    """Return code and packages as arguments of resumable work; the code as in :func:`environment`."""
    known = packages()
    return {"code": code_key(*roots), "packages": {name: known[name] for name in DECISIVE}}


def decisive(before: Environment, after: Environment) -> list[str]:
    """Return the differences of two environments that must not share a run, each as ``numpy 2.3.1 -> 2.3.2``.

    They are the code that receipts depend on, the packages of :data:`DECISIVE`, and the feature release of Python,
    which changes the version of Unicode. :func:`tolerated` returns the differences that a run may have.
    """
    rows = [("code", before.code, after.code), ("Python", _feature(before.python), _feature(after.python))]
    rows += [(name, before.packages.get(name), after.packages.get(name)) for name in DECISIVE]
    return [_difference(*row) for row in rows if row[1] != row[2]]


def tolerated(before: Environment, after: Environment) -> list[str]:
    """Return the differences that should not change receipts, though other hardware may change last bits of vectors."""
    rows = [
        ("Python", before.python, after.python),
        ("platform", before.platform, after.platform),
        ("machine", before.machine, after.machine),
    ]
    same_feature = _feature(before.python) == _feature(after.python)
    return [_difference(*row) for row in rows if row[1] != row[2] and (row[0] != "Python" or same_feature)]


def _feature(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _difference(name: str, before: str | None, after: str | None) -> str:
    shown = (value[:DIGITS] if value and name == "code" else value for value in (before, after))
    return f"{name} " + " -> ".join(value or "none" for value in shown)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git() -> Git | None:
    """Return the commit of this source tree and whether it is edited; None for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _run(root, "git", "rev-parse", "HEAD")
        changed = _run(root, "git", "status", "--porcelain")
    except (OSError, subprocess.SubprocessError):
        return None
    return Git(commit, bool(changed))


def _run(folder: Path, *command: str) -> str:
    """Return what a command prints. The arguments are constants; PATH decides which git runs."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - see above
    return done.stdout.strip()
