"""The runs of a whole night, to be approved at once, each under the name that its plan gave it."""

from __future__ import annotations

from pathlib import Path

from lab.errors import UnusableInput
from lab.files import read_json
from lab.runs.directory import RunDirectory, file_name, open_run
from lab.shape import field

BEGUN, NIGHT, KIND = "begun.json", "nightly.json", "lab.nightly.v1"


def is_nightly_run(folder: Path) -> bool:
    """Whether a folder is that of a nightly run, ended or not."""
    return (folder / BEGUN).is_file() and not (folder / "manifest.json").exists()


def nightly_run_of(run: Path) -> Path | None:
    """The nightly run that a run directory is a part of, or none."""
    # OUT/sets/<set>/run, and OUT/baselines/<object>.
    folder = run.absolute()
    for parent, above in (("sets", 3), ("baselines", 2)):
        own = folder.parents[min(above, len(folder.parents)) - 1]
        if folder.parents[min(above - 1, len(folder.parents)) - 1].name == parent and is_nightly_run(own):
            return own
    return None


def runs_of_nightly_run(folder: Path) -> dict[str, RunDirectory]:
    """The run of every set of a nightly run that has ended, by the name of its baseline.

    All or none: a set that was not replayed, or does not reproduce itself, is :class:`UnusableInput`.
    """
    path = folder / NIGHT
    if not path.is_file():
        raise UnusableInput(f"{folder}: this nightly run has not ended (no {NIGHT}); run it again to finish it")
    nightly_run = read_json(path)
    if not isinstance(nightly_run, dict) or nightly_run.get("schema") != KIND:
        raise UnusableInput(f"{path}: is no night of this version")
    runs: dict[str, RunDirectory] = {}
    for one in field(nightly_run, "sets", list, str(path)):
        name = field(one, "name", str, f"{path}: sets")
        where = f"{path}: set {name!r}"
        again = one.get("reproduces")
        if again is None or field(field(one, "reproduces", dict, where), "changed", int, f"{where}: reproduces"):
            what = "was not replayed" if again is None else "does not reproduce itself"
            raise UnusableInput(f"{folder}: set {name!r} {what}, so nothing was approved; {path.name} says why")
        # By its place and not by the path that was written: a nightly run may have been moved.
        run = open_run(folder / "sets" / file_name(name) / "run")
        run.require_done()
        runs[field(field(one, "verdict", dict, where), "baseline", str, f"{where}: verdict")] = run
    return runs
