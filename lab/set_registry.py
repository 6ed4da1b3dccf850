"""Where sets lie: those the project ships, and which golden set belongs to which recordings."""

from __future__ import annotations

from pathlib import Path

from lab.errors import CannotMeasure, UnusableInput

SHIPPED = "shipped:"
# What `lab demo` replays of shipped:operators: the 24 conversations of version 0.1. The list is fixed, so that the time
# and the figures of the demo stay the same when conversations are added.
DEMO = (
    *("choir-tour", "data-steward", "farm-irrigation", "ferry-timetable", "game-patch", "harbor-release"),
    *("juniper-clinic", "lantern-shop", "mountain-rescue-kit", "museum-move", "night-bakery", "night-market"),
    *("observatory-queue", "orchid-lab", "port-broker", "print-shop", "radio-drama", "river-school"),
    *("solar-coop", "tea-mountain", "trail-marathon", "translator-desk", "two-desks", "ward-roster"),
)


def recordings_at(text: str) -> Path:
    """Where recordings lie that are named by a path, or as a shipped set: ``shipped:NAME``."""
    return _at(text, "datasets")


def golden_at(text: str) -> Path:
    """Where a golden set lies that is named by a path, or as that of a shipped set: ``shipped:NAME``."""
    return _at(text, "golden")


def _at(text: str, kind: str) -> Path:
    if not text.startswith(SHIPPED):
        return Path(text)
    name, known = text.removeprefix(SHIPPED), shipped_sets()
    if name not in known:
        raise UnusableInput(f"{text}: no such set is shipped; there are: {', '.join(SHIPPED + one for one in known)}")
    return shipped(kind, name)


def shipped_sets() -> list[str]:
    """The names of the shipped sets of recordings."""
    return sorted({path.name for root in _roots() for path in (root / "datasets").glob("*") if path.is_dir()})


def shipped(kind: str, name: str) -> Path:
    """The folder of a shipped set; ``kind`` is ``datasets`` or ``golden``.

    In the package once installed, in the source tree before that.
    """
    for root in _roots():
        folder = root / kind / name
        if folder.is_dir():
            return folder
    raise CannotMeasure(f"the shipped set {kind}/{name} is missing; install the package again")


def _roots() -> tuple[Path, Path]:
    package = Path(__file__).resolve().parent
    return package / "shipped", package.parent


def golden_beside(path: Path) -> Path | None:
    """The golden set that belongs to recordings by its place: ``…/golden/NAME`` beside ``…/datasets/NAME``, or none."""
    folder = (path if path.is_dir() else path.parent).resolve()
    found = folder.parent.parent / "golden" / folder.name
    return found if folder.parent.name == "datasets" and found.is_dir() else None


def datasets_beside(path: Path) -> Path:
    """The recordings that a golden set judges by its place: ``…/datasets/NAME`` beside ``…/golden/NAME``."""
    if not path.exists():
        raise UnusableInput(f"{path}: no such file or folder")
    folder = (path if path.is_dir() else path.parent).resolve()
    found = folder.parent.parent / "datasets" / folder.name
    if folder.parent.name != "golden" or not found.is_dir():
        raise UnusableInput(f"{path}: no recordings found beside it; name them with --recordings, and their --format")
    return found
