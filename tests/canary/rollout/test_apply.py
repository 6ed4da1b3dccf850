"""The patch that follows from a verdict: of a judged run, and of a canary."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import json5
import pytest

from lab.base.files import dump_json
from lab.canary.audit.audit import audit
from lab.gate.outputs import read_verdict, write_verdict
from lab.gate.policy import read_policy
from lab.gate.rejudge import rejudge
from lab.gate.verdict import judge
from tests.canary.conftest import receipt_of
from tests.canary.rollout.conftest import CONFIG, ENTRY
from tests.commands import run_here

pytestmark = pytest.mark.slow
ENGINE = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'")
POLICY = """name = "small"
about = "No memory of the future."
minimum_conversations = 2
ROLLBACK
[comparison]
baseline = "BASE"
candidate = "CANDIDATE"

[[limit]]
measure = "RepeatRate"
at_most = MOST
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("apply")
    (folder / "wide.json").write_text(
        '{"lab": {"arm": "engine"}, "autoRecall": {"maxItems": 3, "quotas": {"mustMax": 1}}}', "utf-8"
    )
    arms = ("tier_first_v1", "tier_quota_v1", "hybrid", "engine", f"wide={folder / 'wide.json'}")
    done = run_here(
        *("replay", "shipped:operators", "--conversation", "choir-tour", "--embedder", "hashing", "--haystack", "0"),
        *(word for arm in arms for word in ("--arm", arm)),
        *("--profile", "upstream", "--scope", "recorded", "--out", folder / "run"),
    )
    assert done.returncode == 0, done.stderr
    return folder / "run"


def judged(run: Path, folder: Path, candidate: str, base: str = "tier_first_v1", most: float = 1.0) -> Path:
    """Judge a run by a policy that passes unless ``most`` is low; return the folder of the verdict."""
    text = POLICY.replace("CANDIDATE", candidate).replace("BASE", base).replace("MOST", f"{most}")
    policy = folder / "policy.toml"
    policy.write_text(text.replace("ROLLBACK", ""), "utf-8")
    done = run_here("gate", run, "--policy", policy, "--out", folder)
    assert done.returncode in (0, 1), done.stderr
    return folder


