"""The report of a run: one model, rendered as a self-contained HTML page and as Markdown.

``report.json`` and, but for the times in its table, ``report.md`` depend only on the run's receipts and gold, not on
the date or the machine, so that equal runs have equal reports. The HTML page also shows versions.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.files import digest, dump_json, write_atomically
from lab.base.formatting import code, markdown, number, visible
from lab.compare.paired import Comparison, Difference, compare_arms
from lab.gate.line import FAIL, deciding
from lab.gate.verdict import Verdict
from lab.measures.catalogue import direction
from lab.measures.score import headlines, score_run, summarise, with_judged
from lab.replay.command import arguments, portable, replay_command
from lab.report import charts
from lab.report.cards import SHOWN, flipped, groups_of, shows_texts
from lab.report.comparison import choose_pair, gains, notes, shown, worse
from lab.report.contrasts import Contrasts, arms_table, harm_of, harms_at, tiles_of
from lab.report.drawings import CAPTIONS, TIMELINE, drawings, gather
from lab.report.explanation import Again
from lab.report.material import busiest, capture_table
from lab.report.opening import Opening, alone, is_another_pair, opening_of, pair_of, result_sentence
from lab.report.sections import (
    Table,
    card_note,
    card_table,
    compared_table,
    contract_table,
    meanings,
    slice_tables,
    stage_table,
    verdict_model,
)
from lab.report.tables import markdown_table
from lab.report.units import mean_of, unbroken
from lab.runs.directory import REPORT, REPORT_DATA, RunDirectory
from lab.runs.notes import config_notes, sight_notes, trial_line, trial_of
from lab.runs.scores import Scores, read_gold


def versions(run: RunDirectory) -> dict[str, str]:
    """Return the versions that made the run: the lab, its code, Python, the platform and packages."""
    environment = run.manifest.environment
    git = environment.git
    names = {
        "recall lab": run.manifest.resolved.lab,
        "code": environment.code,
        "git commit": f"{git.commit}{' with uncommitted changes' if git.dirty else ''}" if git else None,
        "Python": environment.python,
        "platform": environment.platform,
    }
    return {name: str(value) for name, value in {**names, **environment.packages}.items() if value}


def hashes(run: RunDirectory) -> dict[str, str]:
    """Return the keys of the run, the identity of the embedder, and the sha256 of every file that was read."""
    resolved = run.manifest.resolved
    return {
        "run key": run.manifest.run_key,
        "comparable key": run.manifest.comparable_key,
        **{f"embedder {name}": str(value) for name, value in resolved.embedder.items()},
        **{f"golden {name}": value for name, value in resolved.golden.items()},
        **{f"recording {name}": value for name, value in resolved.recordings.items()},
    }


class Config(NamedTuple):
    """A configuration as indented JSON, its hash, and the arms that have it."""

    hash: str
    config: str
    arms: list[str]


def configs(run: RunDirectory) -> list[Config]:
    """Return each configuration of a run once."""
    by_hash: dict[str, Config] = {}
    for arm in run.manifest.resolved.arms:
        key = digest(arm.config)
        text = json.dumps(arm.config, ensure_ascii=False, indent=1)
        by_hash.setdefault(key, Config(key, text, [])).arms.append(arm.name)
    return list(by_hash.values())


__all__ = ["CAPTIONS", "build_report", "drawings", "render", "write_report"]

EXTRA_COLUMNS = ("LongestStreak", "NicePresence", "InjectedChars", "InjectedTokens")
# Longer lists are cut; the manifest has the rest.
MOST_HASHES, MOST_CONFIGS = 60, 12
# What report.json has.
DATA = ("title", "with_text", "facts", "arms", "columns", "table", "comparison", "slices")
# Measures whose turns are listed.
MOST_RISEN = 3
WITH_GOLD = "probes with gold"


class Built(NamedTuple):
    """The files of a report, HTML first, its first screen, and why a stale verdict is not shown, if there is one."""

    files: list[Path]
    opening: Opening
    stale: str | None = None


def build_report(
    run: RunDirectory,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    with_text: bool | None = None,
    turns: int = SHOWN,
    slides: bool = False,
) -> list[Path]:
    """Write a report and return its files; see :func:`write_report`."""
    return write_report(run, baseline, candidate, with_text=with_text, turns=turns, slides=slides).files


def write_report(
    run: RunDirectory,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    with_text: bool | None = None,
    turns: int = SHOWN,
    slides: bool = False,
    errata: Path | None = None,
) -> Built:
    """Write ``report.html``, ``report.md`` and ``report.json``; with ``slides``, the figures as SVG and PNG, too.

    Up to ``turns`` turns of each kind of change are shown: where a harm rose, and where a hit was lost or gained.
    ``with_text`` includes the texts of turns and memories; by default, those of sets that the project ships. With
    ``errata``, the scores of the arms stand beside those of the corrected golden set.
    """
    run.require_done()
    verdict, stale = verdict_model(run)
    if verdict and baseline is None and candidate is None:
        baseline, candidate = pair_of(verdict["of"], run)
    base, cand = choose_pair(run, baseline, candidate)
    scores = score_run(run)
    summary = summarise(scores, read_gold(run), run.arms)
    comparison = compare_arms(run, base, cand, slices=True, tested_slices=False, scores=scores) if cand else None
    with_text = shows_texts(run, with_text)
    model = _model(run, summary, comparison) | {"verdict": verdict, "stale": stale}
    model["errata"] = _corrected(run, errata)
    model |= _findings(run, scores, comparison, model, with_text=with_text, turns=turns)
    material = gather(run)
    found = drawings(run, summary, comparison, material)
    of_conversations = [name for name, drawing in found.items() if drawing.figure is TIMELINE]
    timelines = zip(busiest(material.shares.turns, len(of_conversations)), of_conversations, strict=True)
    model |= {
        "figures": {name: f'<div class="chart">{charts.html(drawing.chart)}</div>' for name, drawing in found.items()},
        "has_slides": slides,
        "timelines": [
            {"name": name, "conversation": conversation, "turns": material.shares.turns[conversation]}
            for conversation, name in timelines
        ],
        "words": {name: drawing.chart.words for name, drawing in found.items()},
        "captions": {name: drawing.figure.caption for name, drawing in found.items()},
        "placed": {
            section: [
                (name, drawing.figure.heading if name == drawing.figure.name else "")
                for name, drawing in found.items()
                if drawing.figure.section == section and drawing.figure is not TIMELINE
            ]
            for section in SECTIONS
        },
        "repeatable": [name for name, drawing in found.items() if drawing.figure.repeatable],
        "stages": stage_table(material.stages),
        "essentials": card_table(summary["arms"], material.stages, run.cutoff),
        "essentials_note": card_note(run.cutoff, material.stages),
    }
    model["sections"] = [(name, heading) for name, heading in SECTIONS.items() if _has(model, name)]
    # The viewer shows a page with texts of others only if it may show texts itself.
    data = {key: model[key] for key in DATA} | {"with_text": with_text and not shows_texts(run, None)}
    outputs = {
        run.path / REPORT: render("page.html.j2", model),
        run.path / "report.md": render("page.md.j2", model),
        run.path / REPORT_DATA: dump_json(data),
    }
    for path, content in outputs.items():
        write_atomically(path, content)
    files = [*outputs, *(write_slides(run.path, {name: one.chart for name, one in found.items()}) if slides else ())]
    return Built(files, model["opening"], model["stale"])


def _corrected(run: RunDirectory, errata: Path | None) -> dict[str, Any] | None:
    if errata is None:
        return None
    from lab.measures.corrected import with_errata
    from lab.report.errata import ceiling_sentence, means_table, sentence, summaries

    found = with_errata(run, errata)
    return {
        "sentence": sentence(found),
        "table": means_table(found, *summaries(found)),
        "ceiling": ceiling_sentence(found),
    }


def write_slides(folder: Path, found: Mapping[str, charts.Chart]) -> list[Path]:
    """Write ``figures/NAME.svg`` and ``.png`` of each figure."""
    from lab.report.slides import draw, save

    return [file for name, one in found.items() for file in save(draw(one), folder / "figures" / name)]


def _model(run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None) -> dict[str, Any]:
    resolved = run.manifest.resolved
    facts = {
        "conversations": len(resolved.conversations),
        WITH_GOLD: next(iter(summary["arms"].values()))["n"],
        "format": resolved.format,
        "memories": resolved.memories,
        "haystack": run.haystack,
        "labels": run.labels,
        "scope": resolved.scope,
        "profile": resolved.profile,
        "store": resolved.store,
        "items injected at most": run.cutoff,
        "embedder": resolved.embedder_model,
        "run key": run.manifest.run_key[:12],
    }
    names = [
        name
        for name in with_judged((*headlines(run.cutoff), *EXTRA_COLUMNS))
        if any(means["measures"].get(name) is not None for means in summary["arms"].values())
    ]
    primary = shown(comparison) if comparison else []
    table = [[arm, *(means["measures"].get(name) for name in names)] for arm, means in summary["arms"].items()]
    known, arms = hashes(run), configs(run)
    trial = trial_line(trial_of(run))
    contract = contract_table(summary["arms"], run.cutoff)
    return {
        "title": f"Recall report ({trial})" if trial else "Recall report",
        "sentence": result_sentence(comparison, f"{run.labels}, {run.haystack}") if comparison else alone(run, summary),
        "embedder": (*run.manifest.notes, *config_notes(resolved), *sight_notes(resolved)),
        "facts": facts,
        "arms": run.arms,
        "columns": names,
        "table": table,
        "arms_table": Table(
            "Scores of the arms", ("arm", *names), [[arm, *map(mean_of, names, values)] for arm, *values in table]
        ),
        "comparison": replace(comparison, slices=()).as_json() if comparison else None,
        "compared": compared_table(comparison, primary) if comparison else None,
        "notes": notes(comparison, primary, has_harms=False) if comparison else [],
        "gains": gains(comparison) if comparison else "",
        "lower": [name for name in names if direction(name) == "lower"],
        "cutoff": run.cutoff,
        "slices": summary["slices"],
        "slice_tables": slice_tables(summary["slices"], run.arms, run.cutoff, comparison),
        "contract": contract,
        "stored": capture_table(run),
        "meanings": {
            section: meanings(headers) for section, headers in (("arms", names), ("contract", contract.headers))
        },
        "versions": versions(run),
        "hashes": dict(list(known.items())[:MOST_HASHES]),
        "more_hashes": max(0, len(known) - MOST_HASHES),
        "configs": arms[:MOST_CONFIGS],
        "more_configs": max(0, len(arms) - MOST_CONFIGS),
        "command": replay_command(portable(arguments(run.manifest))),
    }


def _findings(
    run: RunDirectory,
    scores: Scores,
    comparison: Comparison | None,
    model: Mapping[str, Any],
    *,
    with_text: bool,
    turns: int,
) -> dict[str, Any]:
    """Return the first screen, the table of arms, and the turns that changed."""
    verdict = model["verdict"]["of"] if model["verdict"] else None
    harm = harm_of(comparison, verdict) if comparison else None
    rose = _rose(comparison, verdict, harm) if comparison else []
    hits = f"Success@{comparison.cutoff}" if comparison else ""
    contrasts = Contrasts(run, scores, [*model["columns"], hits, *(measure for measure, _ in rose)])
    candidate = comparison.candidate if comparison else ""
    changed = [found for name, arm in rose if (found := contrasts.changed(arm, candidate, name)) and found.worse]
    again = Again(run)
    flips = flipped(run, comparison, with_text=with_text, most=turns, again=again) if comparison else None
    groups = (
        groups_of(run, comparison, flips, changed, with_text=with_text, most=turns, again=again)
        if comparison and turns
        else []
    )
    is_other = bool(comparison and verdict and (verdict.against or is_another_pair(verdict, comparison, run)))
    return {
        "trial": trial_of(run),
        # The tiles and turns compare two arms of this run, which may not be what the policy compared.
        "beside": f"{comparison.candidate} against {comparison.baseline}, in this run" if comparison else "",
        "is_other": is_other,
        "opening": opening_of(run, verdict, comparison, changed[0] if changed else None, model["facts"][WITH_GOLD]),
        "tiles": tiles_of(run.arms, comparison, contrasts, harm),
        "arms_rows": arms_table(run, contrasts, model["columns"]),
        "groups": groups,
        "problem": flips.problem if flips else None,
        "with_text": with_text,
        "script": page_script(),
    }


def worse_turn(run: RunDirectory, verdict: Verdict) -> str | None:
    """Return the turn that a report of the run names first as worse; None for a verdict that does not fail."""
    base, cand = pair_of(verdict, run)
    if verdict.status != FAIL or verdict.against or not (base and cand):
        return None
    scores = score_run(run)
    comparison = compare_arms(run, base, cand, scores=scores)
    rose = _rose(comparison, verdict, harm_of(comparison, verdict))
    contrasts = Contrasts(run, scores, [measure for measure, _ in rose])
    changed = (contrasts.changed(arm, cand, measure) for measure, arm in rose)
    return next((found.worse[0] for found in changed if found and found.worse), None)


def _rose(comparison: Comparison, verdict: Verdict | None, harm: Difference | None) -> list[tuple[str, str]]:
    """Return the measures whose turns are shown, each with the arm to compare with.

    These are the measures that fail the policy, then the harms that are shown to be worse.
    """
    values = {difference.measure for difference in comparison.differences}
    base = comparison.baseline
    failing = [
        (line.measure, line.against or base)
        for line in (deciding(verdict.lines, FAIL) if verdict and not verdict.against else ())
        if line.measure in values and not line.slice
    ]
    shown_worse = [(one.measure, base) for one in worse(comparison) if one.measure in harms_at(comparison.cutoff)]
    risen = [(harm.measure, base)] if harm else []
    return list(dict.fromkeys([*failing, *shown_worse, *risen]))[:MOST_RISEN]


SECTIONS = {
    "flips": "Turns that changed",
    "comparison": "Differences and confidence intervals",
    "verdict": "Verdict by rule",
    "arms": "Arms",
    "contract": "Safety checks and harms",
    "slices": "Slices",
    "turns": "Turn by turn",
    "saturation": "Increasing the must_remember share",
    "stored": "What was stored",
    "latency": "Time of the replay by stage",
    "run": "Run",
}


def _has(model: dict[str, Any], section: str) -> bool:
    """Return whether a section has content: figures, or what it shows besides."""
    return bool(model["placed"][section]) or {
        "verdict": bool(model["verdict"]),
        "comparison": bool(model["compared"]),
        "saturation": False,
        "flips": bool(model["groups"] or (model["comparison"] and model["comparison"]["probes"])),
        "slices": bool(model["slice_tables"]),
        "stored": bool(model["stored"]),
        "contract": bool(model["contract"].rows),
        "latency": bool(model["stages"]),
    }.get(section, True)


def render(template: str, model: dict[str, Any]) -> bytes:
    """Render one of the package's templates.

    Everything in HTML is escaped. Ids and names are other people's, so no character may control a terminal or turn the
    direction of a line: it becomes a visible escape.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lab.report", "templates"),
        autoescape=template.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Markup, such as a chart or a text of a memory that was escaped, stays as it is.
        finalize=lambda value: unbroken(value) if type(value) is str else value,
    )
    environment.filters["number"] = number
    environment.filters["digest"] = _digest
    environment.filters |= {"markdown": markdown, "code": code}
    environment.filters["rows"] = lambda table, left=1: markdown_table(table.headers, table.rows, left)
    return visible(environment.get_template(template).render(model)).encode()


def page_script() -> str:
    """Return the script of the pages: sorting, copying, and opening what a link points to."""
    return Path(__file__).with_name("templates").joinpath("page.js").read_text("utf-8")


def _digest(script: str) -> str:
    """Return the hash by which the page's security policy allows its one script."""
    return b64encode(sha256(script.encode()).digest()).decode()
