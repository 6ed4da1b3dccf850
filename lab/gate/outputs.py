"""A verdict in machine-readable form: JSON, JUnit XML, OpenMetrics text, and a GitHub step summary."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json, read_text, write_atomically
from lab.base.formatting import counted, markdown, number
from lab.base.regex import regex
from lab.compare.comparable import named
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, NOT_HERE, PASS, SKIPPED, Line, deciding
from lab.gate.receipts import undone
from lab.gate.record import Inputs
from lab.gate.scheduled import CONTROL as NOT_SWITCHED
from lab.gate.sessions import decision
from lab.gate.verdict import NO_AUDIT, SCHEMA, Answer, Verdict
from lab.measures.catalogue import entry_of, in_words
from lab.measures.model import SHARE, YES
from lab.runs.directory import VERDICT
from lab.runs.notes import trial_line


def read_verdict(path: Path) -> Verdict:
    """Read a verdict; raise :class:`UnusableInput` if the file is not a verdict of this version."""
    verdict = verdict_of(read_json(path), str(path))
    # A guard, or lab canary recover, rolls back after the verdict was written.
    return replace(verdict, undone=verdict.undone or undone(path.parent)) if verdict.audit else verdict


def verdict_of(data: Any, path: str) -> Verdict:
    """Return a verdict from the JSON values that it was written as; ``path`` names them in messages."""
    try:
        if data["schema"] != SCHEMA:
            raise UnusableInput(f"{path}: not a verdict of this version; run `lab gate` again")
        plain = {name: value for name, value in data.items() if name not in ("schema", "lines", "evidence", "control")}
        evidence = Inputs(**data["evidence"]) if data.get("evidence") else None
        control = Answer(**data["control"]) if data.get("control") else None
        lines = tuple(Line(**line) for line in data["lines"])
        return Verdict(**plain, lines=lines, evidence=evidence, control=control)
    except (AttributeError, KeyError, TypeError) as error:
        raise UnusableInput(
            f"{path}: not a verdict of `lab gate` ({error}); remove it, or run `lab gate` again"
        ) from None


STATES = (PASS, FAIL, INCONCLUSIVE, ERROR)
OUTPUTS = (VERDICT, "verdict.xml", "verdict.prom")
# GitHub shows this many annotations of a step; a summary of this many bytes fits a comment as well.
MOST_ANNOTATIONS = 10
MOST_SUMMARY = 60_000
# Failing rules that the headline puts in words; what follows it lists all.
MOST_NAMED = 3
_MOST_CELL = 2_000
_NOT_XML = regex("[^\\t\\n\\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_METRICS_BEGIN = "# HELP lab_gate_verdict "


def write_verdict(verdict: Verdict, folder: Path) -> list[Path]:
    """Write verdict.json, verdict.xml (JUnit) and verdict.prom (OpenMetrics) into a folder, each atomically.

    Raises :class:`UnusableInput`, and writes nothing, if a file of one of these names is not a verdict.
    """
    contents = (dump_json(verdict.as_json()), junit(verdict), openmetrics(verdict).encode("utf-8", "replace"))
    files = {folder / name: content for name, content in zip(OUTPUTS, contents, strict=True)}
    for path in files:
        if path.exists() and not _is_ours(path):
            raise UnusableInput(f"{path}: exists and is not a verdict of `lab gate`; choose another --out")
    for path, data in files.items():
        write_atomically(path, data)
    return list(files)


def remove_verdict(folder: Path) -> None:
    """Remove the files of an earlier verdict from a folder in which a later judgement ended without one."""
    for name in OUTPUTS:
        if (folder / name).is_file() and _is_ours(folder / name):
            (folder / name).unlink()


def policy_of(folder: Path) -> str | None:
    """Return the policy of the verdict in a folder; None if there is no verdict."""
    path = folder / VERDICT
    return str(json.loads(read_text(path)).get("policy")) if path.exists() and _is_ours(path) else None


def _is_ours(path: Path) -> bool:
    text = read_text(path)
    if path.suffix == ".prom":
        return text.startswith(_METRICS_BEGIN)
    try:
        if path.suffix == ".xml":
            # The file is the user's own, and the XML that the lab writes has no entities.
            suite = ElementTree.fromstring(text).find("testsuite")  # noqa: S314 - see above
            return suite is not None and suite.get("name", "").startswith("gate ")
        data = json.loads(text)
    except (ElementTree.ParseError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("schema") == SCHEMA


def headline(verdict: Verdict) -> str:
    """Return the verdict in one line: the clauses of :func:`clauses`."""
    return "; ".join(clauses(verdict))


def clauses(verdict: Verdict) -> list[str]:
    """Return what a verdict says first: the decision, then what stands beside it.

    The decision is go or no-go if the policy names a rollback; reasons for a trial are in brackets. If critical rules
    fail, it says why in words; with a rollback, what to do comes next, and the rules below it say why. If everything
    passes that the data could measure, the next clause names what it could not. If the policy
    has a control, the second clause says whether the candidate is worth having beside it. If the arms were not judged
    alike, the last one says so.
    """
    decided = _decided(verdict) + (f" [{trial}]" if (trial := trial_line(verdict.trial)) else "")
    failing = deciding(verdict.lines, FAIL)
    words = list(map(finding, failing[:MOST_NAMED])) if verdict.rollback is None else []
    if words and len(failing) > MOST_NAMED:
        words.append(f"and {counted(len(failing) - MOST_NAMED, 'more rule')} {FAIL}")
    parts = [f"{decided}: {'; '.join(words)}" if words else decided]
    if verdict.passes_measured:
        parts.append(f"{NOT_HERE}: {', '.join(verdict.unmeasured)}")
    if verdict.control:
        parts.append(verdict.control.sentence)
    if verdict.judged and verdict.judged["apart"]:
        shares = ", ".join(number(share) for share in verdict.judged["shares"].values())
        parts.append(f"the arms are not judged alike (Judged@{verdict.judged['k']} {shares})")
    return parts


def finding(line: Line) -> str:
    """Return what a rule found as a clause with the rule's label; its numbers if the measure has no sentence."""
    if line.candidate is None:
        return line.label
    if line.baseline is None:
        return f"{line.label} {line.candidate:.4g}" + (
            f", where the policy requires {line.limit}" if line.limit else ""
        )
    if clause := in_words(line.measure, line.candidate, line.baseline):
        part = f" [{line.slice}]" if line.slice else ""
        return f"{clause} ({line.measure}{part}{f' against {line.against}' if line.against else ''})"
    if (entry := entry_of(line.measure)) and entry.range in (SHARE, YES):
        return f"{line.label} {line.candidate:.0%} against {line.baseline:.0%}"
    return f"{line.label} {number(line.candidate)} against {number(line.baseline)}"


