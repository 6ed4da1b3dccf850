"""The public names of ``import lab``."""

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


def test_public_names_resolve_and_are_documented() -> None:
    found = {name: getattr(lab, name) for name in lab.__all__}
    assert len(found) == len(lab.__all__) > 1
    assert [name for name, value in found.items() if name != "__version__" and not value.__doc__] == []


PLAIN = ("Scored", "explain", "judge", "open_run", "score")
OTHERS = {"Options": "lab.runs.request", "read_golden": "lab.golden.files"}
# There is a package of that name, too.
PACKAGES = ("compare", "replay", "report")


@pytest.mark.parametrize(("name", "home"), [*((name, "lab.api") for name in PLAIN), *OTHERS.items()])
def test_public_names_are_the_objects_of_their_modules(name: str, home: str) -> None:
    assert (getattr(lab, name).__module__, getattr(lab, name).__name__) == (home, name)
    assert name in lab.__all__


def test_no_other_public_names_exist() -> None:
    assert {*lab.__all__} == {*PLAIN, *PACKAGES, *OTHERS, "recordings", "__version__"}


@pytest.mark.parametrize("name", PACKAGES)
def test_package_that_hides_its_function_is_callable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = import_module(f"lab.{name}")
    assert getattr(lab, name) is package
    assert f"lab.api.{name}" in (package.__doc__ or "")
    monkeypatch.setattr(f"lab.api.{name}", lambda *args, **options: (name, args, options))
    assert getattr(lab, name)("run", baseline="a") == (name, ("run",), {"baseline": "a"})


@pytest.mark.process
@pytest.mark.parametrize("name", PACKAGES)
def test_function_works_before_its_package_is_imported(name: str) -> None:
    code = f"import sys, lab; print(lab.{name}.__module__, 'lab.{name}' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "lab.api False"


def test_version_matches_project_and_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert lab.__version__ == project["version"] == newest[1]


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'lab' has no attribute 'nothing'"):
        _ = lab.nothing


@pytest.mark.process
def test_name_is_imported_on_first_use() -> None:
    code = (
        "import sys, lab; before = [name for name in sys.modules if name.startswith('lab.')]; lab.open_run; "
        "print(before, 'lab.api' in sys.modules, 'lab.replay' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True False"
