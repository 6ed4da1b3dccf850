"""A home that grows over several nights: what was added is compared apart, and the frozen part stays comparable."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.host.hosts import ASKED, ASKED_LATER, LAST, add_session, contents, make_host

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
pytestmark = pytest.mark.process
# A set of the host's engine, and one of an arm without a configuration.
PLAIN = """
[[set]]
name = "plain"
snapshot = "{snapshot}"
sha256 = "{sha256}"
home = "{home}"
arms = ["hybrid"]
scope = "tags"
embedder = "hashing"
"""


class Nights:
    """The home, its plan, and its nightly runs."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder, self.home = lab, folder, folder / "home"
        self.plan = folder / "reports" / "init" / "plan.toml"

    def run(self, date: str) -> tuple[int, dict[str, Any], str]:
        """Return exit code, results by set, and what was printed on the page."""
        done = self.lab("nightly", "run", "--plan", self.plan, "--date", date, "--json", cwd=self.folder)
        assert done.returncode in (0, 1, 3), done.stderr
        found = json.loads(done.stdout)
        page = (self.folder / found["folder"] / "nightly.md").read_text("utf-8")
        return done.returncode, {one["name"]: one for one in found["sets"]}, page

    def edit(self, file: Path, before: str, after: str) -> None:
        text = file.read_text("utf-8")
        assert before in text
        file.write_text(text.replace(before, after), "utf-8")


def _lines(result: dict[str, Any], kind: str) -> dict[str, tuple[str, bool]]:
    lines = result["verdict"]["lines"]
    return {line["measure"]: (line["status"], line["critical"]) for line in lines if line["kind"] == kind}


def test_home_that_grows_over_nights(lab: Lab, shared: Callable[..., Path], tmp_path: Path) -> None:
    nights = Nights(lab, tmp_path)
    home = make_host(shared, nights.home)
    done = lab("init", "home", "--embedder", "hashing", "--date", "2026-11-20", "--json", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    snapshot = json.loads(done.stdout)["snapshot"]
    named = {"snapshot": "snapshots/2026-11-20", "sha256": snapshot["sha256"], "home": home}
    nights.plan.write_text(nights.plan.read_text("utf-8") + PLAIN.format(**named), "utf-8")

    # Night 1: nothing to compare with; approved.
    code, first, page = nights.run("2026-11-21")
    assert (code, first["host"]["apart"]["conversations"]) == (3, [])
    (folder,) = (tmp_path / "reports" / "nightly").iterdir()
    assert lab("nightly", "baseline", "approve", folder, "--date", "2026-11-21", cwd=tmp_path).returncode == 0

    # Night 2: two conversations were added, one went on, one was removed.
    for number in range(2):
        add_session(home, f"new{number}-aaaa", LAST + 60_000 + number, [*ASKED_LATER, f"And then? {number}"])
    (home / "agents" / "main" / "sessions" / "old2-aaaa.jsonl").unlink()
    add_session(home, "old1-aaaa", 1795360703148, [*ASKED, "And what else? 1", "What about the blue clock?"])
    before = contents(home)
    code, second, page = nights.run("2026-11-22")
    assert (code, {one["status"] for one in second.values()}) == (0, {"pass"})
    assert second["host"]["exact"]["conversations"] == {"same": 3, "added": [], "removed": [], "changed": {}}
    apart = second["host"]["apart"]
    assert [(row["conversation"], row["what"], row["turns"]) for row in apart["conversations"]] == [
        ("new0-aaaa", "added", "6"),
        ("new1-aaaa", "added", "6"),
        ("old1-aaaa", "went on", "6 -> 8"),
        ("old2-aaaa", "removed", "6"),
    ]
    # There is no night yet to compare them with, only limits.
    assert not _lines(second["host"], "added")
    kinds = "2 conversations added, 1 conversation went on, 1 conversation removed"
    assert f"Since the snapshot 2026-11-20: {kinds}" in page
    assert "| new0-aaaa | added | 6 | 3 | nothing: first nightly run with it | – |" in page
    assert "RepeatRate, apart |" in page
    assert f"Copy of the home taken {apart['copied']}" in page
    assert contents(home) == before

    # Repeated on that date, the run uses the same copy and says so; the next date sees what was added meanwhile.
    add_session(home, "new2-aaaa", LAST + 60_002, [*ASKED_LATER, "And then? 2"])
    repeated = lab("nightly", "run", "--plan", nights.plan, "--date", "2026-11-22", cwd=tmp_path)
    assert repeated.returncode == 0, repeated.stderr
    assert f"Copy of the home taken {apart['copied']}; the same command again" in " ".join(repeated.stdout.split())
    assert "is used again" in repeated.stderr

    # Night 3: an arm changes in the new conversations alone, which is reported and decides nothing.
    nights.edit(nights.plan, 'arms = ["hybrid"]\n', 'arms = ["hybrid"]\nmax_items = 3\n')
    code, third, page = nights.run("2026-11-23")
    assert (code, third["plain"]["exact"]["changed"], third["plain"]["status"]) == (0, 0, "pass")
    assert _lines(third["plain"], "added") == {"hybrid receipts": ("fail", False)}
    passed = ("pass", False)
    assert _lines(third["host"], "added") == {"engine receipts": passed, "hybrid receipts": passed}
    assert "| new2-aaaa | added | 6 | 3 |" in page
    rows = {row["conversation"]: row for row in third["plain"]["apart"]["conversations"]}
    assert (rows["new0-aaaa"]["since"], rows["new0-aaaa"]["changed"]) == ("2026-11-22", {"hybrid": 3})
    assert "| new0-aaaa | added | 6 | 3 | 2026-11-22 | hybrid 3 |" in page

    # The same change fails the night if the plan says so.
    nights.edit(nights.plan, "max_items = 3\n", 'max_items = 3\nadded = "judge"\n')
    code, judged, _ = nights.run("2026-11-24")
    assert (code, judged["plain"]["status"], judged["host"]["status"]) == (1, "fail", "pass")
    assert _lines(judged["plain"], "added") == {"hybrid receipts": ("fail", True)}
    (folder,) = (tmp_path / "reports" / "nightly").glob("2026-11-24-*")
    done = lab("nightly", "message", folder, cwd=tmp_path)
    assert "[not checked: what was added since is not compared again with earlier nightly runs]" in " ".join(
        done.stdout.split()
    ), done.stderr

    # Night 5: the host's configuration changes; that is found in the frozen conversations.
    nights.edit(home / "openclaw.json", '"mustMax": 2', '"mustMax": 1')
    code, fifth, _ = nights.run("2026-11-25")
    assert (code, fifth["host"]["status"]) == (1, "fail")
    assert fifth["host"]["exact"]["changed"] > 0
    assert _lines(fifth["host"], "exact") == {"engine receipts": ("fail", True), "hybrid receipts": ("pass", True)}

    # A snapshot that was edited is refused before anything is replayed.
    file = nights.plan.parent / "snapshots" / "2026-11-20" / "gateway.log"
    file.chmod(0o600)
    file.write_bytes(b"{}\n")
    done = lab("nightly", "run", "--plan", nights.plan, "--date", "2026-11-26", cwd=tmp_path)
    assert done.returncode == 2
    assert "gateway.log has 3 bytes instead of" in done.stderr
