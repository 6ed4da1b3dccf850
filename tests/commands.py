"""The command ``lab``, run in this process or in one of its own."""

from __future__ import annotations

import contextlib
import gc
import io
import multiprocessing
import multiprocessing.util
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]
PLAIN = {"NO_COLOR": "1", "COLUMNS": "80"}
# What would colour the output, or add to it.
LEFT_OUT = ("FORCE_COLOR", "PYTHONWARNINGS")


def run_here(*words: str | Path, cwd: Path | str = ".", **environment: str) -> Done:
    """Run the command as its entry point does, in this process, for a plain terminal of 80 columns.

    An interpreter of its own for each of the commands of the tests would take most of their time.
    """
    from lab.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n", write_through=True) for _ in range(2))
    thresholds = gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd):
        for name in LEFT_OUT:
            patch.delenv(name, raising=False)
        for name, value in (PLAIN | environment).items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["lab", *map(str, words)])
        # Usage names the program after the package of the main module, if it has one, as under ``python -m pytest``.
        patch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    gc.set_threshold(*thresholds)
    code = ended.value.code or 0
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(
        list(map(str, words)), code, *(one.buffer.getvalue().decode() for one in (out, err))
    )


@contextlib.contextmanager
def without_charts() -> Iterator[None]:
    """Let reports be built without their charts, which take most of their time."""
    # By its name pytest would find the function lab.report, unless the package was imported before.
    from lab.report import build

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "drawings", lambda *_: {})
        yield


def run_installed(*words: str | Path, cwd: Path | str = ".", **environment: str) -> Done:
    """Run the installed command in a process of its own, else like :func:`run_here`."""
    command = Path(sys.executable).with_name("lab")
    assert command.is_file(), "the command is not installed beside this interpreter"
    known = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    return subprocess.run(
        [command, *words],
        cwd=cwd,
        env=known | PLAIN | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def started(*words: str | Path, said: Path) -> BaseProcess:
    """Start the command in a copy of this process, in a group of its own, which may be killed; it writes to a file.

    The lab is imported already, which takes most of the time of an interpreter of its own.
    """
    import lab.cli.main as entry

    def child() -> None:
        os.setsid()
        with said.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        os.environ |= PLAIN
        sys.argv = ["lab", *map(str, words)]
        entry.main()

    process = multiprocessing.get_context("fork").Process(target=child)
    with warnings.catch_warnings():
        # Of threads, which the copy lacks: those of pytest and of libraries do nothing for it.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    # A failed test leaves it running, and this interpreter would wait for it at its end.
    multiprocessing.util.Finalize(process, process.kill, exitpriority=1)
    return process


def lives(process: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
