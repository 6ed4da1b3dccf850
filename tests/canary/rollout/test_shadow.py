"""``lab canary shadow`` on the recorded home of a live host, whose embedder was a stub on loopback."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lab.canary.agree.history import created_in, write_store
from lab.canary.agree.logged import placed, read_log
from lab.recordings.readers import read_library
from lab.retrieval.quiet import import_lancedb, quiet_lance
from tests.loopback import JsonHandler, Loopback, serving

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
SIZE = 1536


def embedded(text: str) -> list[float]:
    """Return the vector that the host's stub gave a text: hashed words, of unit length."""
    vector = [0.0] * SIZE
    for word in re.findall(r"[^\W_]+", text.lower()) or ["empty"]:
        digest = hashlib.sha256(word.encode()).digest()
        for k, place in enumerate(struct.unpack_from("<4I", digest)):
            vector[place % SIZE] += 1 if digest[20 + k] & 1 else -1
    norm = sum(value * value for value in vector) ** 0.5 or 1.0
    return [value / norm for value in vector]


class Endpoint(JsonHandler):
    """The embeddings of an OpenAI-compatible endpoint."""

    def do_POST(self) -> None:  # noqa: N802 - the server calls it by this name
        asked = self.received()
        data = [{"index": at, "embedding": embedded(text)} for at, text in enumerate(asked["input"])]
        self.say({"object": "list", "model": asked["model"], "data": data})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serving(Loopback(Endpoint, path="/v1")) as server:
        yield f"openai:text-embedding-3-small@{server.url}"


