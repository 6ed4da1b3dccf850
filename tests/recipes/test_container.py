"""The container: its Dockerfile, the boxes that build and run it, and, where podman runs, the image itself."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recipes.conftest import FILES, QUICK, Machine

DOCKERFILE = FILES / "container" / "Dockerfile"
# A base image of Debian, as `podman save` or `podman import` reads it, where no registry is reached.
BASE = "LAB_BASE_IMAGE"


def _instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, in order, each on one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], " ".join(line.split(None, 1)[1].split())) for line in text.splitlines() if line]


def test_image_is_unprivileged_and_pinned() -> None:
    steps = _instructions()
    names = [name for name, _ in steps]
    assert names[:2] == ["ARG", "FROM"]
    assert names.count("USER") == 1
    assert names.index("USER") > len(names) - names[::-1].index("FROM")
    assert re.fullmatch(r"BASE=debian:\d+\.\d+-slim", steps[0][1])
    assert dict(steps)["USER"] == "10001"
    assert "RUN" not in names[names.index("USER") :], "nothing is installed by the user that runs it"
    assert not {"ADD", "EXPOSE", "VOLUME"} & set(names)
    assert [text for name, text in steps if name == "ENTRYPOINT"] == ['["lab"]']
    installs = [text for name, text in steps if name == "RUN" and "pip install" in text]
    assert len(installs) == 1
    assert "--no-index" in installs[0]
    assert "HF_HUB_OFFLINE=1" in dict(steps)["ENV"]


@pytest.mark.process
def test_boxes_build_from_wheels_and_run_without_a_network(
    prepared: Callable[[], Machine], boxes: dict[str, str]
) -> None:
    machine = prepared()
    # podman stands in; wheels of everything are half a gigabyte, so only the lab's own is built here.
    machine.stand_in("podman", f'test "$1" = build && ls "$4/wheels" "$4/Dockerfile" >"{machine.home}/context"; exit 0')
    machine.ok(boxes["Build the image"].replace("/pip wheel ", "/pip wheel --no-deps "))
    assert "recall_lab-" in (machine.home / "context").read_text("utf-8")
    assert machine.called() == ["podman build --tag recall-lab:0.2.0 container"]
    machine.ok(boxes["Run the image"])
    nightly, message = machine.called()
    for word in ("--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"):
        assert word in nightly
    assert "--network=none" in message
    assert (machine.home / "lab" / "state" / "plan.toml").is_file()


@pytest.mark.process
def test_image_makes_a_night_without_a_network(prepared: Callable[[], Machine], boxes: dict[str, str]) -> None:
    base = os.environ.get(BASE)
    if base is None or shutil.which("podman") is None:
        pytest.skip(f"needs podman, and a base image as a tar file in {BASE}: `nox -s full`")
    machine = prepared()
    (Path(machine.path.partition(":")[0]) / "podman").unlink(missing_ok=True)
    kept = {name: value for name, value in os.environ.items() if name.startswith(("CONTAINERS_", "XDG_RUNTIME"))}
    machine.more |= kept
    (tag,) = re.findall(r"BASE=(\S+)", DOCKERFILE.read_text("utf-8"))
    machine.ok(f'podman import "{base}" "{tag}"')
    machine.ok(boxes["Build the image"])
    doctor = machine.run("podman run --rm --network=none recall-lab:0.2.0")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert "as published" in doctor.stdout
    inside = machine.ok(
        "podman run --rm --network=none --entrypoint sh recall-lab:0.2.0 -c "
        "'id -u; ls /sys/class/net; touch /opt/lab/x 2>&1 || true'"
    )
    assert inside.splitlines()[:2] == ["10001", "lo"]
    assert "cannot touch" in inside
    (machine.home / "lab" / "plan.toml").write_text(QUICK, "utf-8")
    said = machine.ok(boxes["Run the image"])
    assert said.startswith("? INCONCLUSIVE: nightly run of ")
    night = json.loads((machine.home / "lab" / "nightly.json").read_text("utf-8"))
    page = machine.home / "lab" / "state" / night["folder"] / "nightly.html"
    assert page.stat().st_uid == os.getuid()
