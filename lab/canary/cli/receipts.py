"""``lab canary audit``, ``show`` and ``limits``: what the receipts in the logs of a live engine say."""

from __future__ import annotations

import time
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.completion import policies
from lab.cli.options import in_utc
from lab.cli.output import announce, emit, emit_folded, emit_hanging, emit_table
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.canary.audit.audit import LastReceipt
    from lab.canary.audit.limits import Derived

SHOWN = 20
# The figures of the stage-b policy: their names in policies, a description, and the name of the denominator.
FIGURES = (
    ("damage.rate", "damaged lines", "damage.of"),
    ("errors.rate", "recalls that failed", "errors.attempts"),
    ("skips.rate", "skipped", "recalls.receipts"),
    ("recalls.empty_rate", "empty answers", "recalls.answered"),
    ("recalls.items_mean", "items per recall", "recalls.answered"),
    ("policy_tier.other.count", "unknown policy tier", "recalls.answered"),
    ("must.share", "must share of items", "scope.items"),
    ("must.highest_window", "max over windows", "must.windows"),
    ("tiers.nice.final_share", "nice share of items", "scope.items"),
    ("repeat.rate", "RepeatRate", "repeat.turns"),
    ("repeat.dominance", "RepeatDominance", "recalls.answered"),
    ("repeat.longest_streak", "longest run of an id", "recalls.answered"),
    ("repeat.distinct_share", "distinct in 100 recalls", "repeat.distinct_windows"),
    ("stale.rate", "stale answers", "stale.recalls"),
    ("stale.vec_rate", "stale vectors", "stale.vec_recalls"),
    ("stale.worst_window", "stale, worst window", "stale.recalls"),
    ("stale.vec_worst_window", "vectors, worst window", "stale.vec_recalls"),
    ("pairs.injected_rate", "injected twice", "recalls.answered"),
    ("lanes.without_fts_share", "no text lane", "lanes.with_hits"),
    ("lanes.without_vec_share", "no vector lane", "lanes.with_hits"),
    ("lanes.worst_window_without_fts", "text, worst window", "lanes.with_hits"),
    ("lanes.worst_window_without_vec", "vector, worst window", "lanes.with_hits"),
    ("provider.rate", "prompts without vector", "recalls.answered"),
    ("provider.worst_window", "worst window of these", "recalls.answered"),
    ("lanes.fts_share", "found by text search", "lanes.items"),
    ("lanes.vec_share", "found by vectors", "lanes.items"),
    ("lanes.neither_share", "found by neither", "lanes.items"),
    ("lanes.listed_share", "in a lane's list", "lanes.items"),
    ("quota.must_max_reached", "mustMax reached", "quota.recalls"),
    ("quota.must_max_exceeded", "mustMax exceeded", "quota.recalls"),
    ("quota.nice_floor_met", "nice minimum met", "quota.nice_there"),
    ("quota.wildcard_rate", "wildcard used", "quota.recalls"),
    ("quota.overrun_rate", "quota exceeded", "quota.recalls"),
    ("limits.items_most", "max items", "recalls.answered"),
    ("limits.uneven_rate", "limit not kept", "recalls.answered"),
    ("limits.listed_over", "lists too long", "recalls.answered"),
    ("scope.fallback_consulted_rate", "fallback consulted", "recalls.answered"),
    ("scope.outside_share", "items of other scopes", "scope.items"),
    ("scope.unexplained", "without a fallback", "scope.items"),
    ("budget.truncated_rate", "truncated to budget", "budget.recalls"),
    ("budget.over", "over the budget", "budget.recalls"),
    ("budget.cut_rate", "cut inside a memory", "budget.recalls"),
    ("budget.bare_rate", "without any memory", "budget.recalls"),
)


def audit(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG", help="Gateway logs, plain, compressed, or as a collector keeps them; - for stdin."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the audit to this file, for lab gate.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"], callback=in_utc, help="Leave out lines before (UTC)."),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            help="The host's folder, such as ~/.openclaw: its turns tell sessions, and bounds of what recalls took."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if a line is damaged.")] = False,
    listed: Annotated[int, typer.Option(min=0, help="Number of damaged lines to list; all are counted.")] = SHOWN,
) -> Result:
    """Check and summarise the receipts in the logs of a live engine.

    Other lines of the logs are ignored. The audit contains counts, shares and line numbers, never texts of memories.
    """
    from lab.base.files import dump_json, write_atomically
    from lab.canary.agree.logged import Whose, whose
    from lab.canary.audit.audit import audit as read_logs
    from lab.canary.audit.audit import require_replaceable
    from lab.canary.audit.lines import STDIN
    from lab.canary.audit.waits import waits
    from lab.gate.receipts import nothing_found, unreadable

    if out is not None:
        require_replaceable(out, logs)
    found = whose([Path(log) for log in logs], home) if home is not None and STDIN not in logs else Whose({})
    result = read_logs(
        logs, listed=listed, tell=announce, since=since, sessions=found.sessions, others=found.others, now=time.time()
    )
    if reason := unreadable(result):
        raise UnusableInput(reason)
    if home is not None:
        result["latency"] = waits(logs, home, since, found.others)
    if out is not None:
        write_atomically(out, dump_json(result))
    empty, damaged = nothing_found(result), result["damage"]["lines"]
    wrong = empty or (counted(damaged, "damaged line") if damaged else None)
    error = CheckFailed(f"{', '.join(logs)}: {wrong}") if strict and wrong else None

    def show(result: dict[str, Any]) -> None:
        if empty is None:
            _show(result, out)
        elif not error:
            emit_folded(empty)
            if out is not None:
                emit(f"written: {out}")

    def plain(result: dict[str, Any]) -> dict[str, Any]:
        if empty and not error:
            announce(empty)
        return result

    return Result(result, show, plain, error=error)


