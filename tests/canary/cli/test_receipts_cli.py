"""``lab canary audit`` on a log with every kind of damage: plain, gzip, stdin and pipe."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.canary.audit.check import KINDS
from lab.gate.policy import read_policy
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Final, LaneHit, lifecycle_receipt
from lab.systems.openclaw.select.outcome import Quota, TierCount

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
SECRET = "the door code is four seven one one"


def _receipt(**changes: Any) -> dict[str, Any]:
    tiers = [TierCount("must", ("must_remember",), 4, 1), TierCount("nice", ("nice_to_have",), 4, 2)]
    ids = {"m1": "must_remember", "n1": "nice_to_have", "n2": "nice_to_have"}
    made = lifecycle_receipt(
        ReceiptSettings(True, "high", 3),
        scope="shop",
        scope_mode="inferred",
        mode="tier_quota_v1",
        quota=Quota(1, 1, 1, 1),
        tier_counts=tiers,
        fts=[LaneHit("m1", 1.5, 0.0)],
        vec=[LaneHit("n1", 0.5, 1.0)],
        final=[Final(one, label, "shop") for one, label in ids.items()],
        injected=3,
    )
    return made | changes


def _line(value: Any, marker: str = "autoRecall.receipt", second: int = 0) -> bytes:
    return f"2026-03-01T09:00:{second:02}Z openclaw-mem-engine:{marker} {json.dumps(value)}".encode()


SOUND = [
    b"starting up",
    _line(_receipt(), second=1),
    json.dumps({"time": "2026-03-01T09:00:02Z", "session": "s1", "msg": _line(_receipt()).decode()}).encode(),
    b"2026-03-01T09:00:03Z WARN openclaw-mem-engine: autoRecall failed: TypeError",
    _line({"scope": "shop", "consultedScopes": ["x"], "usedScopes": [], "contributed": 0}, "scopeFallback", 4),
    b"\xff\xfe some other plugin's bytes",
]
MARK = b"openclaw-mem-engine:autoRecall.receipt"
DAMAGED = [
    ("cut_off", _line(_receipt())[:300]),
    ("not_utf8", _line(_receipt()).replace(b"shop", b"sh\xf6p")),
    ("no_json", MARK),
    ("not_json", MARK + b" {'schema':1}"),
    ("too_long", b"x" * 3_000_000 + MARK),
    ("unknown_schema", _line(_receipt(schema="v9"))),
    ("shape", _line(_receipt(finalCount="3"))),
    ("unknown_reason", _line(_receipt(rejected=["budget_cap", "budget_cap"]))),
    ("counts", _line(_receipt(finalCount=9))),
    ("listed", _line(_receipt(fusedTop=["m1", "m1", "n2"]))),
    ("quota", _line(_receipt(quota={"mustMax": 1, "niceMin": 1, "unknownMax": 1, "wildcardUsed": 0}))),
    ("text", _line(_receipt(note=SECRET))),
    ("duplicate", SOUND[1]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``good.log`` and, packed and then cut off, ``bad.log.gz``, where each damage stands between sound lines."""
    (tmp_path / "good.log").write_bytes(b"\n".join(SOUND) + b"\n")
    bad = b"".join(b"sound\n" + line + b"\n" for _, line in DAMAGED)
    packed = gzip.compress(bad)
    (tmp_path / "bad.log.gz").write_bytes(packed[:-4])
    return tmp_path


def test_audit_of_valid_log_fits_80_columns(lab: Lab, folder: Path) -> None:
    shown = lab("canary", "audit", "good.log", "--strict", cwd=folder)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert shown.stdout.startswith(
        "6 lines of 1 log, 2 valid recall receipts\n2026-03-01T09:00:01.000Z to 2026-03-01T09:00:04.000Z\n"
    )
    rows = {tuple(line.rsplit(maxsplit=2)) for line in shown.stdout.splitlines()}
    rows = {(what.split(maxsplit=1)[-1].strip(), *of) for what, *of in (row for row in rows if len(row) == 3)}
    assert {("recalls that failed", "0.333", "3"), ("wildcard used", "1.000", "2")} <= rows
    # What a policy judges can be looked up under its name.
    judged = {rule.measure for rule in read_policy("stage-b").rules if rule.kind == "receipts"}
    assert len(judged) > 10
    assert judged <= {line.split()[0] for line in shown.stdout.splitlines() if line}
    assert "\ndamaged lines: none\n" in shown.stdout


