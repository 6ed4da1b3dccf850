"""``lab gate self-test``: test the gate itself with injected faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import markdown
from lab.cli.options import Jobs
from lab.cli.output import announce, emit, emit_folded, emit_table
from lab.cli.replay_options import Embedder
from lab.cli.results import Result
from lab.report.tables import markdown_table, show

if TYPE_CHECKING:
    from lab.gate.selftest.faults import Fault
    from lab.gate.selftest.run import Report, Trial

FILES = "self-test.json", "self-test.md"


def self_test(
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="NAME", help="Inject only this fault. Repeat for more.")
    ] = None,
    faults: Annotated[
        Path | None, typer.Option(help="A TOML file with your own faults, instead of the shipped ones.")
    ] = None,
    patch: Annotated[
        list[Path] | None,
        typer.Option("--patch", help="Inject only this fault, a unified diff of lab/. Repeat for more."),
    ] = None,
    policy: Annotated[str, typer.Option(help="A shipped policy, or a TOML file.")] = "nightly",
    draws: Annotated[int, typer.Option(min=0, help="Number of A/A draws for each pair of arms.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    jobs: Jobs = 2,
    out: Annotated[Path | None, typer.Option(help="Write self-test.json and self-test.md into this folder.")] = None,
    embedder: Embedder = "all-MiniLM-L6-v2",
    listed: Annotated[bool, typer.Option("--list", help="List the faults and run nothing.")] = False,
) -> Result:
    """Test the gate: inject faults and list which are caught.

    Faults are injected into copies of the engine. Each faulty copy replays the shipped sets in its own process, and the
    unchanged code compares the results. Then A/A draws swap arm labels at random by conversation, and no
    draw may fail. Exit codes: 0 if 95 % of the faults are caught and no draw fails, else 1.
    """
    from lab.base.files import dump_json, write_atomically
    from lab.gate.policy import read_policy
    from lab.gate.selftest.run import REQUIRED
    from lab.gate.selftest.run import self_test as run
    from lab.gate.selftest.sandbox import shipped_replays

    chosen = _chosen(fault or [], faults, patch or [])
    if listed:
        return _list(chosen)
    judge = read_policy(policy)
    report = run(chosen, shipped_replays(embedder), judge, jobs=jobs, draws=draws, seed=seed, announce=announce)
    if out is not None:
        write_atomically(out / FILES[0], dump_json(report.as_json()))
        write_atomically(out / FILES[1], _markdown(report).encode())
    failed = None
    if report.kill_rate < REQUIRED:
        failed = CheckFailed(f"{report.kill_rate:.1%} of the faults were caught; {REQUIRED:.0%} are required")
    elif report.draws.failed:
        failed = CheckFailed(f"{report.draws.failed} A/A draws failed; none may fail")
    return Result(report, _show, error=failed)


def _chosen(names: list[str], file: Path | None, patches: list[Path]) -> list[Fault]:
    from lab.gate.selftest.faults import PACKAGE, edited, read_faults, require_distinct, shipped_faults
    from lab.gate.selftest.patch import read_patch

    given = [read_patch(path, PACKAGE) for path in patches]
    known = read_faults(file) if file else shipped_faults()
    by_name = {fault.name: fault for fault in known}
    for name in names:
        if name not in by_name:
            raise UnusableInput(f"unknown fault {name!r}; `lab gate self-test --list` lists the faults")
    # Patches replace the shipped faults, unless faults are selected as well.
    selected = [by_name[name] for name in dict.fromkeys(names)] or ([] if given and file is None else list(known))
    chosen = [*selected, *given]
    require_distinct(chosen)
    for fault in chosen:
        for path, text in edited(PACKAGE, fault).items():
            if path.endswith(".py"):
                _require_python(fault.name, path, text)
    return chosen


def _require_python(name: str, path: str, text: str) -> None:
    try:
        compile(text, path, "exec")
    except (SyntaxError, ValueError) as error:
        raise UnusableInput(f"fault {name!r}: {path} is no longer valid Python: {error}") from None


def _list(faults: list[Fault]) -> Result:
    listed = [
        {
            "fault": fault.name,
            "group": fault.group,
            "about": fault.about,
            "files": list(fault.files),
            "equivalent": fault.equivalent,
        }
        for fault in faults
    ]

    def show(listed: list[dict[str, Any]]) -> None:
        rows = [[fault["fault"], fault["about"]] for fault in listed]
        emit_table(["fault", "what it does"], rows, left=2, whole_keys=True)
        emit(f"{len(listed)} faults")

    return Result(listed, show, lambda listed: {"faults": listed})


HEADERS = ["fault", "caught by", "verdict", "turns", "largest drop", "s"]


def _rows(report: Report) -> list[list[object]]:
    return [
        [trial.fault.name, _caught(trial), trial.verdict, trial.effects.changed, _drop(trial), round(trial.seconds, 1)]
        for trial in report.trials
    ]


def _caught(trial: Trial) -> str:
    if trial.problem:
        return "does not run"
    return ", ".join(trial.layers) or ("equivalent" if trial.fault.equivalent else "NOTHING")


def _drop(trial: Trial) -> str | None:
    drop = trial.effects.drop
    return f"{drop.measure} {drop.by:.3f}" if drop else None


def _show(report: Report) -> None:
    emit_table(HEADERS, _rows(report), left=3)
    emit()
    for sentence in _sentences(report):
        emit_folded(sentence)


def _sentences(report: Report) -> list[str]:
    countable, draws = report.countable, report.draws
    caught = sum(trial.caught for trial in countable)
    layers = ", ".join(f"{name} {count}" for name, count in report.caught_by().items())
    sentences = [
        f"{caught} of {len(countable)} faults caught ({report.kill_rate:.1%}); of all {len(report.trials)}: {layers}",
        *(f"survived: {trial.fault.name}: {trial.fault.about} {trial.why}" for trial in report.survivors),
    ]
    for pair, statuses in draws.statuses.items() if draws.draws else ():
        counts = ", ".join(f"{status} {count}" for status, count in statuses.items())
        sentences.append(f"A/A, {draws.draws} draws over {pair.replay}, {pair.first} and {pair.second}: {counts}")
    if draws.nulls:
        rates = {name: count / draws.draws for name, count in draws.nulls.items() if "[" not in name}
        listed = ", ".join(f"{name} {rate:.1%}" for name, rate in rates.items())
        sentences.append(f"each rule alone, margin 0, significant at 5 % although neither arm is better: {listed}")
    sentences.append(
        f"{report.seconds:.0f} s in total; a replay without faults ({report.turns} turns) took "
        f"{report.sound_seconds:.1f} s; {_conclusion(report)} (policy {report.policy})"
    )
    return sentences


def _conclusion(report: Report) -> str:
    """Return the result of the self-test, worded so that it cannot be taken for the verdict of a gate."""
    from lab.gate.selftest.run import REQUIRED

    if len(report.trials) == 1:
        result = "caught" if report.trials[0].caught else "NOT CAUGHT"
    else:
        result = "enough faults caught" if report.kill_rate >= REQUIRED else "TOO FEW FAULTS CAUGHT"
    return f"{result}, and {report.draws.failed} A/A DRAWS FAILED" if report.draws.failed else result


def _markdown(report: Report) -> str:
    lines = ["# Self-test of the gate", "", *(f"* {markdown(sentence)}" for sentence in _sentences(report)), ""]
    rows = [[*map(show, row), trial.fault.about] for row, trial in zip(_rows(report), report.trials, strict=True)]
    return "\n".join([*lines, markdown_table((*HEADERS, "what it does"), rows, left=3)]) + "\n"