def by_status(lines: Sequence[Line]) -> list[str]:
    """Return the names of the critical rules that did not pass, then of the advisory ones that fail, by status."""
    titles = {
        ERROR: "Could not be measured",
        FAIL: "Fails",
        INCONCLUSIVE: "Inconclusive",
        NOT_HERE: "Not measurable here",
    }
    own = [(NOT_HERE if line.unmeasured else line.status, line.name) for line in deciding(lines)]
    named = [(title, [name for status, name in own if status == wanted]) for wanted, title in titles.items()]
    advisory = [line.name for line in lines if not line.critical and line.status == FAIL]
    return [
        f"{title}: {', '.join(names)}." for title, names in (*named, ("Advisory rules that fail", advisory)) if names
    ]


def notes(verdict: Verdict) -> list[str]:
    """Return what stands below the headline: how much was judged, and notes on arms and conversations."""
    return [*([verdict.undone] if verdict.undone else []), *judged_notes(verdict), *verdict.embedder]


def decided(verdict: Verdict) -> list[str]:
    """Return when sessions decided, by which rule, what would decide otherwise, and what drawn blocks do not show."""
    sentence = decision(verdict.lines, verdict.status)
    drawn = [line.reason for line in verdict.lines if line.against == NOT_SWITCHED and line.status == PASS]
    return [*([sentence] if sentence else []), *drawn]


def judged_notes(verdict: Verdict) -> list[str]:
    """Return Judged@k of the compared arms in one line, a warning if they differ; nothing if nothing was judged."""
    judged = verdict.judged
    if not judged:
        return []
    shares = ", ".join(f"{arm} {number(share)}" for arm, share in judged["shares"].items())
    return [str(judged["apart"] or f"Judged@{judged['k']}: {shares}")]


def _decided(verdict: Verdict) -> str:
    subject = verdict.policy
    if verdict.candidate:
        subject += f", {verdict.candidate}" + (f" against {verdict.baseline}" if verdict.baseline else "")
    words = {status: status.upper() for status in STATES}
    if verdict.rollback is not None:
        words = {
            PASS: "GO",
            INCONCLUSIVE: "NO-GO YET (inconclusive)",
            FAIL: "NO-GO (fail)",
            ERROR: "NO-GO (could not measure)",
        }
    return f"{words[verdict.status]}{verdict.on_what}: {subject}"


