"""``lab view``."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Annotated

import typer

from lab.cli.output import Json, announce, emit, emit_json, emit_trial
from lab.formatting import counted

PORT = 8642
# Seconds before recordings are read in the background, so that the first page does not wait for it.
WARM_AFTER = 3.0


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("view")(view)


def view(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any free port.")] = PORT,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Show and search the texts of turns and memories.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Browse a run turn by turn, with two arms side by side.

    Serves read-only pages to this machine only. Stop it with Ctrl-C.
    """
    from lab.runs.directory import open_run
    from lab.runs.trial import trial
    from lab.view.app import make_app
    from lab.view.index import Index
    from lab.view.pages import Viewer
    from lab.view.recorded import Recorded
    from lab.view.serve import LOOPBACK, listen, serve

    # Failed recalls are worth viewing; the first line counts them.
    opened = open_run(run, allow_failed=True)
    recorded = Recorded(opened)
    with listen(port) as sock:
        if with_text:
            recorded.plan()
        index = Index(opened, announce)
        bound_port = sock.getsockname()[1]
        address = f"http://{LOOPBACK}:{bound_port}/"
        app = make_app(Viewer(index, recorded, with_text=with_text), bound_port)
        counts = {"conversations": len(index.conversations), "turns": len(index.turns), "damaged": len(index.damaged)}
        reasons = trial(opened.manifest)
        if as_json:
            emit_json(
                {
                    "address": address,
                    "port": bound_port,
                    "run": str(run),
                    "with_text": with_text,
                    "trial": list(reasons),
                    **counts,
                }
            )
        else:
            emit_trial(reasons)
            emit(f"{run}: {counted(counts['conversations'], 'conversation')}, {counted(counts['turns'], 'turn')}")
            for reason in index.damaged.values():
                announce(reason)
            emit(f"{address}  (stop with Ctrl-C)")
        sys.stdout.flush()
        if browser:
            import webbrowser

            webbrowser.open(address)
        warming = Timer(WARM_AFTER, recorded.warm)
        warming.daemon = True
        warming.start()
        with suppress(KeyboardInterrupt):
            serve(app, sock)
        announce(f"stopped; {run} was at {address}")
