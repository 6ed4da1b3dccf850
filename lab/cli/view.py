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
# Seconds until recordings are read behind the pages: the first page would wait for it.
WARM_AFTER = 3.0


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("view")(view)


def view(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1 to answer on; 0 is any free one.")
    ] = PORT,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Show the texts of turns and memories, and search them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Walk a run in a browser, turn by turn, two arms side by side.

    The page is for this machine alone and changes nothing. Ctrl-C ends it.
    """
    from lab.runs.directory import open_run
    from lab.runs.trial import trial
    from lab.view.app import make_app
    from lab.view.index import Index
    from lab.view.pages import Viewer
    from lab.view.recorded import Recorded
    from lab.view.serve import LOOPBACK, listen, serve

    # A failed recall is there to be looked at: the first line counts them.
    opened = open_run(run, allow_failed=True)
    recorded = Recorded(opened)
    with listen(port) as sock:
        if with_text:
            recorded.plan()
        index = Index(opened, announce)
        got = sock.getsockname()[1]
        address = f"http://{LOOPBACK}:{got}/"
        app = make_app(Viewer(index, recorded, with_text=with_text), got)
        counts = {"conversations": len(index.conversations), "turns": len(index.turns), "damaged": len(index.damaged)}
        reasons = trial(opened.manifest)
        if as_json:
            emit_json(
                {
                    "address": address,
                    "port": got,
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
            emit(f"{address}  (Ctrl-C ends it)")
        sys.stdout.flush()
        if browser:
            import webbrowser

            webbrowser.open(address)
        warming = Timer(WARM_AFTER, recorded.warm)
        warming.daemon = True
        warming.start()
        with suppress(KeyboardInterrupt):
            serve(app, sock)
        announce(f"ended; {run} was at {address}")
