"""``lab init`` on the recorded home of a live host: before judging, after it, and on what is no home."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cli.golden_judge import next_command
from lab.gate.policy import read_policy
from lab.golden.pool import read_pool
from lab.nightly.plan import read_plan
from tests.host.hosts import LAST, add_session, make_host

Lab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def home(shared: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``openclaw``, the home of a host of release 2026.9.6, and a key in its configuration."""
    folder = tmp_path_factory.mktemp("host")
    host = folder / "openclaw"
    shutil.copytree(shared("live", "sessions-2026.9.6", "agents"), host / "agents")
    shutil.copytree(shared("live", "lancedb", "engine-2026.9.6"), host / "memory" / "lancedb")
    shutil.copy(shared("live", "logs", "gateway-2026.9.6.log"), host / "gateway.log")
    config = json.loads(shared("live", "config", "openclaw-2026.9.6.json").read_text("utf-8"))
    config["plugins"]["entries"]["openclaw-mem-engine"]["config"]["embedding"]["apiKey"] = "sk-wombat"
    (host / "openclaw.json").write_text(json.dumps(config), "utf-8")
    return folder


def test_young_store_says_why_nothing_can_be_judged(
    lab: Lab, shared: Callable[..., Path], home: Path, tmp_path: Path
) -> None:
    young = tmp_path / "young"
    shutil.copytree(home / "openclaw" / "agents", young / "agents")
    shutil.copytree(shared("live", "lancedb", "memory-lancedb-2026.3.13"), young / "memory" / "lancedb")
    shutil.copy(home / "openclaw" / "openclaw.json", young)
    done = lab("init", "young", "--embedder", "hashing", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("error:")) == (3, 0), done.stderr
    # The last words give the reason of the exit code, and no daily job.
    assert " ".join(done.stdout.split()).endswith(
        "The change is not judged: no user turn with 7 memories or more: nothing to pool: these sessions cannot be "
        "judged by memories yet; repeat this with --fresh later"
    )


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_init_leads_from_sessions_to_a_verdict(lab: Lab, home: Path) -> None:
    before = _files(home / "openclaw")
    words = ("init", "openclaw", "--embedder", "hashing", "--turns", "8", "--seed", "5", "--date", "2026-11-23")
    done = lab(*words, cwd=home)
    out = home / "reports" / "init"
    assert (done.returncode, done.stderr.count("error:")) == (3, 0), done.stderr
    assert done.stdout.startswith("openclaw       where ")
    assert {len(line) for line in done.stdout.split("\n\n")[0].splitlines()} <= set(range(81))
    assert "store          memory/lancedb                9 rows, version 11, 101 kB     yes" in done.stdout
    assert "── live receipts ──\nINCONCLUSIVE: stage-b" in done.stdout
    assert done.stdout.endswith("  lab golden judge reports/init/pool.jsonl --out reports/init/golden.jsonl\n")
    assert "tier_quota_v1 -> tier_first_v1" in done.stderr
    changed = out / "tier_first_v1.json"
    assert changed.stat().st_mode & 0o077 == 0
    assert json.loads(changed.read_text("utf-8"))["autoRecall"]["selectionMode"] == "tier_first_v1"
    assert (out / "run-2026-11-23" / "report.html").is_file()
    draw = json.loads((out / "draw.json").read_text("utf-8"))
    assert (draw["turns"], draw["eligible"], draw["seed"], draw["power"]["all"]["detectable"]) == (8, 10, 5, {})
    # Part of the result, because it says whether judging is worth the while.
    said = " ".join(done.stdout.split())
    assert "drawn to judge: 8 of 10 eligible user turns, from 3 of 4 conversations: one turn of each" in said
    assert "embedder: the configuration of arms engine, new names text-embedding-3-small" in done.stdout
    assert said.count("cannot show any difference") == 1
    # Nothing was switched, so nothing is to be kept open or rolled back.
    assert "Keep the window open" not in said
    assert "roll back" not in said.lower()
    assert "No turn is judged" in (out / "run-2026-11-23" / "report.md").read_text("utf-8")
    assert done.stderr.count("its own 3 memories are ignored") == 1
    audit = "reports/init/live/audit.json"
    command = done.stdout[done.stdout.index("  lab canary audit") :].partition("\n19 receipts")[0]
    assert "".join(command.split("\\\n")).split() == (
        f"lab canary audit openclaw/gateway.log --out {audit} && lab gate {audit} --policy stage-b".split()
    )

    # The host injects five memories, and the control as many.
    assert json.loads((out / "hybrid.json").read_text("utf-8"))["autoRecall"] == {"maxItems": 5}
    assert "Success@5" in (out / "nightly-policy.toml").read_text("utf-8")
    assert 'unmeasured = "accept"' in (out / "nightly-policy.toml").read_text("utf-8")
    assert read_plan(str(out / "plan.toml")).sets[0].asked.golden is None
    pool = read_pool(out / "pool.jsonl")
    pool = replace(pool, recordings=str(home / pool.recordings))
    again = f"lab init {home / 'openclaw'} --out {out}, with the options that you gave it before"
    assert next_command(pool, out / "golden.jsonl") == again
    assert next_command(pool, home / "golden.jsonl").startswith(f"lab golden lint {home / 'golden.jsonl'} ")
    done = lab("canary", "apply", out, cwd=home)
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {out}: has no verdict.json; name the folder of a verdict, such as {out / 'live'}\n",
    )

    # As a judge would who finds the first memory of each turn relevant.
    turns = [json.loads(line) for line in (out / "pool.jsonl").read_text("utf-8").splitlines()[1:]]
    probes = [
        {
            "kind": "probe", "turn": turn["turn"], "type": "decision", "reason": "judged",
            "relevant": [{"memory": turn["items"][0]["memory"], "grade": 2, "reason": "judged"}],
            "irrelevant": [item["memory"] for item in turn["items"][1:]],
        }
        for turn in turns
    ]  # fmt: skip
    (out / "golden.jsonl").write_text("".join(json.dumps(probe) + "\n" for probe in probes), "utf-8")
    done = lab(*words, "--json", cwd=home)
    found = json.loads(done.stdout)
    assert (done.returncode, found["status"], found["next"]) == (3, "inconclusive", None)
    change = found["verdicts"]["change"]
    assert (change["baseline"], change["candidate"], change["status"]) == ("engine", "new", "inconclusive")
    # Hits are counted among as many memories as the host injects.
    cutoffs = {line["measure"].partition("@")[2] for line in change["lines"]}
    # The nightly plan now guards what was judged.
    assert 'unmeasured = "accept"' not in (out / "nightly-policy.toml").read_text("utf-8")
    assert read_plan(str(out / "plan.toml")).sets[0].asked.golden == str((out / "golden.jsonl").resolve())
    assert cutoffs - {""} == {"5"}
    assert "error" not in {line["status"] for line in change["lines"]}
    run = Path(found["run"])
    done = lab("explain", run, json.loads((out / "golden.jsonl").read_text("utf-8").splitlines()[0])["turn"], cwd=home)
    assert (done.returncode, done.stderr) == (0, "")
    done = lab("canary", "apply", out, cwd=home)
    assert done.stderr.endswith(f"such as {out / run.name}\n")
    assert run.name.startswith("judged-2026-11-23-")
    assert [path.name for path in (out / "snapshots").iterdir()] == ["2026-11-23"]
    said = lab("nightly", "message", str(run), cwd=home).stdout
    first = " ".join(said.split("[trial: ")[0].split())
    label = f"policy.toml (sha256 {read_policy(str(out / 'policy.toml')).key[:8]}, not a shipped policy)"
    assert first == f"? INCONCLUSIVE: gate {label}, new against engine"

    assert _files(home / "openclaw") == before
    written = {name: data for name, data in _files(home).items() if not name.startswith("openclaw/")}
    assert [name for name, data in written.items() if b"sk-wombat" in data] == []


