"""``lab golden judge``: in the terminal or in a browser."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.base.set_registry import recordings_at
from lab.cli.output import emit, emit_folded
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.cli.judge_desk import Desk
    from lab.golden.pool import Pool

PORT = 8643


def judge(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="A pool made by lab golden pool.")],
    out: Annotated[Path, typer.Option(help="The golden set to write, or to continue: GOLD.jsonl.")],
    judge: Annotated[
        str, typer.Option(help="Name of the judge. Only the same judge can continue a golden set.")
    ] = "me",
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="PATH", parser=recordings_at, help="Where the pool's recordings are now, if they moved."),
    ] = None,
    memories_from: Annotated[str | None, typer.Option(help="Where the pool's store is now, if it moved.")] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Judge on a page in a browser of this machine.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --browser: port on 127.0.0.1; 0 for any free port.")
    ] = PORT,
) -> Result:
    """Judge a pool in the terminal or in a browser.

    Grade, forbid and annotate memories. Every decision is saved at once. Press ? for the keys. Both ways write the
    same files, so that a judge can change from one to the other. --json prints the progress and judges nothing.
    """
    from lab.base.files import only_writer, remove_leftovers
    from lab.golden.judging import open_judging
    from lab.golden.pool import read_pool
    from lab.recordings.readers import not_among
    from lab.replay.pool import material

    pooled = read_pool(pool)
    not_among(recordings or Path(pooled.recordings), pooled.format, out)

    def at_desk(_: Pool) -> None:
        if not browser and not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UnusableInput(
                "lab golden judge needs a terminal for its keys; --browser shows a page instead, and --json prints the "
                "progress"
            )
        by_conversation = material(pooled, recordings, memories_from)
        with only_writer(out.resolve().parent):
            from lab.cli.judge_desk import Desk

            remove_leftovers(out.resolve().parent)
            judging = open_judging(pooled, out, judge)
            desk = Desk(judging, by_conversation)
            # Saving before the first key repairs what a killed process left, and reports a full disk in time.
            judging.save()
            if browser:
                _serve(desk, port)
            else:
                from lab.cli.judge_desk import judge as at_terminal

                at_terminal(desk)
            progress = judging.progress()
        emit_folded(
            f"{out}: {progress['done']} of {progress['turns']} turns done, {progress['skipped']} skipped, "
            f"{progress['relevant']} relevant, {counted(progress['unjudged'], 'memory')} unjudged. "
            + ("Run the same command to continue." if progress["open"] else f"Next: {next_command(pooled, out)}")
        )

    return Result(pooled, at_desk, lambda pooled: open_judging(pooled, out, judge).progress())


def _serve(desk: Desk, port: int) -> None:
    """Serve the page until Ctrl-C."""
    from lab.cli.judge_browser import JudgePage, make_app, new_secret
    from lab.view.app import LOOPBACK, listen, serve

    secret = new_secret()
    with listen(port) as sock:
        bound = sock.getsockname()[1]
        emit(f"http://{LOOPBACK}:{bound}/?key={secret}  (stop with Ctrl-C)")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            serve(make_app(JudgePage(desk), bound, secret), sock)


def next_command(pool: Pool, out: Path) -> str:
    """Return the next command: ``lab init`` again for the golden set that it reads, else ``lab golden lint``."""
    from lab.cli.init import GOLDEN, OUT, SNAPSHOTS
    from lab.host.snapshot import NAME, open_snapshot

    snapshot = Path(pool.recordings)
    if snapshot.parent.name == SNAPSHOTS and (snapshot / NAME).is_file():
        folder = snapshot.parent.parent
        if out.resolve() == (folder / GOLDEN).resolve():
            place = [] if folder.resolve() == OUT.resolve() else ["--out", str(folder)]
            home = open_snapshot(snapshot, check=False).home
            return f"{join(['lab', 'init', home, *place])}, with the options that you gave it before"
    source = ["--recordings", pool.recordings, "--format", pool.format]
    store = ["--memories-from", pool.memories_from] if pool.memories_from else []
    return join(["lab", "golden", "lint", str(out), *source, *store])
