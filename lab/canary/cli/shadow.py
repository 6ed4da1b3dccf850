"""``lab canary shadow``: what a change would have done at the recalls that a live engine made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import NotComparable, UnusableInput
from lab.base.formatting import counted
from lab.base.progress import each_once
from lab.canary.cli.canary import seconds_of
from lab.cli.output import announce, emit, emit_folded, emit_next, emit_table
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.canary.agree.cost import PromptCost
    from lab.canary.rollout.shadow import Shadow
    from lab.compare.statistics import Estimate


def shadow(
    home: Annotated[Path, typer.Argument(help="The folder of an OpenClaw host, such as ~/.openclaw. It is only read.")],
    *,
    candidate: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The configuration to try: an openclaw.json, or its section of the engine."),
    ],
    embedder: Annotated[
        str,
        typer.Option(
            help="The host's embedding model, openai:MODEL@URL, to which the prompts are sent unless they are in the "
            "lab's cache. Memories keep the vectors of the store."
        ),
    ],
    log: Annotated[
        Path | None,
        typer.Option(
            help="The gateway's log, with those it was rotated to; a * stands for its date. [default: logging.file of "
            "the configuration]"
        ),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="The LanceDB folder. [default: dbPath of the configuration]")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The prices of your model provider, TOML or JSON, for what the blocks cost."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the snapshot, the runs and shadow.json.")] = Path(
        "reports/shadow"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    follow: Annotated[
        str | None,
        typer.Option(metavar="EVERY", help="Look again every 90s, 10m or 4h, if the log has grown, until it is ended."),
    ] = None,
    period: Annotated[str | None, typer.Option("--for", help="End --follow after 90m, 4h or 30d.")] = None,
) -> Result:
    """Try a configuration on the recalls that a live engine made.

    Every recall in the gateway's log is made again over the sessions and the store of HOME, under its own configuration
    and the candidate. Its own blocks must equal the injected ones in 97 % of the recalls, or nothing is said about the
    candidate; else what would change, with intervals by session. Call it again to catch up: only sessions with
    something new are replayed. Exit codes: 0 done, 3 the lab's blocks differ from the injected ones or nothing is
    logged, 2 unusable input, 4 a replay failed.
    """
    from lab.canary.agree.cost import read_prices
    from lab.canary.rollout.follow import log_files
    from lab.canary.rollout.shadow import forget
    from lab.canary.rollout.shadow import shadow as made
    from lab.cli.baseline import today
    from lab.host.home import logged_to, look

    if period and not follow:
        raise UnusableInput("--for: is the time after which --follow ends; give --follow too")
    pause = seconds_of(follow, "--follow") if follow else None
    until = time.monotonic() + (seconds_of(period, "--for") if period else math.inf)
    costs = read_prices(prices) if prices is not None else None
    tell = each_once(announce)

    def looked(before: Shadow | None = None) -> Result:
        host = look(home, store=store, log=log)
        named = log or logged_to(host.value, home)
        if host.log is None and named is not None and log_files(named)():
            # The name stands for those of other days.
            host = replace(host, log=named)
        sizes = partial(_sizes, log_files(host.log) if host.log else list)
        seen = sizes()
        found = made(host, candidate, out, embedder=embedder, date=today(), prices=costs, jobs=jobs, announce=tell)
        if before is not None:
            forget(before, found)
        missing = None if found.proof.holds else NotComparable(_not_proven(found))

        def again() -> Result | None:
            while pause is not None and time.monotonic() + pause < until:
                time.sleep(pause)
                if sizes() != seen:
                    return looked(found)
            if missing is not None:
                raise missing
            return None

        return Result(found, lambda found: _show(found, out, is_first=before is None), then=again)

    return looked()


def _sizes(files: Callable[[], list[Path]]) -> list[tuple[Path, int]]:
    """Return the sizes of files that are there."""
    return [(file, file.stat().st_size) for file in files() if file.exists()]


def _not_proven(found: Shadow) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(found.proof.differing.items()))
    return (
        f"the lab does not build this engine's blocks ({kinds}), so nothing is said about the candidate; lab canary "
        "agree and lab config check may show why"
    )


def _show(found: Shadow, out: Path, *, is_first: bool) -> None:
    from lab.canary.rollout.shadow import GOLD, LEAST

    proof = found.proof
    if not is_first:
        emit()
    for note in found.notes:
        emit_folded(note)
    emit_folded(
        f"{proof.equal} of {proof.recalls} present blocks equal the injected ones ({proof.share:.1%}; at least "
        f"{LEAST:.0%} are required)"
    )
    for fault, count in proof.restored.items():
        emit_folded(f"  {count} of them under the fault that the receipt names: {fault}")
    if proof.late:
        emit_folded(f"  {proof.late} of them because the engine read an old version of its table")
    if proof.without:
        emit_folded(f"{proof.without} recalls have no user's turn in the sessions, and are left out")
    if found.run is None:
        return
    emit()
    emit_folded(f"{len(found.turns)} of {proof.recalls} blocks would change.")
    rows = [
        ["blocks that change", *_cells(found.changed, "{:.1%}")],
        ["memories that come in", *_cells(found.comes)],
        ["memories that go out", *_cells(found.goes)],
        ["share of must memories, change", *_cells(found.must)],
        *([f"{one.measure}, change", *_cells(one.estimate)] for one in found.differences),
    ]
    emit_table(["per recall", "mean", "95 % interval by session"], rows)
    if found.prompt is not None:
        _show_prompt(found.prompt)
    emit()
    judged = next((one.n for one in found.differences if one.measure.startswith("Success@")), 0)
    if not judged:
        emit_folded("Only a judge can say whether the incoming memories are relevant.")
    if found.pool is not None:
        said = f"Judged so far: {counted(judged, 'turn')}." if judged else "The most telling turns wait to be judged."
        emit_next(f"{said} The same command then takes them in.", f"lab golden judge {found.pool} --out {out / GOLD}")
    emit_next("All of it in a browser.", f"lab view {found.run.path}")


def _show_prompt(cost: PromptCost) -> None:
    from lab.canary.agree.cost import BEFORE

    emit()
    heading = ["blocks", "where they stand", "prefix kept", "tokens", "cached"]
    price = f"{cost.prices.currency} per 1,000 turns" if cost.prices else None
    rows = [
        [
            row.configuration,
            row.place.replace("_", " ") if row.place != row.configuration else "–",
            f"{row.kept.mean:.1%}" if row.kept else "–",
            *(f"{one.mean:,.0f}" if one else "–" for one in (row.prompt, row.cached)),
            *([f"{row.price.mean:,.2f}"] if row.price else []),
        ]
        for row in cost.rows
    ]
    emit_table([*heading, *([price] if price else [])], rows)
    fixed = (
        f"{cost.fixed:,} tokens of tools and system prompt"
        if cost.fixed
        else "no tools and no system prompt, as the usage fields of the sessions do not give their length"
    )
    ratio = f"; the provider counts {cost.ratio:.2f} where the estimate is 1" if cost.ratio is not None else ""
    emit_folded(
        f"Means of {cost.turns:,} turns in the lab's estimate of tokens{ratio}. Each of the {cost.calls:,} prompts has "
        f"{fixed}."
    )
    emit()
    emit_table(
        [f"change, {BEFORE.replace('_', ' ')}", "mean", "95 % interval by session"],
        [
            ["prefix kept", *_cells(cost.change.kept, "{:+.2%}")],
            ["tokens", *_cells(cost.change.prompt)],
            ["cached tokens", *_cells(cost.change.cached)],
            *([[f"{cost.prices.currency} per 1,000 turns", *_cells(cost.change.price)]] if cost.prices else []),
        ],
    )
    seen = cost.calls - cost.without_usage
    emit_folded(
        f"What the provider reported for {seen:,} of these calls: {cost.reported.prompt:,} tokens, of which "
        f"{cost.reported.cache_read:,} were read from its cache and {cost.reported.cache_write:,} written to it."
    )


def _cells(estimate: Estimate | None, form: str = "{:+.3f}") -> list[str]:
    if estimate is None:
        return ["–", "–"]
    interval = "too few sessions"
    if estimate.low is not None and estimate.high is not None:
        interval = f"{form.format(estimate.low)} … {form.format(estimate.high)}"
    return [form.format(estimate.mean), interval]
