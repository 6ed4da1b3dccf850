"""``lab view``: browse runs turn by turn in a browser."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

import typer

from lab.base.formatting import counted
from lab.cli.output import announce, emit, emit_trial
from lab.cli.results import Result

PORT = 8642
# Seconds before recordings are read in the background, so that the first page does not wait for it.
WARM_AFTER = 3.0


def view(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="A run directory; or several, to compare arms of any two.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any free port.")] = PORT,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Show and search the texts of turns and memories.")
    ] = False,
) -> Result:
    """Browse runs turn by turn, with two arms side by side.

    Serves read-only pages to this machine only, and follows a run that is still growing. Stop it with Ctrl-C.
    """
    from lab.runs.notes import trial_of
    from lab.view.app import LOOPBACK, listen, make_app, serve
    from lab.view.live import Live
    from lab.view.pages import Viewer
    from lab.view.runs import open_runs

    # Failed recalls are worth viewing; the first line counts them.
    opened = open_runs(runs)
    shown = ", ".join(map(str, runs))
    live = Live(opened, announce)
    state = live.now()
    index = state.index
    if with_text:
        state.recorded[0].plan()
    sock = listen(port)
    bound_port = sock.getsockname()[1]
    address = f"http://{LOOPBACK}:{bound_port}/"
    found = {
        "address": address,
        "port": bound_port,
        "run": str(runs[0]),
        "runs": [str(run) for run in runs],
        "with_text": with_text,
        "trial": list(trial_of(*opened.all)),
        "conversations": len(index.conversations),
        "turns": len(index.turns),
        "damaged": len(index.damaged),
        "waiting": len(index.waiting),
    }

    def show(found: dict[str, Any]) -> None:
        emit_trial(found["trial"])
        waiting = f", {found['waiting']} of them not replayed yet" if index.waiting else ""
        emit(f"{shown}: {counted(found['conversations'], 'conversation')}{waiting}, {counted(found['turns'], 'turn')}")
        for reason in index.damaged.values():
            announce(reason)
        emit(f"{address}  (stop with Ctrl-C)")

    def until_stopped() -> None:
        with sock:
            sys.stdout.flush()
            if browser:
                import webbrowser

                webbrowser.open(address)
            warming = Timer(WARM_AFTER, state.warm)
            warming.daemon = True
            warming.start()
            with suppress(KeyboardInterrupt):
                serve(make_app(Viewer(live, with_text=with_text), bound_port), sock)
            announce(f"stopped; {shown} was at {address}")

    return Result(found, show, then=until_stopped)