@pytest.fixture
def home(shared: Callable[..., Path], tmp_path: Path) -> Path:
    """A copy of the home of a host of release 2026.9.6, and beside it a candidate with the other policy."""
    host = tmp_path / "openclaw"
    shutil.copytree(shared("live", "sessions-2026.9.6", "agents"), host / "agents")
    shutil.copytree(shared("live", "lancedb", "engine-2026.9.6"), host / "memory" / "lancedb")
    shutil.copy(shared("live", "logs", "gateway-2026.9.6.log"), host / "gateway.log")
    config = json.loads(shared("live", "config", "openclaw-2026.9.6.json").read_text("utf-8"))
    (host / "openclaw.json").write_text(json.dumps(config), "utf-8")
    recall = config["plugins"]["entries"]["openclaw-mem-engine"]["config"]["autoRecall"]
    recall["selectionMode"] = "tier_first_v1"
    (tmp_path / "new.json").write_text(json.dumps(config), "utf-8")
    return host


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_present_blocks_equal_the_injected_ones_before_a_candidate_is_told(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path
) -> None:
    prices = {"currency": "EUR", "input": 2, "cached": 0.2, "write": 2.5, "output": 8}
    (tmp_path / "prices.json").write_text(json.dumps(prices), "utf-8")
    before = files(home)
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--out", "out")
    words += ("--prices", "prices.json")
    done = lab(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\n19 of 19 present blocks equal the injected ones (100.0%; at least 97% are\nrequired)" in done.stdout
    assert max(map(len, done.stdout.split("Only a judge")[0].splitlines())) <= 80
    assert files(home) == before
    found = json.loads((tmp_path / "out" / "shadow.json").read_text("utf-8"))
    assert found["proof"]["holds"]
    assert (found["proof"]["recalls"], found["proof"]["equal"], found["proof"]["without"]) == (19, 19, 0)
    changed = [turn for turn in found["candidate"]["turns"] if turn["comes"] or turn["goes"]]
    assert 0 < len(changed) <= len(found["candidate"]["turns"]) < 19
    assert found["candidate"]["changed"]["mean"] == len(found["candidate"]["turns"]) / 19
    # The host's stub counted every prompt as 100 tokens, so the length of tools and system prompt is unknown.
    cost = found["candidate"]["prompt"]
    assert (cost["turns"], cost["fixed_tokens"]) == (19, None)
    assert cost["reported"] == {
        "input": 100 * cost["calls"],
        "cache_read": 0,
        "cache_write": 0,
        "output": 20 * cost["calls"],
        "calls": cost["calls"],
    }
    kept = {(row["configuration"], row["place"]): row["kept"]["mean"] for row in cost["rows"]}
    assert kept["none", "none"] > kept["present", "end"] > kept["present", "before_message"] > 0
    assert kept["present", "before_message"] > kept["present", "system_prompt"]
    assert "EUR per 1,000" in done.stdout
    # No text of a memory or a prompt is in the receipt.
    assert "cactus" not in (tmp_path / "out" / "shadow.json").read_text("utf-8")
    # What came out is an ordinary run with a pool, and a second call goes on from it.
    run = tmp_path / found["candidate"]["run"]
    assert lab("report", str(run), cwd=tmp_path).returncode == 0
    assert lab("explain", str(run), changed[0]["key"], cwd=tmp_path).returncode == 0
    again = lab(*words, "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == found


def test_nothing_is_said_of_a_candidate_if_the_present_blocks_differ(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path
) -> None:
    config = json.loads((home / "openclaw.json").read_text("utf-8"))
    config["plugins"]["entries"]["openclaw-mem-engine"]["config"]["autoRecall"]["maxItems"] = 2
    (home / "openclaw.json").write_text(json.dumps(config), "utf-8")
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--out", "out")
    done = lab(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert "so nothing is said about the candidate" in " ".join(done.stderr.split())
    assert "would change" not in done.stdout
    found = json.loads((tmp_path / "out" / "shadow.json").read_text("utf-8"))
    assert found["candidate"] is None
    assert not list((tmp_path / "out").glob("pool-*"))


@pytest.mark.parametrize("longer", [0, 7])
def test_a_fault_counts_as_a_cause_only_if_it_restores_equality(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path, longer: int
) -> None:
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--json")
    found = json.loads(lab(*words, "--out", "before", cwd=tmp_path).stdout)
    turn, snapshot = found["candidate"]["turns"][0]["key"], Path(found["snapshot"]["path"])
    options = ("--format", "openclaw", "--memories-from", snapshot / "store" / "data", "--vectors", "stored")
    more = ("--embedder", endpoint, "--profile", "upstream", "--scope", "tags", "--recall-turns", "user")
    arm, fault = f"present={snapshot / 'engine.json'}", f"embedder_down={turn}"
    faulty = ("--arm", arm, "--fault", fault, "--out", "down")
    done = lab("replay", str(snapshot), *map(str, options), *more, *faulty, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # What the engine would have logged at this turn without a vector, and the same with more than a fault explains.
    down = receipt_at(tmp_path / "down", turn)
    down["budget"] |= {key: down["budget"][key] + longer for key in ("beforeChars", "afterChars")}
    was = receipt_at(tmp_path / found["candidate"]["run"], turn)
    log = home / "gateway.log"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    (line,) = (line for line in lines if "autoRecall.receipt {" in line["message"] and receipt_in(line) == was)
    for key in ("1", "message"):
        line[key] = f"{line[key].partition('receipt ')[0]}receipt {json.dumps(down)}"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    done = lab(*words, "--out", "after", cwd=tmp_path)
    proof = json.loads(done.stdout)["proof"]
    if longer:
        # 18 of 19 are less than 97 %.
        assert (done.returncode, proof["holds"]) == (3, False)
        assert (proof["equal"], proof["restored"], proof["differing"]) == (18, {}, {"memories": 1})
    else:
        assert (done.returncode, proof["holds"]) == (0, True)
        assert (proof["equal"], proof["restored"], proof["differing"]) == (19, {"embedder_down": 1}, {})


def test_blocks_of_an_engine_with_an_old_handle_of_its_table_are_built_again(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path
) -> None:
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--json")
    found = json.loads(lab(*words, "--out", "before", cwd=tmp_path).stdout)
    snapshot, log = tmp_path / found["snapshot"]["path"], home / "gateway.log"
    recalls = read_log([log]).recalls
    at = placed(recalls, read_library(snapshot, "openclaw").recordings).at
    # The engine opens its table anew at its tenth recall, and never again.
    with quiet_lance():
        rows = import_lancedb().connect(str(snapshot / "store" / "data")).open_table("memories").to_arrow()
    opened = recalls[9].time_ms
    late = {name: opened for name, created in created_in(rows).items() if created <= opened}
    assert 0 < len(late) < rows.num_rows
    store = write_store(tmp_path / "late", rows, None, late)
    options = ("--format", "openclaw", "--memories-from", str(store), "--vectors", "stored", "--embedder", endpoint)
    more = ("--profile", "upstream", "--scope", "tags", "--recall-turns", "user", "--out", "old")
    done = lab("replay", str(snapshot), *options, *more, "--arm", f"present={snapshot / 'engine.json'}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    turn_of = {one.where: turn for turn, one in at.items()}
    lines = log.read_text("utf-8").splitlines()
    for number, text in enumerate(lines, 1):
        if turn := turn_of.get(f"{log}:{number}"):
            line = json.loads(text)
            for key in ("1", "message"):
                line[key] = (
                    f"{line[key].partition('receipt ')[0]}receipt {json.dumps(receipt_at(tmp_path / 'old', turn))}"
                )
            lines[number - 1] = json.dumps(line)
    log.write_text("\n".join(lines) + "\n", "utf-8")
    done = lab(*words, "--out", "after", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    proof = json.loads(done.stdout)["proof"]
    assert (proof["holds"], proof["equal"], proof["restored"]) == (True, 19, {})
    assert proof["late"] > 0


def test_a_memory_that_was_deleted_later_is_in_the_blocks_before(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path
) -> None:
    with quiet_lance():
        table = import_lancedb().connect(str(home / "memory" / "lancedb")).open_table("memories")
        # All receipts but the first list it.
        table.delete("id LIKE 'ab1db9%'")
    words = (
        "canary",
        "shadow",
        "openclaw",
        "--candidate",
        "new.json",
        "--embedder",
        endpoint,
        "--out",
        "out",
        "--json",
    )
    found = json.loads(lab(*words, cwd=tmp_path).stdout)
    assert (found["proof"]["equal"], found["proof"]["late"]) == (19, 0)
    assert found["notes"][1:] == ["deleted later, and replayed until then: 1 memory"]


def test_turns_that_were_judged_are_compared_at_the_next_look(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path
) -> None:
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--out", "out")
    done = lab(*words, "--json", cwd=tmp_path)
    before = json.loads(done.stdout)["candidate"]
    turn = next(turn for turn in before["turns"] if turn["comes"] and turn["goes"])
    judged = {"relevant": [{"memory": turn["comes"][0], "grade": 2}], "forbidden": [{"memory": turn["goes"][0]}]}
    gold = tmp_path / "out" / "gold.jsonl"
    gold.write_text(json.dumps({"kind": "probe", "turn": turn["key"], "type": "update", **judged}) + "\n", "utf-8")
    done = lab(*words, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr.count(": done (")) == (0, 1), done.stderr
    after = json.loads(done.stdout)["candidate"]
    added = {name: one for name, one in after["measures"].items() if name not in before["measures"]}
    means = {name.partition("@")[0]: (one["baseline"], one["candidate"]) for name, one in added.items()}
    assert means == {"Success": (0, 1), "CleanHit": (0, 1), "Forbidden": (1, 0)}
    # Everything else is as it was, and the same turns wait to be judged.
    same = ("pool", "changed", "comes", "goes", "must_share", "turns")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert "Judged so far: 1 turn." in lab(*words, cwd=tmp_path).stdout


SECOND = "dc41cebe-8f10-4032-87bd-52f98b1fe063"


@pytest.fixture
def earlier(home: Path, tmp_path: Path) -> Path:
    """A copy of the home as it was five recalls after its second session began."""
    host = tmp_path / "earlier"
    shutil.copytree(home, host)
    lines = (host / "gateway.log").read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["time"] < "2026-11-22T15:19:58"]
    (host / "gateway.log").write_text("".join(kept), "utf-8")
    (database,) = host.glob("agents/*/agent/*.sqlite")
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("DELETE FROM transcript_events WHERE session_id = ? AND created_at > 1795360798000", (SECOND,))
    return host


def found_in(folder: Path) -> Any:
    """Return what a shadow found, without where it is and when it was looked for."""
    found = json.loads((folder / "shadow.json").read_text("utf-8"))
    del found["snapshot"], found["candidate"]["run"], found["candidate"]["pool"]
    return found


def instead(home: Path, other: Path) -> None:
    """Put another state in the place of a home."""
    home.rename(home.with_name("before"))
    other.rename(home)


def test_a_later_look_replays_only_the_sessions_with_something_new(
    lab: Lab, home: Path, earlier: Path, endpoint: str, tmp_path: Path
) -> None:
    words = ("--candidate", "new.json", "--embedder", endpoint)
    assert lab("canary", "shadow", "openclaw", *words, "--out", "undisturbed", cwd=tmp_path).returncode == 0
    home.rename(tmp_path / "later")
    earlier.rename(home)
    done = lab("canary", "shadow", "openclaw", *words, "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stderr.count(": done (")) == (0, 2)
    before = found_in(tmp_path / "out")
    # A run that cannot be read, such as one of another version, does not matter.
    (name,) = (path.name for path in (tmp_path / "out" / "runs").iterdir())
    (tmp_path / "out" / "runs" / f"2000-{name}").mkdir()
    (tmp_path / "out" / "runs" / f"2000-{name}" / "manifest.json").write_text("{}", "utf-8")
    instead(home, tmp_path / "later")
    done = lab("canary", "shadow", "openclaw", *words, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0
    assert re.findall(r"^(\S+): done \(", done.stderr, re.MULTILINE) == [SECOND]
    assert found_in(tmp_path / "out") == found_in(tmp_path / "undisturbed") != before
    # A vector that was made again is another input of every session.
    with quiet_lance():
        table = import_lancedb().connect(str(home / "memory" / "lancedb")).open_table("memories")
        row = table.to_arrow().slice(1, 1)
        turned = [-value for value in row["vector"][0].as_py()]
        table.update(where=f"id = '{row['id'][0].as_py()}'", values={"vector": turned})
    done = lab("canary", "shadow", "openclaw", *words, "--out", "out", cwd=tmp_path)
    assert done.stderr.count(": done (") >= 2


@pytest.mark.process
@pytest.mark.parametrize(
    "sight", ["snapshots/.*/*", "snapshots/*/snapshot.json", "runs/*/receipts/*", "runs/*/scores*"]
)
def test_a_shadow_that_was_killed_goes_on(
    lab: Lab, home: Path, earlier: Path, endpoint: str, tmp_path: Path, sight: str
) -> None:
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--out")
    assert lab(*words, "undisturbed", cwd=tmp_path).returncode == 0
    home.rename(tmp_path / "later")
    earlier.rename(home)
    for state in ("earlier", "later"):
        seen = {*(tmp_path / "out").glob(sight)}
        process = subprocess.Popen(
            [sys.executable, "-m", "lab", *words, "out"], cwd=tmp_path, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and {*(tmp_path / "out").glob(sight)} <= seen:
            pass
        process.kill()
        process.wait()
        if state == "earlier":
            instead(home, tmp_path / "later")
    assert lab(*words, "out", cwd=tmp_path).returncode == 0
    assert found_in(tmp_path / "out") == found_in(tmp_path / "undisturbed")


@pytest.mark.process
def test_a_shadow_that_follows_keeps_its_last_look(home: Path, earlier: Path, endpoint: str, tmp_path: Path) -> None:
    home.rename(tmp_path / "later")
    earlier.rename(home)
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", *words, "--out", "out", "--follow", "1s"], cwd=tmp_path, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    instead(home, tmp_path / "later")
    second = json.loads(process.stdout.readline())
    process.kill()
    assert process.communicate()[0] == b""
    assert (first["proof"]["recalls"], second["proof"]["recalls"]) == (15, 19)
    assert json.loads((tmp_path / "out" / "shadow.json").read_text("utf-8")) == second
    folders = [path for name in ("snapshots", "runs") for path in (tmp_path / "out" / name).iterdir()]
    kept = [str(path.relative_to(tmp_path)) for path in folders]
    assert kept == [second["snapshot"]["path"], second["candidate"]["run"]]
    assert len(list((tmp_path / "out").glob("pool-*"))) == 1


def logged_apart(home: Path) -> list[str]:
    """Return the lines of the log, which is no longer there."""
    lines = (home / "gateway.log").read_text("utf-8").splitlines(keepends=True)
    (home / "gateway.log").unlink()
    return lines


def dated(home: Path) -> None:
    lines = logged_apart(home)
    for day, part in (("21", lines[: len(lines) // 2]), ("22", lines[len(lines) // 2 :])):
        (home / f"openclaw-2026-11-{day}.log").write_text("".join(part), "utf-8")
    config = (home / "openclaw.json").read_text("utf-8").replace("gateway.log", "openclaw-2026-11-20.log")
    (home / "openclaw.json").write_text(config, "utf-8")


def rotated(home: Path) -> None:
    lines = logged_apart(home)
    (home / "gateway.log").write_text("".join(lines[len(lines) // 2 :]), "utf-8")
    with gzip.open(home / "gateway.log.1.gz", "wt", encoding="utf-8") as file:
        file.write("".join(lines[: len(lines) // 2]))


def of_two_gateways(home: Path) -> None:
    lines = logged_apart(home)
    of_the_other = {number for number, line in enumerate(lines) if "autoRecall.receipt {" in line}
    kept = [line for number, line in enumerate(lines) if number not in sorted(of_the_other)[10:15]]
    (home / "gateway.log").write_text("".join(kept), "utf-8")


def of_another_model(home: Path) -> None:
    lines = logged_apart(home)
    began = next(line for line in lines if "registered (db=" in line)
    at = [number for number, line in enumerate(lines) if "autoRecall.receipt {" in line][4]
    told = json.loads(began) | {"time": json.loads(lines[at])["time"]}
    other = [line.replace("text-embedding-3-small", "text-embedding-ada-002") for line in lines[:at]]
    (home / "gateway.log").write_text("".join([*other, json.dumps(told) + "\n", *lines[at:]]), "utf-8")


def compacted(home: Path) -> None:
    with quiet_lance(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = import_lancedb().connect(str(home / "memory" / "lancedb")).open_table("memories")
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)


@pytest.mark.parametrize(
    ("change", "recalls", "note"),
    [
        (dated, 19, "6 user turns since the first of these recalls have none: recall was off, or another gateway"),
        (rotated, 19, "6 user turns since the first of these recalls have none: recall was off, or another gateway"),
        (of_two_gateways, 14, "11 user turns since the first of these recalls have none: recall was off, or another"),
        (of_another_model, 15, "the engine got another model; 4 recalls before are left out"),
        (compacted, 19, "its older versions were compacted away; what was deleted before"),
    ],
)
def test_a_host_of_another_kind_is_proven_or_what_is_unknown_is_named(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path, change: Callable[[Path], None], recalls: int, note: str
) -> None:
    change(home)
    words = ("canary", "shadow", "openclaw", "--candidate", "new.json", "--embedder", endpoint, "--out", "out")
    done = lab(*words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["proof"]["recalls"], found["proof"]["equal"]) == (recalls, recalls)
    assert sum(note in one for one in found["notes"]) == 1


def receipt_in(line: dict[str, Any]) -> Any:
    return json.loads(line["message"].partition("receipt ")[2])


def receipt_at(run: Path, turn: str) -> Any:
    rows = [row for file in sorted((run / "receipts").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return next(json.loads(row["receipt"]) for row in rows if (row["arm"], row["turn"]) == ("present", turn))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("log", "has no log; name it with --log"),
        ("sessions", "has no session that can be read"),
        ("store", "no such folder; correct the key, or name the folder of the memories with --store"),
        ("embedder", "this host embeds with text-embedding-3-small; give --embedder openai:text-embedding-3-small@URL"),
        ("candidate", "absent.json: no such file"),
        ("model", "new.json: embeds with text-embedding-3-large, the host with text-embedding-3-small: its memories"),
    ],
)
def test_unusable_input_is_told_in_one_line(
    lab: Lab, home: Path, endpoint: str, tmp_path: Path, broken: str, message: str
) -> None:
    if broken == "log":
        (home / "gateway.log").unlink()
    if broken == "sessions":
        shutil.rmtree(home / "agents")
    if broken == "store":
        shutil.rmtree(home / "memory")
    if broken == "model":
        new = (tmp_path / "new.json").read_text("utf-8").replace("text-embedding-3-small", "text-embedding-3-large")
        (tmp_path / "new.json").write_text(new, "utf-8")
    candidate = "absent.json" if broken == "candidate" else "new.json"
    embedder = "hashing" if broken == "embedder" else endpoint
    words = ("canary", "shadow", "openclaw", "--candidate", candidate, "--embedder", embedder, "--out", "out")
    done = lab(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.splitlines()[-1].split())
    assert not (tmp_path / "out" / "shadow.json").exists()
