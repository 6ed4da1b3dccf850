"""``lab canary agree``: compare the recalls of a live engine with the lab's at the same turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed
from lab.cli.output import SHOWN, announce, emit, emit_folded, emit_table
from lab.cli.replay_options import takes_replay_options
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.canary.agree.agreement import Agreement, Compared
    from lab.runs.request import ReplayRequest


@takes_replay_options(
    *("store", "profile", "memories_from", "scope", "limit", "conversation", "config", "embedder", "vectors"),
    defaults={"profile": "upstream", "scope": "tags"},
    fixed=True,
)
def agree(
    request: ReplayRequest,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            help="Source of the memories. given: --memories-from. tools: the agent's calls of memory_store in all "
            "conversations. seen: these, and every memory that a recorded search returned. [default: given with "
            "--memories-from, else tools]"
        ),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Smallest overlap of a recall that counts as agreement, in any order. [default: the same memories in "
            "the same order]",
        ),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Show the texts of the memories at the first differences.")
    ] = False,
) -> Result:
    """Compare the recalls of a live engine with the lab's.

    The recorded results of memory_recall and the injected blocks of a transcript are compared with what the lab's
    engine recalls at the same turns. Exit codes: 0 they agree, 1 they differ, 3 nothing is recorded to compare.
    """
    from lab.canary.agree.agreement import agreement

    result = agreement(request, source, announce=announce)
    return Result(
        result,
        lambda result: _show(result, least, texts=texts),
        lambda result: result.as_json(least, texts=texts),
        # A difference is a result, not an error, so no message.
        error=None if result.agrees(least) else typer.Exit(CheckFailed.exit_code),
    )


def _show(result: Agreement, least: float | None, *, texts: bool) -> None:
    from lab.canary.agree.causes import explained

    _show_embedder(result)
    names = _short([each.recorded.conversation for each in result.compared])
    listed = result.compared
    if len(listed) > SHOWN:
        # Those that differ, because only they need to be looked at.
        listed = tuple(sorted(listed, key=lambda each: each.is_equal)[:SHOWN])
    emit_table(
        ["turn", "kind", "live", "lab", "overlap", "tau", "order", "first difference"],
        [
            [
                f"{names[each.recorded.conversation]} {each.recorded.seq}",
                each.recorded.kind,
                each.recorded_count,
                each.lab_count,
                each.overlap,
                each.tau,
                "equal" if each.is_equal else "differs",
                f"{each.first.position}: {each.first.cause}" if each.first else "–",
            ]
            for each in listed
        ],
        left=2,
    )
    if len(listed) < len(result.compared):
        emit_folded(f"… and {len(result.compared) - len(listed)} more recalls (--json lists all)")
    for cause, count in result.causes.items():
        emit_folded(f"{cause} ({count}): {explained(cause)}")
    if result.source == "tools" and "absent" in result.causes:
        emit_folded("--source tools has only what the agent stored; --source seen adds what the searches returned")
    if texts:
        _show_texts(listed, names)
    emit()
    for kind, what in (("tool", "searches of the agent"), ("injected", "injected blocks")):
        _show_total(result.of(kind), what)
    _show_searches(result)
    emit()
    verdict = "AGREES" if result.agrees(least) else "DIFFERS"
    rule = "the same memories in the same order" if least is None else f"an overlap of at least {least:g}"
    emit_folded(f"{verdict}: {rule} at every recall is required.")


def _show_embedder(result: Agreement) -> None:
    """Say first whether other vectors were compared, because nothing else can then be concluded."""
    other = sum(each.other_embedder for each in result.compared)
    named = ", ".join(result.models)
    if other:
        emit_folded(
            f"embedder: {result.model} here, {named or 'another one'} in the live engine. At {other} of "
            f"{len(result.compared)} recalls the vectors were others, so the ranks may differ for this reason alone; "
            "give --embedder the live engine's model, and --vectors stored"
        )
        emit()


def _show_texts(compared: Sequence[Compared], names: dict[str, str]) -> None:
    for each in compared:
        if each.first:
            live = each.first.recorded.recorded.text if each.first.recorded else "(end)"
            here = each.first.lab.text if each.first.lab else "(end)"
            emit(f"{names[each.recorded.conversation]} {each.recorded.seq}, position {each.first.position}")
            emit_folded(f"  live: {' '.join(live.split())}")
            emit_folded(f"  lab: {' '.join(here.split())}")


def _show_total(compared: list[Compared], what: str) -> None:
    from lab.canary.agree.agreement import mean

    if not compared:
        emit_folded(f"{what}: none recorded")
        return
    equal = sum(each.is_equal for each in compared)
    taus = [each.tau for each in compared if each.tau is not None]
    tau = mean(taus)
    text = f"{what}: {equal} of {len(compared)} equal, mean overlap {mean(each.overlap for each in compared):.3f}"
    emit_folded(text + ("" if tau is None else f", mean tau-b {tau:.3f} over {len(taus)}"))
    gaps = [each.score_gap for each in compared if each.score_gap is not None]
    if gaps:
        emit_folded(f"{what}: largest difference of the scores of a common memory {max(gaps):.3g}")
    by_text = sum(each.by_text for each in compared)
    if by_text:
        emit_folded(f"{what}: {by_text} recorded memories were found in the store by their text, not by their id")


def _show_searches(result: Agreement) -> None:
    from lab.base.formatting import counted

    log = result.history
    per_turn = f" ({result.calls / log.user_turns:.3f} per turn)" if log.user_turns else ""
    failed = f"; {log.failed} without a usable result" if log.failed else ""
    by_host = f"; {log.by_host} more for messages of the host" if log.by_host else ""
    emit_folded(
        f"the agent searched by itself {counted(result.calls, 'time')} at {len(log.searching)} of {log.user_turns} "
        f"user turns{per_turn}{failed}{by_host}"
    )
    share = result.brought_share
    if share is not None:
        complete = sum(each.brought == each.recorded_count for each in result.brought)
        emit_folded(
            f"autoRecall at the same turns would have brought {share:.1%} of what the searches returned, and all of it "
            f"at {complete} of {len(result.brought)}"
        )


def _short(names: list[str]) -> dict[str, str]:
    """Return the shortest beginnings of conversation names, from 8 characters, that distinguish them."""
    known = sorted(set(names))
    longest = max(map(len, known), default=0)
    length = next((n for n in range(8, longest + 1) if len({name[:n] for name in known}) == len(known)), longest)
    return {name: name[:length] for name in known}