def test_audit_counts_and_names_every_kind_of_damage(lab: Lab, folder: Path) -> None:
    done = lab("canary", "audit", "good.log", "bad.log.gz", "--json", "--out", "deep/audit.json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert json.loads((folder / "deep" / "audit.json").read_text("utf-8")) == found
    assert found["schema"] == "lab.receipts.audit.v1"
    damage = found["damage"]
    assert damage["by_kind"] == dict.fromkeys(KINDS, 1)
    # The packed file's own damage stands at the end of what could be read.
    expected = [("bad.log.gz", 2 * place, kind) for place, (kind, _) in enumerate(DAMAGED, 1)]
    expected.append(("bad.log.gz", 2 * len(DAMAGED), "gzip"))
    assert [(one["file"], one["line"], one["kind"]) for one in damage["listed"]] == expected
    assert damage["lines"] == len(expected)
    # What is damaged counts nowhere else.
    assert (found["recalls"]["receipts"], found["markers"]["autoRecall.receipt"]) == (2, 2)
    assert found["repeat"]["by"] == {"session": 1, "scope": 1}
    assert SECRET not in done.stdout


def test_audit_strict_exits_1_and_listed_limits_lines(lab: Lab, folder: Path) -> None:
    shown = lab("canary", "audit", "good.log", "bad.log.gz", "--strict", "--listed", "2", cwd=folder)
    assert (shown.returncode, shown.stderr) == (1, "error: good.log, bad.log.gz: 14 damaged lines\n")
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert shown.stdout.endswith(
        "damaged: bad.log.gz:2: the JSON of autoRecall.receipt is truncated\n"
        "damaged: bad.log.gz:4: byte 200 of the line is not UTF-8\n"
        "… and 12 more (--listed N lists N)\n"
    )


@pytest.mark.process
def test_audit_of_stdin_and_pipe_equals_file(lab: Lab, folder: Path) -> None:
    def without_name(text: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(text)
        return found | {"files": [one | {"file": ""} for one in found["files"]]}

    from_file = lab("canary", "audit", "good.log", "--json", cwd=folder)
    command = [Path(sys.executable).with_name("lab"), "canary", "audit", "-", "--json"]
    for data in ((folder / "good.log").read_bytes(), gzip.compress((folder / "good.log").read_bytes())):
        piped = subprocess.run(command, input=data, capture_output=True, check=True, timeout=60)
        assert without_name(piped.stdout.decode()) == without_name(from_file.stdout)
    os.mkfifo(folder / "fifo")
    writer = threading.Thread(target=lambda: (folder / "fifo").write_bytes((folder / "good.log").read_bytes()))
    writer.start()
    through = lab("canary", "audit", "fifo", "--json", cwd=folder)
    writer.join()
    assert without_name(through.stdout) == without_name(from_file.stdout)


@pytest.mark.parametrize(
    ("logs", "complaint"),
    [
        (("nowhere.log",), "error: nowhere.log: no such file\n"),
        ((".",), "error: .: cannot be read: Is a directory\n"),
        (
            ("good.log", "good.log"),
            "error: good.log: is given twice, so every receipt would count twice; give it once\n",
        ),
        (
            ("good.log", "--out", "good.log"),
            "error: --out good.log: is one of the logs and would be overwritten; choose another file\n",
        ),
    ],
)
def test_audit_of_unreadable_log_exits_2(lab: Lab, folder: Path, logs: tuple[str, ...], complaint: str) -> None:
    before = (folder / "good.log").read_bytes()
    done = lab("canary", "audit", "--out", "audit.json", *logs, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint)
    assert (folder / "good.log").read_bytes() == before
    assert not (folder / "audit.json").exists()
