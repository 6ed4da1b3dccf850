"""The end of every study: its page, its slides, and what the command prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lab.cli.output import emit, emit_folded, emit_json, emit_table, emit_trial

if TYPE_CHECKING:
    from lab.report.study import Study


def finish(study: Study, out: Path, *, slides: bool, as_json: bool) -> None:
    """Write the page, and with ``slides`` the figures; print the study as JSON or as tables."""
    from lab.report.study import write_study

    page, drawn = write_study(study, out, slides=slides)
    if as_json:
        emit_json({**study.data, "page": str(page), "figures": [str(file) for file in drawn]})
        return
    emit_trial(list(study.trial))
    if study.about:
        emit_folded(study.about)
    for part in study.parts:
        if part.lead:
            emit()
            emit_folded(part.lead)
        emit_table(list(part.headers), [list(row) for row in part.rows], left=part.left)
    if len(study.parts) > 1 or study.parts[0].lead:
        emit()
    for note in study.notes:
        emit_folded(note)
    emit(f"Page: {page}" + (f". Slides: {', '.join(map(str, drawn))}" if drawn else ""))
