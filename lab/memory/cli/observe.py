"""``lab memory observe``: write the observation log of each conversation of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.formatting import counted
from lab.cli import replay_options
from lab.cli.output import emit, emit_table
from lab.cli.results import Result


def observe(
    path: replay_options.Recordings,
    format: replay_options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="The folder for the logs, one per conversation.")],
    tokens: Annotated[
        int, typer.Option(min=16, max=1_000_000, help="Tokens of both blocks together: log and raw buffer.")
    ] = 1200,
    buffer: Annotated[
        float,
        typer.Option(min=0.05, max=0.95, help="The raw buffer's share of --tokens. The observer runs when it is full."),
    ] = 0.25,
    recorded: Annotated[
        Path | None,
        typer.Option(help="Use recorded outputs of an observer (JSON Lines) instead of the rules.", metavar="FILE"),
    ] = None,
) -> Result:
    """Compress conversations into logs of observations.

    Each log has one line per observation. The same command continues after a kill, or when a recording has grown.
    """
    from lab.base.files import file_name, only_writer, remove_leftovers, sha256_file
    from lab.recordings.readers import read_library
    from lab.systems.baselines.long_context import ROLES
    from lab.systems.observations.log_file import entries_of, keep_log
    from lab.systems.observations.observer import observer_of
    from lab.systems.observations.window import Sizes

    observer = observer_of(str(recorded or ""))
    settings = {"tokens": tokens, "buffer": buffer, "observer": sha256_file(recorded) if recorded else "rules"}
    recordings = read_library(path, format).recordings
    sizes = Sizes(tokens, int(tokens * buffer))
    with only_writer(out):
        remove_leftovers(out)
        kept = [
            keep_log(
                out / f"{file_name(recording.conversation)}.log",
                recording.conversation,
                entries_of(recording, ROLES),
                sizes,
                observer,
                settings,
            )
            for recording in recordings
        ]

    def show(found: dict[str, Any]) -> None:
        emit_table(
            ["conversation", "turns", "observed", "in the buffer", "observations", "tokens", "pruned now"],
            [
                [
                    *(log.conversation, log.entries, log.entries - log.buffer, log.buffer),
                    *(log.observations, log.tokens, log.pruned),
                ]
                for log in kept
            ],
        )
        new = sum(log.new for log in kept)
        emit(f"{found['out']}: {counted(len(kept), 'log')}, {counted(new, 'turn')} observed now")

    logs = [log._asdict() for log in kept]
    return Result({"kind": "lab.observe", "out": str(out), **settings, "logs": logs}, show)