def rollback(verdict: Verdict) -> str | None:
    """Return what the operator should do unless the verdict is a pass. Inconclusive is no reason to roll back."""
    if verdict.status == PASS or verdict.rollback is None or verdict.undone:
        return None
    silent = verdict.audit["silent"] if verdict.audit else None
    if verdict.status == ERROR and silent:
        return f"{silent[0].upper()}{silent[1:]} To roll back anyway: {verdict.rollback}"
    if verdict.status == ERROR and verdict.audit is None and any(line.kind == "receipts" for line in verdict.lines):
        return (
            f"No live receipts were judged: the policy {'; '.join(NO_AUDIT)}. To roll back anyway: {verdict.rollback}"
        )
    if verdict.status != INCONCLUSIVE:
        return f"Roll back: {verdict.rollback}"
    return f"{_keep_open(verdict)} To roll back anyway: {verdict.rollback}"


def _keep_open(verdict: Verdict) -> str:
    """Return how long to keep observing, by the critical rule that needs most."""
    needs = [line.more_recalls or 0 for line in deciding(verdict.lines, INCONCLUSIVE)]
    most = max(needs, default=0)
    needed = f"about {counted(most, 'more answered recall')}" if most else "each rule says what would settle it"
    return f"Keep the window open: {needed}."


