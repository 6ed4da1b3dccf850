"""Fixtures: the folder that mutants are made in, and a runner of commands in this process."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ground import prepare

# Seconds of CPU time, and of waiting on a busy machine, after which a command counts as hung.
WORK, WAIT = 20, 120
Run = Callable[..., tuple[int, str]]


class Hung(BaseException):
    """A command took longer than :data:`WORK` or :data:`WAIT`. No ``except Exception`` swallows it."""


@pytest.fixture(scope="session")
def run_lab() -> Iterator[Run]:
    """Run a command in this process as its entry point does; return exit code and output.

    ``conformance`` is the developers' command of that name.
    """
    from lab.cli.main import main
    from tests.conformance.__main__ import app as conformance

    def too_long(*_: object) -> None:
        raise Hung

    def run(*words: str) -> tuple[int, str]:
        said = io.StringIO()
        own = words[0] == "conformance"
        arguments, sys.argv = sys.argv, ["lab", *words[own:]]
        signal.setitimer(signal.ITIMER_PROF, WORK)
        signal.setitimer(signal.ITIMER_REAL, WAIT)
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                main(conformance if own else None)
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
        except Hung:
            return -1, said.getvalue() + "HUNG"
        finally:
            for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
                signal.setitimer(timer, 0)
            sys.argv = arguments
        raise AssertionError("a command ends with an exit code")

    before = gc.get_threshold()
    handlers = {kind: signal.signal(kind, too_long) for kind in (signal.SIGALRM, signal.SIGPROF)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", os.environ.get("OPENBLAS_NUM_THREADS", "1"))
        patch.setenv("NO_COLOR", "1")
        yield run
    for kind, handler in handlers.items():
        signal.signal(kind, handler)
    gc.set_threshold(*before)


class Ground:
    """A folder whose files are put back after each mutant."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.sound = {path: path.read_bytes() for path in self._files()}
        self.stats = {path: self._stat(path) for path in self.sound}

    def put_back(self) -> None:
        """Undo the changes of a command or a mutation."""
        there = set(self._files())
        for path in there - set(self.sound):
            path.unlink()
        for path, data in self.sound.items():
            if path not in there or self._stat(path) != self.stats[path]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                self.stats[path] = self._stat(path)
        for folder in sorted((one for one in self.place.rglob("*") if one.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _files(self) -> list[Path]:
        return [path for path in self.place.rglob("*") if path.is_symlink() or not path.is_dir()]

    def _stat(self, path: Path) -> tuple[int, int, int]:
        result = path.stat()
        return result.st_mtime_ns, result.st_size, result.st_ino


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory, run_lab: Run) -> Iterator[Ground]:
    """One of everything that the lab reads, in the current folder."""
    place = tmp_path_factory.mktemp("ground")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        # Tracebacks of unexpected exceptions are written here too.
        (place.parent / "traces").mkdir(exist_ok=True)
        patch.setattr("tempfile.tempdir", str(place.parent / "traces"))
        prepare(place, run_lab)
        yield Ground(place)
