"""Registry of shipped sets, and the convention that pairs ``datasets/NAME`` with ``golden/NAME``."""

from __future__ import annotations

from pathlib import Path

from lab.base.errors import CannotMeasure, UnusableInput

SHIPPED = "shipped:"
# What `lab demo` replays of shipped:operators: the 24 conversations of version 0.1. The list is fixed, so that the time
# and the figures of the demo stay the same when conversations are added.
DEMO = (
    *("choir-tour", "data-steward", "farm-irrigation", "ferry-timetable", "game-patch", "harbor-release"),
    *("juniper-clinic", "lantern-shop", "mountain-rescue-kit", "museum-move", "night-bakery", "night-market"),
    *("observatory-queue", "orchid-lab", "port-broker", "print-shop", "radio-drama", "river-school"),
    *("solar-coop", "tea-mountain", "trail-marathon", "translator-desk", "two-desks", "ward-roster"),
)

# How many memories of other conversations a replay of a shipped set adds to each conversation by default. Without them,
# six slots hold a large share of the memories in reach, so that even a random arm finds most.
HAYSTACKS = {"harms": 400, "operators": 400}


def recordings_at(text: str) -> Path:
    """Return the path of recordings given as a path or as a shipped set, ``shipped:NAME``."""
    return _at(text, "datasets")


def golden_at(text: str) -> Path:
    """Return the path of a golden set given as a path or as that of a shipped set, ``shipped:NAME``."""
    return _at(text, "golden")


def _at(text: str, kind: str) -> Path:
    if not text.startswith(SHIPPED):
        return Path(text)
    name, known = text.removeprefix(SHIPPED), shipped_sets()
    if name not in known:
        raise UnusableInput(
            f"{text}: no such shipped set; known: {', '.join(SHIPPED + set_name for set_name in known)}"
        )
    return shipped(kind, name)


def shipped_sets() -> list[str]:
    """Return the names of the shipped sets, sorted."""
    return sorted({path.name for root in _roots() for path in (root / "datasets").glob("*") if path.is_dir()})


def is_shipped(path: Path) -> bool:
    """Return whether a path is that of a shipped set of recordings."""
    return shipped_name(path) is not None


def shipped_name(path: Path) -> str | None:
    """Return the name of the shipped set whose recordings are at ``path``; None for any other path."""
    resolved = path.resolve()
    return next((name for name in shipped_sets() if resolved == shipped("datasets", name)), None)


def shown_path(path: str) -> str:
    """Return the path of recordings as a user gives it: ``shipped:NAME`` for a shipped set, which may be anywhere."""
    name = shipped_name(Path(path))
    return SHIPPED + name if name else path


def shipped(kind: str, name: str) -> Path:
    """Return the folder of a shipped set; ``kind`` is ``datasets`` or ``golden``.

    It is in the installed package, or in the source tree of a checkout.
    """
    for root in _roots():
        folder = root / kind / name
        if folder.is_dir():
            return folder
    raise CannotMeasure(f"the shipped set {kind}/{name} is missing; reinstall the package")


def _roots() -> tuple[Path, Path]:
    package = Path(__file__).resolve().parents[1]
    return package / "shipped", package.parent


def golden_beside(path: Path) -> Path | None:
    """Return the golden set ``…/golden/NAME`` of recordings at ``…/datasets/NAME``, or None if there is none."""
    folder = (path if path.is_dir() else path.parent).resolve()
    golden = folder.parent.parent / "golden" / folder.name
    return golden if folder.parent.name == "datasets" and golden.is_dir() else None


def datasets_beside(path: Path) -> Path:
    """Return the recordings ``…/datasets/NAME`` of a golden set at ``…/golden/NAME``."""
    if not path.exists():
        raise UnusableInput(f"{path}: no such file or folder")
    folder = (path if path.is_dir() else path.parent).resolve()
    recordings = folder.parent.parent / "datasets" / folder.name
    if folder.parent.name != "golden" or not recordings.is_dir():
        raise UnusableInput(f"{path}: no recordings found beside it; give them with --recordings and --format")
    return recordings