@pytest.mark.parametrize("option", ["--log", "--golden", "--new"])
def test_init_with_a_named_file_that_is_absent_is_unusable(
    lab: Lab, shared: Callable[..., Path], tmp_path: Path, option: str
) -> None:
    make_host(shared, tmp_path / "host")
    done = lab("init", "host", option, "nosuch.file", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nosuch.file: no such file" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_init_without_a_configuration_is_unusable(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = lab("init", "empty", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: empty: has no openclaw.json; name the configuration with --config, or by OPENCLAW_CONFIG_PATH\n"
    )


def test_init_of_a_home_whose_host_refuses_its_configuration_is_unusable(
    lab: Lab, shared: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "host").mkdir()
    shutil.copy(shared("live", "config", "refused-frac.json"), tmp_path / "host" / "openclaw.json")
    done = lab("init", "host", cwd=tmp_path)
    assert done.returncode == 2
    assert "lab config check host/openclaw.json lists all" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_init_draws_from_persons_and_says_what_was_left_out(
    lab: Lab, shared: Callable[..., Path], tmp_path: Path
) -> None:
    home = make_host(shared, tmp_path / "openclaw", sessions=1)
    job = "[cron:77-1 mill-watch] Please say how high the water stands at the mill"
    for number in range(3):
        add_session(home, f"job{number}-bbbb", LAST + 10_000 * (number + 1), [job])
    index = {"agent:main:main": {"sessionId": "old0-aaaa"}, "agent:main:cron:77-1": {"sessionId": "job2-bbbb"}}
    (home / "agents/main/sessions/sessions.json").write_text(json.dumps(index), "utf-8")
    words = ("init", "openclaw", "--embedder", "hashing", "--date", "2026-11-23")
    done = lab(*words, cwd=tmp_path)
    assert done.returncode in (1, 3), done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("conversations of cron (--origin cron)")]
    assert row.split()[-1] == "3"
    assert {len(line) for line in done.stdout.split("left out")[1].split("\n\n")[0].splitlines()} <= set(range(81))
    assert "left out: 3 conversations of cron; --origin all takes them" in done.stderr
    out = tmp_path / "reports/init"
    assert 'origin = ["person"]' in (out / "plan.toml").read_text("utf-8")
    assert "\nDaily: lab nightly run --plan reports/init/plan.toml\n" in done.stdout
    other = lab(*words, "--origin", "all", cwd=tmp_path)
    assert other.returncode == 2
    said = "reports/init: was made with --origin person; give it again, or choose another --out for --origin all"
    assert said in other.stderr
    other = lab("init", "openclaw", "--date", "2026-11-23", cwd=tmp_path)
    assert other.returncode == 2
    assert "reports/init: was made with --embedder hashing; give it again, or choose another --out" in other.stderr
    wrong = lab(*words, "--origin", "crom", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("error: --origin: unknown origin 'crom'; did you mean 'cron'? known: person, group,")
