"""What a host knows of probes, which look like turns to a stateless one, and what it could see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.golden.model import Judgement, Probe
from lab.runs.notes import sight_notes
from lab.systems.contract import ArmInfo
from lab.systems.external.arm import ExternalSystem, could_see
from lab.systems.external.protocol import REQUESTS, checked, identity_in
from lab.systems.external.session import Request
from lab.systems.external.settings import HostSettings, read_settings
from lab.systems.kit import Kit
from tests.playing import played
from tests.systems.external.hosting import talk

ABOUT = {"protocol": 1, "name": "listener", "version": "1", "writes": False, "cutoff": 6, "probes": "same"}


@dataclass(frozen=True)
class Listener:
    """An arm whose host keeps what it is asked, and answers nothing."""

    folder: Path
    about: Mapping[str, Any]
    name: str = "listener"
    foreign: bool = True
    asked: list[Mapping[str, Any]] = field(default_factory=list, compare=False)

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "external", 6, 6)

    def open(self, kit: Kit) -> ExternalSystem:
        hello = checked(dict(self.about), "hello")
        channel = SimpleNamespace(errors=str)

        def ask(request: Request) -> tuple[dict[str, Any], int]:
            if request.op == "recall":
                self.asked.append(request.fields)
            return (hello if request.op == "hello" else checked({}, request.op)), 1

        session: Any = SimpleNamespace(ask=ask, close=lambda **_: None, channel=channel)
        arm: Any = SimpleNamespace(
            name=self.name,
            identity=identity_in(hello),
            session=lambda _: session,
            settings=HostSettings(("python",)),
            max_items=6,
            depth=6,
            folder=self.folder,
            is_recorded=False,
        )
        return ExternalSystem(arm, kit)


def asked_of(folder: Path, *probes: Probe, recall_turns: str = "all", **about: Any) -> list[Mapping[str, Any]]:
    arm = Listener(folder, {**ABOUT, **about})
    answers = played(talk(), [arm], probes, recall_turns=recall_turns)
    assert [answer.failure for answer in answers] == [None] * len(answers)
    return arm.asked


OUTSIDE = tuple(Probe(f"c/question-{at}", "c", None, f"what {at}?", (Judgement("c/s/0#0"),)) for at in (1, 2))
JUDGED = Probe("c/s/2", "c", "c/s/2", None, (Judgement("c/s/0#0"),))


def test_stateless_host_is_asked_probes_like_turns(tmp_path: Path) -> None:
    asked = asked_of(tmp_path, JUDGED, *OUTSIDE, stateful=False)
    assert [request["turn"] for request in asked] == [f"c/s/{at}" for at in range(6)]
    assert {tuple(request) for request in asked} == {tuple(REQUESTS["recall"])}
    for name, value in (("probe", False), ("session", "s"), ("scope", None), ("scoping", "open")):
        assert {request[name] for request in asked} == {value}, name


def test_stateless_host_does_not_learn_which_turns_are_judged(tmp_path: Path) -> None:
    """Neither a judged turn with a recall nor one without differs from another turn, and order tells nothing."""
    plain, judged = (
        asked_of(tmp_path / name, *probes, stateful=False) for name, probes in (("a", ()), ("b", (JUDGED,)))
    )
    assert plain == judged
    (alone,) = asked_of(tmp_path / "c", JUDGED, recall_turns="none", stateful=False)
    assert alone == plain[2]


@pytest.mark.parametrize("about", [{}, {"probes": "fresh"}])
def test_stateful_host_is_told_of_probes_so_that_they_leave_no_trace(tmp_path: Path, about: dict[str, Any]) -> None:
    asked = asked_of(tmp_path, *OUTSIDE, **about)
    assert [(request["turn"], request["session"]) for request in asked if request["probe"]] == [
        ("c/question-1", None),
        ("c/question-2", None),
    ]


def test_manifest_says_what_a_host_could_see() -> None:
    quiet, informed = ({"stateful": stateful} for stateful in (False, True))
    process = could_see(HostSettings(("python",), env=("MY_KEY",)), quiet)
    assert process["files"] == "all files of its user, the golden set too if it finds it"
    assert process["working_directory"] == "the folder where the lab was started"
    assert process["probes"] == "asked like turns"
    names = process["environment"]
    assert isinstance(names, list)
    assert {"MY_KEY", "PATH"} <= set(names)
    assert could_see(HostSettings(url="http://127.0.0.1:1"), informed) == {
        "files": "the files of its own machine",
        "probes": "informed which recalls are probes",
    }
    # A manifest's configuration makes the same settings again.
    assert read_settings({"exec": ["python"], "could_see": process}, "x") == HostSettings(("python",))


def test_report_says_what_a_host_could_see() -> None:
    seen = {"could_see": could_see(HostSettings(("python",)), {"stateful": True})}
    arms = (ArmInfo("mine", "external", 6, 6, seen), ArmInfo("hybrid", "hybrid", 6, 6))
    resolved: Any = SimpleNamespace(arms=arms)
    (said,) = sight_notes(resolved)
    assert said == (
        "arm mine is a program of its own: it could read all files of its user, the golden set too if it finds it, "
        "and was informed which recalls are probes"
    )
