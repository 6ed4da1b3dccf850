"""What ``import lab`` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lab


def test_every_public_name_resolves_to_a_documented_thing() -> None:
    found = {name: getattr(lab, name) for name in lab.__all__}
    assert len(found) == len(lab.__all__) > 1
    assert [name for name, value in found.items() if name != "__version__" and not value.__doc__] == []


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("Asked", "lab.replay.plan"),
        ("compare_arms", "lab.compare.paired"),
        ("open_run", "lab.notebook"),
        ("read_golden", "lab.golden.read"),
        ("read_library", "lab.recordings.readers"),
        ("run_replay", "lab.replay.run"),
        ("score_and_write", "lab.measures.score"),
        ("score_run", "lab.measures.score"),
    ],
)
def test_a_public_name_is_the_thing_of_that_name_in_its_room(name: str, home: str) -> None:
    assert (getattr(lab, name).__module__, getattr(lab, name).__name__) == (home, name)
    assert name in lab.__all__


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert lab.__version__ == version("recall-lab")


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'lab' has no attribute 'nothing'"):
        _ = lab.nothing


def test_a_name_is_loaded_when_it_is_first_used_and_no_sooner() -> None:
    code = (
        "import sys, lab; before = [name for name in sys.modules if name.startswith('lab.')]; lab.open_run; "
        "print(before, 'lab.runs.directory' in sys.modules, 'lab.report' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True False"