def gravest_first(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that neither passed nor were skipped: critical before advisory, most severe first."""
    order = (ERROR, FAIL, INCONCLUSIVE)
    return sorted(
        (line for line in lines if line.status in order), key=lambda line: (not line.critical, order.index(line.status))
    )


def deciding_first(lines: Sequence[Line]) -> list[Line]:
    """Return all lines: critical ones that did not pass, critical ones that did, then advisory ones in that order."""
    done = [line for line in lines if line.status in (PASS, SKIPPED)]
    return sorted([*gravest_first(lines), *done], key=lambda line: not line.critical)


def junit(*verdicts: Verdict) -> bytes:
    """Return JUnit XML: one suite per verdict, one case per rule or slice of a rule.

    A failed critical rule is a failure, one that could not be measured an error; inconclusive and advisory rules that
    did not pass are skipped.
    """
    root = ElementTree.Element("testsuites", _counted([line for verdict in verdicts for line in verdict.lines]))
    if trial := trial_line(dict.fromkeys(reason for verdict in verdicts for reason in verdict.trial)):
        root.set("name", _clean(trial))
    for verdict in verdicts:
        _suite(root, verdict)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _counted(lines: Sequence[Line]) -> dict[str, str]:
    states = [_state(line) for line in lines]
    return {"tests": str(len(states)), "failures": str(states.count(FAIL)), "errors": str(states.count(ERROR))}


def _suite(root: ElementTree.Element, verdict: Verdict) -> None:
    skipped = str(sum(_state(line) == SKIPPED for line in verdict.lines))
    attributes = {"name": _clean(f"gate {verdict.policy}"), "skipped": skipped}
    suite = ElementTree.SubElement(root, "testsuite", _counted(verdict.lines) | attributes)
    properties = ElementTree.SubElement(suite, "properties")
    facts = {"verdict": verdict.status, "run": verdict.run, "against": verdict.against, "rollback": rollback(verdict)}
    for name, value in (
        *facts.items(),
        *(("trial", text) for text in verdict.trial),
        *(("control", answer.sentence) for answer in (verdict.control,) if answer),
        *(("judged", note) for note in judged_notes(verdict)),
        *(("embedder", note) for note in verdict.embedder),
    ):
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
    for line in verdict.lines:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(f"gate.{verdict.policy}"), name=_clean(line.name)
        )
        kind = {FAIL: "failure", ERROR: "error", SKIPPED: "skipped"}.get(_state(line))
        if kind:
            element = ElementTree.SubElement(case, kind, message=_clean(reason(line)))
            if kind != "skipped" and rollback(verdict):
                element.text = _clean(str(rollback(verdict)))


def _state(line: Line) -> str:
    return SKIPPED if line.status == INCONCLUSIVE or (line.status != PASS and not line.critical) else line.status


def openmetrics(*verdicts: Verdict) -> str:
    """Return OpenMetrics text: each verdict as a state set; each rule's status, value and difference as gauges."""
    lines = [
        f"{_METRICS_BEGIN}The verdict of a gate.",
        "# TYPE lab_gate_verdict stateset",
        *(_state_sample(verdict, state) for verdict in verdicts for state in STATES),
        *_gauge("rule", "Whether a rule of a gate passed; no sample for a skipped rule.", verdicts, _passed),
        *_gauge("value", "The candidate's value of a measure.", verdicts, lambda line: line.candidate),
        *_gauge("difference", "Candidate minus baseline.", verdicts, lambda line: line.difference),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _state_sample(verdict: Verdict, state: str) -> str:
    labels = _labels(policy=verdict.policy, lab_gate_verdict=state)
    return f"lab_gate_verdict{{{labels}}} {int(verdict.status == state)}"


def _passed(line: Line) -> float | None:
    return None if line.status == SKIPPED else float(line.status == PASS)


def _gauge(name: str, about: str, verdicts: Sequence[Verdict], value: Callable[[Line], float | None]) -> Iterator[str]:
    yield f"# HELP lab_gate_{name} {about}"
    yield f"# TYPE lab_gate_{name} gauge"
    for verdict in verdicts:
        for line in verdict.lines:
            number = value(line)
            if number is not None:
                labels = {"policy": verdict.policy, "rule": line.kind, "measure": line.measure}
                labels |= {"critical": "true" if line.critical else "false"}
                labels |= {name: text for name in ("slice", "against") if (text := getattr(line, name))}
                yield f"lab_gate_{name}{{{_labels(**labels)}}} {number!r}"


def _labels(**values: str) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return ",".join(f'{name}="{quoted(value)}"' for name, value in values.items())


def summary(verdict: Verdict) -> str:
    """Return Markdown for a step summary: the verdict and one row per rule, short enough for a comment."""
    text = "\n".join(
        [
            f"## {markdown(headline(verdict))}",
            "",
            *(line for note in notes(verdict) for line in (markdown(note), "")),
            *((f"**{markdown(advice)}**", "") if (advice := rollback(verdict)) else ()),
            *(line for sentence in decided(verdict) for line in (markdown(sentence), "")),
            "| | rule | why |",
            "| --- | --- | --- |\n",
        ]
    )
    left = len(verdict.lines)
    for line in deciding_first(verdict.lines):
        row = f"| {line.word} | {markdown(line.name)} | {markdown(reason(line)[:_MOST_CELL])} |\n"
        if len((text + row).encode()) > MOST_SUMMARY:
            return f"{text}\n… and {left} more: verdict.json lists all rules\n"
        text += row
        left -= 1
    return text


def workflow_commands(verdict: Verdict) -> Iterator[str]:
    """Yield GitHub workflow commands for rules that did not pass, at most as many as GitHub shows."""
    lines = gravest_first(verdict.lines)
    shown = lines if len(lines) <= MOST_ANNOTATIONS else lines[: MOST_ANNOTATIONS - 1]
    for line in shown:
        yield _annotation(verdict, line.critical and line.status in (FAIL, ERROR), f"{line.name}: {reason(line)}")
    if len(shown) < len(lines):
        yield _annotation(verdict, False, f"and {len(lines) - len(shown)} more; the step summary lists all")


def _annotation(verdict: Verdict, is_error: bool, text: str) -> str:
    message = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    title = f"gate {verdict.policy}".replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
    title = title.replace("\r", "%0D").replace("\n", "%0A")
    return f"::{'error' if is_error else 'warning'} title={title}::{message}"


def by_reason(lines: Sequence[Line], most: int = sys.maxsize) -> Iterator[tuple[str, str]]:
    """Yield status and reason of lines in their order, merging lines with equal reasons; advisory ones in brackets.

    A measure that the data cannot have is named once, whatever it is compared with. ``most`` rules of one reason are
    named, and the others counted.
    """
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        why = reason(line).removeprefix(f"{line.label}: ").removeprefix(f"{line.measure}: ")
        status = NOT_HERE if line.unmeasured else line.status
        groups.setdefault((status, why.removeprefix(f"{NOT_HERE}: ")), []).append(line)
    for (status, why), group in groups.items():
        decides = any(line.critical for line in group)
        labels = ((line.measure if line.unmeasured else line.label, line.critical) for line in group)
        names = dict.fromkeys(label if critical or not decides else f"({label})" for label, critical in labels)
        yield status if decides else f"({status})", f"{named(list(names), most)}: {why}"


def reason(line: Line) -> str:
    """Return the reason of a line, and what would settle it."""
    return f"{line.reason}. What would settle it: {line.settles}." if line.settles else f"{line.reason}."


def _clean(text: str) -> str:
    """Replace what XML does not allow: control characters, lone surrogates, U+FFFE and U+FFFF."""
    return _NOT_XML.sub("?", text)
