"""Systems of this project and of other packages by name, and one-line errors for those that cannot be loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.systems import registry
from lab.systems.contract import ArmInfo
from lab.systems.fixed import FixedArm
from lab.systems.registry import BUILT_IN, GROUP, info_of, make_arm, parse_arms, systems
from lab.systems.spec import ArmSpec

Publish = Callable[..., None]


def made(spec: ArmSpec) -> FixedArm:
    """The target of an entry point in these tests."""
    return FixedArm(spec.name)


class Package:
    """The part of a package's metadata that an entry point has."""

    def __init__(self, name: str) -> None:
        self.name, self.version = name, "1.2"


class Published(EntryPoint):
    """An entry point of a package."""

    dist: Any = None


def point(name: str, value: str, package: str | None = "other-memory") -> EntryPoint:
    entry_point = Published(name, value, GROUP)
    vars(entry_point)["dist"] = Package(package) if package else None
    return entry_point


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publish]:
    """Return a function that publishes entry points."""

    def to(*points: EntryPoint) -> None:
        monkeypatch.setattr(registry, "entry_points", lambda group: points if group == GROUP else ())
        registry._others.cache_clear()

    yield to
    registry._others.cache_clear()


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(UnusableInput) as caught:
        call()
    return str(caught.value)


def test_every_built_in_name_has_a_maker() -> None:
    # What these run is outside of the lab.
    hosted = {"external": "config: external needs a host", "plugin": "config: plugin needs a folder"}
    for name in BUILT_IN:
        if name in hosted:
            assert refused(lambda name=name: make_arm(ArmSpec(name, name))).startswith(hosted[name])
            continue
        arm = make_arm(ArmSpec(name, name))
        assert (arm.name, arm.describe().system) == (name, name)


@pytest.mark.parametrize("name", ["nobody", "", "Hybrid", "lab.systems.fixed"])
def test_require_system_of_an_unknown_name_lists_the_known_ones(publish: Publish, name: str) -> None:
    publish(point("other", f"{__name__}:made"))
    near = "did you mean 'hybrid'? " if name == "Hybrid" else ""
    known = f"unknown arm {name!r}; {near}known: {', '.join(BUILT_IN)}, other"
    assert refused(lambda: make_arm(ArmSpec("mine", name))) == known
    assert refused(lambda: parse_arms([name])) == known


def test_system_of_another_package_is_an_ordinary_arm(publish: Publish, tmp_path: Path) -> None:
    publish(point("other", f"{__name__}:made"))
    assert systems() == (*BUILT_IN, "other")
    config = tmp_path / "mine.json"
    config.write_text('{"lab": {"arm": "other"}}')
    plain, mine = parse_arms(["other", f"mine={config}"])
    assert [make_arm(one) for one in (plain, mine)] == [FixedArm("other"), FixedArm("mine")]
    assert re.fullmatch(r"other-memory 1\.2 [0-9a-f]{16}", info_of(plain, Theirs("other")).version)
    assert info_of(plain, FixedArm("other")).version == ""
    # The name is then taken.
    renamed = tmp_path / "renamed.json"
    renamed.write_text('{"lab": {"arm": "hybrid"}}')
    assert "arm 'other' would run 'hybrid'" in refused(lambda: parse_arms([f"other={renamed}"]))


@pytest.mark.parametrize("name", ["hybrid", "engine", "tier_first_v1"])
def test_package_with_a_name_of_the_lab_raises(publish: Publish, name: str) -> None:
    publish(point(name, f"{__name__}:made"))
    expected = f"system {name!r} of other-memory: the lab already has a system of that name"
    assert refused(systems) == expected
    assert refused(lambda: make_arm(ArmSpec("mine", "nobody"))) == expected


def test_two_packages_with_one_name_raise(publish: Publish) -> None:
    publish(point("other", f"{__name__}:made", "first"), point("other", "elsewhere:made", "second"))
    assert refused(systems) == "system 'other' of second: first already has a system of that name"
    # A package installed twice, as with an editable install, counts once.
    publish(point("other", f"{__name__}:made", "first"), point("other", f"{__name__}:made", "first"))
    assert systems() == (*BUILT_IN, "other")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_package_here.arms:make", "ModuleNotFoundError: No module named 'no_such_package_here'"),
        (f"{__name__}:nothing", "AttributeError: module"),
        ("broken_memory_package:make", "RuntimeError: no licence"),
    ],
)
def test_make_arm_of_a_module_that_fails_to_import_names_the_package(
    publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    (tmp_path / "broken_memory_package.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    publish(point("other", value))
    message = refused(lambda: make_arm(ArmSpec("mine", "other")))
    assert message.startswith(f"system 'other' of other-memory cannot be loaded: {why}")
    # It does not affect runs that do not use it.
    assert make_arm(ArmSpec("hybrid", "hybrid")).name == "hybrid"


def test_package_without_a_name_is_reported_by_its_entry_point(publish: Publish) -> None:
    publish(point("hybrid", "lonely:make", None))
    assert refused(systems).startswith("system 'hybrid' of lonely:make: ")
    publish(point("other", f"{__name__}:made", None))
    (spec,) = parse_arms(["other"])
    assert re.fullmatch(rf"{re.escape(__name__)} [0-9a-f]{{16}}", info_of(spec, Theirs("other")).version)


class Theirs(FixedArm):
    """An arm whose code is not the lab's."""


class Nonsense(Theirs):
    """An arm with an invalid description."""

    def __init__(self, description: object) -> None:
        super().__init__("other")
        object.__setattr__(self, "description", description)

    def describe(self) -> ArmInfo:
        description: object = self.description  # type: ignore[attr-defined]  # set around a frozen class
        if isinstance(description, BaseException):
            raise description
        return description  # type: ignore[return-value]  # a wrong answer is the point


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (None, "describes itself as None"),
        (SystemExit(0), "cannot describe itself: SystemExit: 0"),
        (RuntimeError("a\nb"), "cannot describe itself: RuntimeError"),
        (ArmInfo("another", "other", 6, 6), "not as an ArmInfo of that name"),
        (ArmInfo("other", "other", 0, 6), "cutoff 0, depth 6: expected whole numbers from 1"),
        (ArmInfo("other", "other", 6, -3), "cutoff 6, depth -3: expected whole numbers from 1"),
        (ArmInfo("other", "other", 6, 6, {"x": {1, 2}}), "its configuration is not valid JSON"),
        (ArmInfo("other", "other", 6, 6, {"x": float("nan")}), "its configuration is not valid JSON"),
    ],
)
def test_info_of_refuses_an_invalid_description(description: object, words: str) -> None:
    assert words in refused(lambda: info_of(ArmSpec("other", "other"), Nonsense(description)))


def test_a_hosts_file_configures_the_engine_under_a_name_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    section = {"autoRecall": {"maxItems": 2}}
    file.write_text(json.dumps({"plugins": {"entries": {"openclaw-mem-engine": {"config": section}}}}), "utf-8")
    (spec,) = parse_arms([f"mine={file}"])
    assert (spec.name, spec.system, spec.config) == ("mine", "engine", section)
    # A slip of the pen is no name of its own, and a bare section does not say what it configures.
    with pytest.raises(UnusableInput, match="names no system"):
        parse_arms([f"tier_quota={file}"])
    file.write_text(json.dumps(section), "utf-8")
    with pytest.raises(UnusableInput, match="names no system"):
        parse_arms([f"mine={file}"])
