"""Two processes at once: the second is refused in a run directory, and both can use a cache without damaging it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import InUse, UnusableInput
from lab.base.files import only_writer
from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.retrieval.tokens import TextSettings, Tokens
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.lane import open_docs
from tests.replay.conftest import untimed

pytestmark = pytest.mark.process

Files = Callable[[Path], dict[str, bytes]]
LAB = Path(sys.executable).with_name("lab")
HOLD = """
import sys
from pathlib import Path
from lab.base.files import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
# All processes wait for a signal, so that they start together.
FILL = """
import sys
from pathlib import Path
from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.systems.openclaw.docs.lane import open_docs
from lab.systems.openclaw.config.settings import DocsSettings
from lab.retrieval.tokens import TextSettings, Tokens
first, last, docs, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
texts = [f"crate {number} holds plums" for number in range(first, last)]
vectors, tokens = Vectors(HashingEmbedder()), Tokens(TextSettings())
print("ready", flush=True)
sys.stdin.readline()
vectors.prepare(texts)
assert vectors.of(texts).tobytes() == HashingEmbedder().encode(texts).tobytes()
tokens.prepare(texts[:40])
index = open_docs(DocsSettings(source_roots=(docs,)), place, HashingEmbedder().encode, model="hashing")
print(index.last_ingest["chunks_total"], flush=True)
"""


def begin(program: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_only_writer_releases_the_folder_however_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    with begin(HOLD, folder) as other:
        assert line(other) == "held"
        with (
            pytest.raises(InUse, match=r"deep/run: another process is writing it; wait for it to end"),
            only_writer(folder),
        ):
            pytest.fail("two hold one folder")
        other.send_signal(signal.SIGKILL)
        other.wait()
    with only_writer(folder), pytest.raises(InUse), only_writer(folder):
        pytest.fail("one holds a folder twice")
    with only_writer(folder):
        pass
    assert list(folder.iterdir()) == []


def test_only_writer_removed_folder_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lock(_: int) -> bool:
        (tmp_path / "run").rename(tmp_path / "gone")
        return True

    monkeypatch.setattr("lab.base.files.lock", lock)
    with pytest.raises(InUse), only_writer(tmp_path / "run"):
        pytest.fail("a folder that is gone was held")


def test_only_writer_path_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UnusableInput, match="exists and is not a folder, or is below a file"), only_writer(path):
            pytest.fail("a file was held as a folder")


def talk(desk: Any, count: int = 4) -> None:
    for number in range(count):
        said = [("user", f"pears and plums in crate {n}", f"crate {n} holds plums") for n in range(6)]
        desk.say(f"talk{number}", ("global", said))
        desk.judge(f"talk{number}/s1/t1#0", turn=f"talk{number}/s1/t6")


def test_run_in_use_is_refused_by_replay_merge_and_rm(desk: Any, files_of: Files) -> None:
    talk(desk)
    run = desk.run().run
    before = files_of(run.path)
    with begin(HOLD, run.path) as other:
        assert line(other) == "held"
        with pytest.raises(InUse):
            desk.run()
        done = subprocess.run([LAB, "runs", "rm", run.path, "--write"], capture_output=True, text=True, check=False)
        assert (done.returncode, "another process is writing it" in done.stderr) == (InUse.exit_code, True)
        assert files_of(run.path) == before
        other.communicate("")
    assert subprocess.run([LAB, "runs", "rm", run.path, "--write"], check=False, capture_output=True).returncode == 0
    assert not run.path.exists()


def started(words: Sequence[object], count: int) -> list[tuple[int, str]]:
    """Run a command several times at once; return the exit code and last line of each."""
    running = [
        subprocess.Popen([LAB, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    said = [process.communicate()[1] for process in running]
    return [(process.returncode, one) for process, one in zip(running, said, strict=True)]


def test_two_replays_into_one_folder_write_one_run(desk: Any, files_of: Files) -> None:
    talk(desk)
    words = ["replay", desk.folder, "--format", "lab", "--golden", desk.golden, "--arm", "hybrid"]
    words += ["--embedder", "hashing", "--out"]
    ends = started([*words, desk.home / "run"], 2)
    assert sorted(code for code, _ in ends) in ([0, 0], [0, 4]), ends
    assert all("another process is writing it" in said for code, said in ends if code)
    desk.run("hybrid", out="alone")
    states = [untimed(files_of(desk.home / name)) for name in ("run", "alone")]
    assert states[0] == states[1]
    assert len(states[0]) == 4 + 2


def test_cache_filled_by_many_processes_is_intact(desk: Any) -> None:
    """Processes request overlapping texts: vectors, tokens and documents."""
    docs, place = desk.home / "docs", desk.home / "cache" / "docs" / "index.sqlite"
    docs.mkdir()
    for number in range(30):
        (docs / f"{number}.md").write_text(f"# Crate {number}\n\nplums and pears {number}\n", encoding="utf-8")
    spans = [(0, 500), (300, 1000), (0, 500)]
    running = [begin(FILL, *span, docs, place) for span in spans]
    assert [line(one) for one in running] == ["ready"] * len(spans)
    for one in running:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    ends = [one.communicate() for one in running]
    assert [one.returncode for one in running] == [0] * len(spans), ends
    assert {out.strip() for out, _ in ends} == {"30"}
    texts = [f"crate {number} holds plums" for number in range(1000)]
    vectors, tokens = Vectors(HashingEmbedder()), Tokens(TextSettings())
    assert vectors.prepare(texts) == 0
    assert vectors.of(texts).tobytes() == HashingEmbedder().encode(texts).tobytes()
    assert tokens.of(texts[:40]) == [["crate", str(number), "hold", "plum"] for number in range(40)]
    index = open_docs(DocsSettings(source_roots=(str(docs),)), place, HashingEmbedder().encode, model="hashing")
    assert index.last_ingest["chunks_unchanged"] == 30
    assert [path.name for path in (desk.home / "cache").rglob("*.part")] == []