def show(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="A gateway log, plain, compressed, or as a collector keeps it; - for stdin."
        ),
    ],
    last: Annotated[int, typer.Option(min=1, help="Number of recalls to print, the latest last.")] = 1,
) -> Result:
    """Print the last recall receipts of a log, each on one screen.

    Each injected item has the decision that selected it; each must memory that lost its place has the reason. At most
    24 lines of 80 columns for each receipt, without texts of memories; on a narrower terminal they are folded. If a
    host calls the engine twice in a turn, the two receipts count as one recall.
    """
    from lab.canary.audit.audit import last_receipts
    from lab.systems.openclaw.recall.screen import receipt_screen

    def show(recalls: list[LastReceipt]) -> None:
        for at, recall in enumerate(recalls):
            if at:
                emit()
            twice = ", because the host called the engine twice in this turn"
            emit(f"{log}:{recall.line}" + (f" and {recall.again}{twice}" if recall.again else ""))
            for line in receipt_screen(recall.receipt):
                emit_hanging(line)

    found = last_receipts(log, last)
    return Result(found, show, lambda recalls: {"receipts": [recall._asdict() for recall in recalls]})


def limits(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG", help="Gateway logs of the window before the switch, as lab canary audit reads."),
    ],
    policy: Annotated[
        str, typer.Option(help="The policy to start from: a shipped one or a file (TOML).", autocompletion=policies)
    ] = "stage-b",
    out: Annotated[Path | None, typer.Option(help="Write the policy with these limits to this file.")] = None,
) -> Result:
    """Derive the limits of a policy from what this host recorded.

    Limits on repeats, must memories and the text lane depend on the size of the store and on what people ask. Each is
    loosened to the value of the given window and a margin for chance, and is never tightened. Give a window without a
    known fault: its faults are allowed from then on.
    """
    from lab.base.files import cannot_write, read_text, write_atomically
    from lab.canary.audit.audit import audit as read_logs
    from lab.canary.audit.limits import about_window, derive, receipts_of, write_limits
    from lab.gate.policy import read_policy
    from lab.gate.shipped import SHIPPED, shipped_policies

    chosen = read_policy(policy)
    file = SHIPPED / f"{policy}.toml" if policy in shipped_policies() else Path(policy)
    receipts = receipts_of(logs)
    found, about = derive(chosen, receipts, read_logs(logs, ended=True)), about_window(logs, receipts)
    if out is not None:
        if out.exists():
            raise UnusableInput(f"--out {out}: exists; choose a new file")
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(out, error) from error
        write_atomically(out, write_limits(read_text(file), found, about).encode())

    def show(found: list[Derived]) -> None:
        emit_folded(f"{about}.")
        emit()
        rows = [[one.measure, f"{one.shipped:g}", f"{one.window:.3g}", f"{one.limit:g}"] for one in found]
        emit_table(["figure", policy, "this window", "limit"], rows)
        emit()
        if out is None:
            emit_folded("Nothing was written; --out FILE writes the policy.")
        else:
            emit_folded(f"{out}: the policy with these limits, and the reason beside each.")
            emit_hanging(f"Next: lab gate AUDIT --policy {out}")

    def as_json(found: list[Derived]) -> dict[str, Any]:
        return {"about": about, "limits": [one._asdict() for one in found], "out": str(out) if out else None}

    return Result(found, show, as_json)


def _show(result: dict[str, Any], out: Path | None) -> None:
    from lab.gate.receipts import notes

    recalls, damage = result["recalls"], result["damage"]
    emit(
        f"{counted(result['lines'], 'line')} of {counted(len(result['files']), 'log')}, "
        f"{counted(recalls['receipts'], 'valid recall receipt')}"
    )
    if result["first_time"]:
        emit(f"{result['first_time']} to {result['last_time']}")
    emit()
    emit_table(
        ["figure", "meaning", "value", "n"],
        [[path, meaning, _at(result, path), _at(result, n)] for path, meaning, n in FIGURES],
        left=2,
    )
    emit()
    for title, key in (("selection", "selection_mode"), ("policy tier", "policy_tier"), ("rejected", "rejected")):
        emit_folded(f"{title}: " + _counts({name: part["count"] for name, part in result[key].items()}))
    for note in notes(result):
        emit_folded(f"note: {note}")
    if "latency" in result:
        emit_folded(f"latency: {_latency(result['latency'])}")
    emit_folded("damaged lines: " + _counts(damage["by_kind"]))
    for line in damage["listed"]:
        emit(f"damaged: {line['file']}:{line['line']}: {line['what']}")
    if damage["lines"] > len(damage["listed"]):
        emit(f"… and {damage['lines'] - len(damage['listed'])} more (--listed N lists N)")
    if out is not None:
        emit(f"written: {out}")


def _latency(found: dict[str, Any]) -> str:
    """Return the bounds of what recalls took, in words."""
    words = []
    for name in ("p50", "p95", "p99"):
        low, high = (found[name][side] for side in ("low", "high"))
        if high is None:
            words.append(f"{name} n too small")
        else:
            words.append(f"{name} between {low['value'] if low else 0:.0f} and {high['value']:.0f} ms")
    skipped = counted(found["skipped"], "skipped recall")
    own = f"{skipped} show {found['host_ms']:g} ms of the host's own" if found["host_ms"] is not None else skipped
    left = f"; {found['without']} are in no recorded turn" if found["without"] else ""
    return f"{', '.join(words)} (over {counted(found['recalls'], 'recall')}; {own}{left})"


def _at(result: dict[str, Any], path: str) -> Any:
    return reduce(lambda value, part: value[part], path.split("."), result)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "none"
