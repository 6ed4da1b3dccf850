"""What a run was made on, and which of it a run must not be mixed of."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lab.runs.code import PASSED, code_key, sources_key
from lab.runs.manifest import Environment, Git

# Packages that stand between a recording and its receipts.
DECISIVE = (
    *("recall-lab", "torch", "sentence-transformers", "transformers", "lancedb"),
    *("numpy", "pyarrow", "orjson", "pyuca"),
)
# pandas is told in reports, and has no influence on receipts.
PACKAGES = (*DECISIVE[:7], "pandas", *DECISIVE[7:])
DIGITS = 12


def environment() -> Environment:
    """What a run depends on besides its arguments: versions, platform, code and the state of its source tree."""
    return Environment(
        platform.python_version(), platform.platform(), platform.machine(), packages(), code_key(), _git()
    )


def packages() -> dict[str, str | None]:
    """Versions of what is told of a run; None for what is not installed."""
    return {name: _version(name) for name in PACKAGES}


def made_on(*rooms: str) -> dict[str, object]:
    """Code and packages as arguments of what is resumed: those of a replay, and some packages of the lab besides."""
    known = packages()
    return {"code": sources_key(*PASSED, *rooms), "packages": {name: known[name] for name in DECISIVE}}


def decisive(before: Environment, after: Environment) -> list[str]:
    """What differs between two environments that one run must not be mixed of, each as ``numpy 2.3.1 -> 2.3.2``.

    The code that receipts come from, the packages of :data:`DECISIVE`, and the feature release of Python, which brings
    another Unicode. The platform, the machine, a bug-fix release of Python, other packages and what git says of the
    source tree are tolerated: :func:`tolerated` tells of them.
    """
    rows = [("code", before.code, after.code), ("Python", _feature(before.python), _feature(after.python))]
    rows += [(name, before.packages.get(name), after.packages.get(name)) for name in DECISIVE]
    return [_told(*row) for row in rows if row[1] != row[2]]


def tolerated(before: Environment, after: Environment) -> list[str]:
    """What differs besides: it should change no receipt, and on other hardware may change the last bits of a vector."""
    rows = [
        ("Python", before.python, after.python),
        ("platform", before.platform, after.platform),
        ("machine", before.machine, after.machine),
    ]
    same_feature = _feature(before.python) == _feature(after.python)
    return [_told(*row) for row in rows if row[1] != row[2] and (row[0] != "Python" or same_feature)]


def _feature(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _told(name: str, before: str | None, after: str | None) -> str:
    shown = (one[:DIGITS] if one and name == "code" else one for one in (before, after))
    return f"{name} " + " -> ".join(one or "none" for one in shown)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git() -> Git | None:
    """Commit and whether the tree is changed, of the source this runs from.

    None where it runs from an installed package.
    """
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
    """What a command prints. The words are ours; which git it is, is the user's choice."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - see above
    return done.stdout.strip()
