"""What ``import lab`` offers."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import lab

ROOT = Path(__file__).resolve().parents[1]


def test_every_public_name_resolves_to_a_documented_thing() -> None:
    found = {name: getattr(lab, name) for name in lab.__all__}
    assert len(found) == len(lab.__all__) > 1
    assert [name for name, value in found.items() if name != "__version__" and not value.__doc__] == []


PLAIN = ("Options", "Scored", "explain", "judge", "open_run", "score")
# There is a package of that name, too.
PACKAGES = ("compare", "replay", "report")


@pytest.mark.parametrize(("name", "home"), [*((name, "lab.api") for name in PLAIN), ("read_golden", "lab.golden.read")])
def test_a_public_name_is_the_thing_of_that_name_in_its_room(name: str, home: str) -> None:
    assert (getattr(lab, name).__module__, getattr(lab, name).__name__) == (home, name)
    assert name in lab.__all__


def test_there_are_no_other_public_names() -> None:
    assert {*lab.__all__} == {*PLAIN, *PACKAGES, "read_golden", "recordings", "__version__"}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_hides_the_function_of_its_name_is_called_like_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = import_module(f"lab.{name}")
    assert getattr(lab, name) is package
    assert f"lab.api.{name}" in (package.__doc__ or "")
    monkeypatch.setattr(f"lab.api.{name}", lambda *args, **options: (name, args, options))
    assert getattr(lab, name)("run", baseline="a") == (name, ("run",), {"baseline": "a"})


@pytest.mark.process
@pytest.mark.parametrize("name", PACKAGES)
def test_the_function_is_there_before_its_package_is(name: str) -> None:
    code = f"import sys, lab; print(lab.{name}.__module__, 'lab.{name}' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "lab.api False"


def test_version_is_that_of_the_project_and_of_the_newest_changes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert lab.__version__ == project["version"] == newest[1]


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'lab' has no attribute 'nothing'"):
        _ = lab.nothing


@pytest.mark.process
def test_a_name_is_loaded_when_it_is_first_used_and_no_sooner() -> None:
    code = (
        "import sys, lab; before = [name for name in sys.modules if name.startswith('lab.')]; lab.open_run; "
        "print(before, [name for name in sys.modules if name.startswith('lab.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['lab.api']"