def apply(*words: str | Path, code: int = 0) -> dict[str, Any]:
    done = run_here("canary", "apply", *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def recall(patch: dict[str, Any]) -> dict[str, Any]:
    return dict(patch["plugins"]["entries"][ENTRY]["config"]["autoRecall"])


def test_pass_of_a_policy_sets_its_one_line(run: Path, tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(ENGINE, "utf-8")
    said = apply(judged(run, tmp_path, "tier_quota_v1"), "--config", config)
    assert recall(said["patch"]) == {"selectionMode": "tier_quota_v1"}
    path = f"plugins.entries.{ENTRY}.config.autoRecall.selectionMode"
    assert said["lines"] == [path, '   11 + "selectionMode": "tier_quota_v1"']
    assert (said["already"], said["refused"]) == ([], [])
    # Nothing is written.
    assert config.read_text("utf-8") == ENGINE


def test_pass_of_a_configuration_sets_what_differs(run: Path, tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(ENGINE.replace("maxItems: 4.0", "maxItems: 3"), "utf-8")
    said = apply(judged(run, tmp_path, "wide", "engine"), "--config", config)
    assert recall(said["patch"]) == {"maxItems": 3, "quotas": {"mustMax": 1}}
    assert said["already"] == [f"plugins.entries.{ENTRY}.config.autoRecall.maxItems"]
    assert said["lines"][1].endswith('"quotas": {"mustMax": 1}') or '"mustMax": 1' in said["lines"][1]


def test_text_has_the_patch_as_json_and_no_key(run: Path, tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(ENGINE, "utf-8")
    done = run_here("canary", "apply", judged(run, tmp_path, "tier_quota_v1"), "--config", config)
    text = done.stdout
    patch = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert recall(patch) == {"selectionMode": "tier_quota_v1"}
    assert "s3cret" not in text
    assert "sk-key" not in text


def test_fail_of_a_run_sets_nothing(run: Path, tmp_path: Path) -> None:
    said = apply(judged(run, tmp_path, "tier_quota_v1", most=0.0), code=1)
    assert said["patch"] == {}
    assert said["why"] == "the verdict is fail, so tier_first_v1 stays"


def test_arm_that_is_no_configuration_is_refused(run: Path, tmp_path: Path) -> None:
    done = run_here("canary", "apply", judged(run, tmp_path, "hybrid"))
    assert done.returncode == 2
    assert f"arm hybrid is hybrid, which is no configuration of {ENTRY}" in done.stderr


def test_verdict_of_a_changed_policy_is_refused(run: Path, tmp_path: Path) -> None:
    folder = judged(run, tmp_path, "tier_quota_v1")
    policy = tmp_path / "policy.toml"
    policy.write_text(policy.read_text("utf-8").replace("at_most = 1.0", "at_most = 0.9"), "utf-8")
    done = run_here("canary", "apply", folder)
    assert done.returncode == 4
    assert re.search(
        r"is stale: policy policy\.toml \(sha256 \w{8}, not a shipped policy\) has changed since", done.stderr
    )
    # The gate's own policy would not know these arms.
    assert done.stderr.endswith(f"run lab gate again with --policy {policy}\n")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("verdict.json", "{}", "not a verdict of `lab gate`"),
        ("verdict.json", "[", "not JSON"),
        ("other.json", "{}", "has no verdict.json; lab gate writes one"),
    ],
)
def test_no_verdict_is_refused_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    done = run_here("canary", "apply", tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


AUTO_RECALL = ("plugins", "entries", ENTRY, "config", "autoRecall")
LIMIT = {"pass": (9, 1), "fail": (0, 1), "inconclusive": (9, 99)}


def canary(folder: Path, status: str, before: str | None, after: str = ENTRY) -> Path:
    """Write what a canary leaves: its receipt, its audit, and a verdict on it."""
    path = ["plugins", "slots", "memory"]
    receipt = {"schema": "lab.canary.v1", "path": path, "before": before, "after": after}
    (folder / "canary.json").write_text(json.dumps(receipt), "utf-8")
    lines = [
        f"openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt_of([f'm{number}', 'n1']))}" for number in range(9)
    ]
    (folder / "gateway.log").write_text("\n".join(lines) + "\n", "utf-8")
    found = audit([str(folder / "gateway.log")])
    (folder / "audit.json").write_bytes(dump_json(found))
    most, receipts = LIMIT[status]
    rule = f'[[receipts]]\nmeasure = "limits.items_most"\nat_most = {most}\n'
    policy = folder / "small.toml"
    policy.write_text(f'name = "small"\nabout = "x"\nminimum_receipts = {receipts}\n{rule}', "utf-8")
    verdict = judge(read_policy(str(policy)), audit=found, audit_file=folder / "audit.json")
    assert verdict.status == status
    write_verdict(verdict, folder)
    return folder


@pytest.mark.parametrize("status", LIMIT)
def test_verdict_on_receipts_of_which_nothing_was_switched_sets_nothing(tmp_path: Path, status: str) -> None:
    """As that of a host before any switch: no canary left a receipt, and the verdict has no rollback."""
    (canary(tmp_path, status, "memory-lancedb") / "canary.json").unlink()
    said = apply(tmp_path, code={"pass": 0, "fail": 1, "inconclusive": 3}[status])
    assert said["patch"] == {}
    assert said["why"] == f"the verdict is {status}, and nothing says what was switched, so nothing is set"


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    verdict = json.loads((folder / "verdict.json").read_bytes())
    change(verdict)
    (folder / "verdict.json").write_text(json.dumps(verdict), "utf-8")


def altered(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")


STALE: dict[str, tuple[Callable[[Path], object], str]] = {
    "status": (lambda folder: edited(folder, lambda one: one.update(status="pass")), "its status pass does not follow"),
    "status and rule": (
        lambda folder: edited(folder, lambda one: (one.update(status="pass"), one["lines"][0].update(status="pass"))),
        "its rule receipts limits.items_most has status pass, and its inputs give fail",
    ),
    "audit": (
        lambda folder: altered(folder / "audit.json", '"items_most": 2', '"items_most": 0'),
        "its audit has changed since",
    ),
    "no audit": (lambda folder: (folder / "audit.json").unlink(), "audit.json is not there"),
    "policy": (
        lambda folder: altered(folder / "small.toml", "at_most = 0", "at_most = 7"),
        "has changed since",
    ),
    "no policy": (lambda folder: (folder / "small.toml").unlink(), "small.toml is not there"),
    "no digests": (lambda folder: edited(folder, lambda one: one.update(evidence=None)), "does not record its policy"),
}


@pytest.mark.parametrize("attack", STALE)
def test_nothing_follows_from_a_canary_whose_verdict_was_edited(tmp_path: Path, attack: str) -> None:
    change, message = STALE[attack]
    change(canary(tmp_path, "fail", "memory-lancedb"))
    done = run_here("canary", "apply", tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "verdict.json: is stale: " in done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "after"),
    [(["gateway", "auth", "mode"], "none"), (["plugins", "slots"], ENTRY), ([*AUTO_RECALL, "selectionMode"], "mine")],
)
def test_switch_that_no_canary_makes_is_refused(tmp_path: Path, path: list[str], after: str) -> None:
    folder = canary(tmp_path, "pass", "memory-lancedb")
    receipt = json.loads((folder / "canary.json").read_bytes())
    (folder / "canary.json").write_text(json.dumps(receipt | {"path": path, "after": after}), "utf-8")
    done = run_here("canary", "apply", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "names a switch that lab canary run does not make" in done.stderr


def test_canary_that_passed_sets_what_it_switched(tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(CONFIG, "utf-8")
    said = apply(canary(tmp_path, "pass", "memory-lancedb"), "--config", config)
    assert said["patch"] == {"plugins": {"slots": {"memory": ENTRY}}}
    assert said["lines"][1:] == ["    6 - memory: 'memory-lancedb'", f"    6 + memory: '{ENTRY}'"]


@pytest.mark.parametrize(
    ("status", "code", "text", "before", "expected"),
    [
        # The canary rolled back already, so there is nothing to set back.
        ("fail", 1, CONFIG, "memory-lancedb", {}),
        ("fail", 1, ENGINE, "memory-lancedb", {"plugins": {"slots": {"memory": "memory-lancedb"}}}),
        ("inconclusive", 3, ENGINE, None, {"plugins": {"slots": {"memory": "memory-core"}}}),
    ],
)
def test_canary_that_did_not_pass_sets_back_what_is_still_switched(
    tmp_path: Path, status: str, code: int, text: str, before: str | None, expected: dict[str, Any]
) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(text, "utf-8")
    folder = canary(tmp_path, status, before)
    assert apply(folder, "--config", config, code=code)["patch"] == expected
    said = run_here("canary", "apply", folder, "--config", config).stdout
    assert ("keep the window open, or end it" in " ".join(said.split())) is (status == "inconclusive")


@pytest.mark.parametrize(("status", "code"), [("fail", 1), ("inconclusive", 3)])
def test_canary_that_was_rolled_back_gives_no_order(tmp_path: Path, status: str, code: int) -> None:
    folder = canary(tmp_path, status, "memory-lancedb")
    altered(folder / "canary.json", '"before"', '"rolled_back": true, "before"')
    said = apply(folder, code=code)
    assert said["patch"] == {}
    assert said["why"] == f"the verdict is {status}; rolled back: plugins.slots.memory is memory-lancedb again"
    # What was switched again since is set back all the same.
    config = tmp_path / "openclaw.json"
    config.write_text(ENGINE, "utf-8")
    assert apply(folder, "--config", config, code=code)["patch"] == {"plugins": {"slots": {"memory": "memory-lancedb"}}}


def test_key_that_the_plugin_lacks_is_named(tmp_path: Path) -> None:
    from lab.canary.rollout.run import Patch, applied

    config = tmp_path / "openclaw.json"
    config.write_text(ENGINE, "utf-8")
    path = ("plugins", "entries", ENTRY, "config", "autoRecall", "repeatPenalty")
    found = applied(config, Patch({path: 0.35}, "test"))
    assert len(found.refused) == 1
    assert "the host refuses this" in found.refused[0]
    assert json5.loads(ENGINE) == json5.loads(config.read_text("utf-8"))


def test_file_that_needs_no_change_is_not_checked(tmp_path: Path) -> None:
    from lab.canary.rollout.run import Patch, applied

    config = tmp_path / "openclaw.json"
    config.write_text(ENGINE.replace("maxItems: 4.0", "repeatPenalty: 0.35"), "utf-8")
    name = f"plugins.entries.{ENTRY}.config.autoRecall.repeatPenalty"
    found = applied(config, Patch({("plugins", "entries", ENTRY, "config", "autoRecall", "repeatPenalty"): 0.35}, ""))
    assert (found.lines, found.already, found.refused) == ((), (name,), ())


def test_key_that_the_candidate_lacks_is_not_set(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.canary.rollout import run as module

    configs = {"engine": {"autoRecall": {"maxItems": 4}}, "wide": {"autoRecall": {"maxItems": 3, "of-later": True}}}
    monkeypatch.setattr(module, "_config_of", lambda arm: configs[arm.name])
    said = apply(judged(run, tmp_path, "engine", "wide"))
    assert recall(said["patch"]) == {"maxItems": 4}


def test_run_beside_the_verdict_comes_before_the_one_that_it_names(run: Path, tmp_path: Path) -> None:
    """A run that was copied with its verdict is judged by its own files, also if another is where it was."""
    verdict = read_verdict(judged(run, tmp_path, "tier_quota_v1") / "verdict.json")
    assert rejudge(verdict, tmp_path).run == verdict.run
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert rejudge(verdict, copy).run == str(copy)
