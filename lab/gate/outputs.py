"""A verdict in the forms that machines read: JSON, JUnit XML, OpenMetrics text, and a GitHub step summary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from lab.errors import UnusableInput
from lab.files import dump_json, read_text, write_atomically
from lab.formatting import counted, markdown
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.verdict import SCHEMA, Verdict
from lab.runs.trial import trial_line

STATES = (PASS, FAIL, INCONCLUSIVE, ERROR)
# What GitHub shows of a step, and what of a summary fits a comment as well.
MOST_ANNOTATIONS = 10
MOST_SUMMARY = 60_000
_MOST_CELL = 2_000
_NOT_XML = re.compile("[^\\t\\n\\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_METRICS_BEGIN = "# HELP lab_gate_verdict "


def write_verdict(verdict: Verdict, folder: Path) -> list[Path]:
    """Write verdict.json, verdict.xml (JUnit) and verdict.prom (OpenMetrics) into a folder, each whole.

    A file of such a name that is none of ours is :class:`UnusableInput`, and nothing is written.
    """
    files = {
        folder / "verdict.json": dump_json(verdict.as_json()),
        folder / "verdict.xml": junit(verdict),
        folder / "verdict.prom": openmetrics(verdict).encode("utf-8", "replace"),
    }
    for path in files:
        if path.exists() and not _is_ours(path):
            raise UnusableInput(f"{path}: exists and is no verdict of a gate; choose another --out")
    for path, data in files.items():
        write_atomically(path, data)
    return list(files)


def policy_of(folder: Path) -> str | None:
    """Whose verdict a folder holds; None where it holds none."""
    path = folder / "verdict.json"
    return str(json.loads(read_text(path)).get("policy")) if path.exists() and _is_ours(path) else None


def _is_ours(path: Path) -> bool:
    text = read_text(path)
    if path.suffix == ".prom":
        return text.startswith(_METRICS_BEGIN)
    try:
        if path.suffix == ".xml":
            # The file is the user's own, and what we write has no entity.
            suite = ElementTree.fromstring(text).find("testsuite")  # noqa: S314 - see above
            return suite is not None and suite.get("name", "").startswith("gate ")
        found = json.loads(text)
    except (ElementTree.ParseError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("schema") == SCHEMA


def headline(verdict: Verdict) -> str:
    """The verdict in a line, with what makes it a trial. Where there is something to roll back it is go or no-go."""
    said = trial_line(verdict.trial)
    return f"{_decided(verdict)} [{said}]" if said else _decided(verdict)


def _decided(verdict: Verdict) -> str:
    what = verdict.policy
    if verdict.candidate:
        what += f", {verdict.candidate}" + (f" against {verdict.baseline}" if verdict.baseline else "")
    if verdict.rollback is None:
        return f"{verdict.status.upper()}: {what}"
    go = {
        PASS: "GO",
        INCONCLUSIVE: "NO-GO YET (inconclusive)",
        FAIL: "NO-GO (fail)",
        ERROR: "NO-GO (could not measure)",
    }
    return f"{go[verdict.status]}: {what}"


def rollback(verdict: Verdict) -> str | None:
    """What to do where the verdict is no pass. What is not decided is no reason to roll back."""
    if verdict.status == PASS or verdict.rollback is None:
        return None
    silent = verdict.audit["silent"] if verdict.audit else None
    if verdict.status == ERROR and silent:
        return f"{silent[0].upper()}{silent[1:]} To roll back anyway: {verdict.rollback}"
    if verdict.status != INCONCLUSIVE:
        return f"Roll back: {verdict.rollback}"
    return f"{_keep_open(verdict)} To roll back anyway: {verdict.rollback}"


def _keep_open(verdict: Verdict) -> str:
    """How much longer, by the rule that decides and needs most."""
    needs = [one.more_recalls or 0 for one in verdict.lines if one.critical and one.status == INCONCLUSIVE]
    most = max(needs, default=0)
    wanted = f"about {counted(most, 'more answered recall')}" if most else "what would settle it stands with each rule"
    return f"Keep the window open: {wanted}."


def gravest_first(lines: Sequence[Line]) -> list[Line]:
    """Lines that did not pass, nor were skipped: those that decide before those that are told, the gravest first."""
    order = (ERROR, FAIL, INCONCLUSIVE)
    return sorted(
        (one for one in lines if one.status in order), key=lambda one: (not one.critical, order.index(one.status))
    )


def deciding_first(lines: Sequence[Line]) -> list[Line]:
    """All lines: those that decide and did not pass, those that decide and did, and then in this order what is told."""
    done = [one for one in lines if one.status in (PASS, SKIPPED)]
    return sorted([*gravest_first(lines), *done], key=lambda one: not one.critical)


def junit(*verdicts: Verdict) -> bytes:
    """JUnit XML: a suite is a gate, a case one rule or one of its slices.

    A broken rule is a failure, what could not be measured an error, what is inconclusive or decides nothing is skipped.
    """
    root = ElementTree.Element("testsuites", _counted([line for verdict in verdicts for line in verdict.lines]))
    if said := trial_line(dict.fromkeys(reason for verdict in verdicts for reason in verdict.trial)):
        root.set("name", _clean(said))
    for verdict in verdicts:
        _suite(root, verdict)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _counted(lines: Sequence[Line]) -> dict[str, str]:
    states = [_state(line) for line in lines]
    return {"tests": str(len(states)), "failures": str(states.count(FAIL)), "errors": str(states.count(ERROR))}


def _suite(root: ElementTree.Element, verdict: Verdict) -> None:
    skipped = str(sum(_state(line) == SKIPPED for line in verdict.lines))
    named = {"name": _clean(f"gate {verdict.policy}"), "skipped": skipped}
    suite = ElementTree.SubElement(root, "testsuite", _counted(verdict.lines) | named)
    properties = ElementTree.SubElement(suite, "properties")
    told = {"verdict": verdict.status, "run": verdict.run, "against": verdict.against, "rollback": rollback(verdict)}
    for name, value in (
        *told.items(),
        *(("trial", one) for one in verdict.trial),
        *(("embedder", one) for one in verdict.embedder),
    ):
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
    for line in verdict.lines:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(f"gate.{verdict.policy}"), name=_clean(line.name)
        )
        kind = {FAIL: "failure", ERROR: "error", SKIPPED: "skipped"}.get(_state(line))
        if kind:
            said = ElementTree.SubElement(case, kind, message=_clean(reason(line)))
            if kind != "skipped" and rollback(verdict):
                said.text = _clean(str(rollback(verdict)))


def _state(line: Line) -> str:
    return SKIPPED if line.status == INCONCLUSIVE or (line.status != PASS and not line.critical) else line.status


def openmetrics(*verdicts: Verdict) -> str:
    """OpenMetrics text: each verdict as a state set, and each rule's status, value and difference as gauges."""
    lines = [
        f"{_METRICS_BEGIN}The verdict of a gate.",
        "# TYPE lab_gate_verdict stateset",
        *(_state_sample(verdict, state) for verdict in verdicts for state in STATES),
        *_gauge("rule", "Whether a rule of a gate passed; none of one that was skipped.", verdicts, _passed),
        *_gauge("value", "What the candidate has of a measure.", verdicts, lambda line: line.candidate),
        *_gauge("difference", "Candidate less baseline.", verdicts, lambda line: line.difference),
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
            found = value(line)
            if found is not None:
                labels = {"policy": verdict.policy, "rule": line.kind, "measure": line.measure}
                labels |= {"critical": "true" if line.critical else "false"}
                labels |= {"slice": line.slice} if line.slice else {}
                yield f"lab_gate_{name}{{{_labels(**labels)}}} {found!r}"


def _labels(**values: str) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return ",".join(f'{name}="{quoted(value)}"' for name, value in values.items())


def summary(verdict: Verdict) -> str:
    """Markdown: the verdict and a row a rule, as a step summary shows it; never longer than a comment may be."""
    text = "\n".join(
        [
            f"## {markdown(headline(verdict))}",
            "",
            *(line for note in verdict.embedder for line in (markdown(note), "")),
            *((f"**{markdown(said)}**", "") if (said := rollback(verdict)) else ()),
            markdown(verdict.about),
            "",
            "| | rule | why |",
            "| --- | --- | --- |\n",
        ]
    )
    left = len(verdict.lines)
    for line in deciding_first(verdict.lines):
        status = line.status if line.critical else f"({line.status})"
        row = f"| {status} | {markdown(line.name)} | {markdown(reason(line)[:_MOST_CELL])} |\n"
        if len((text + row).encode()) > MOST_SUMMARY:
            return f"{text}\n… and {left} more: verdict.json has all\n"
        text += row
        left -= 1
    return text


def workflow_commands(verdict: Verdict) -> Iterator[str]:
    """GitHub workflow commands for rules that did not pass, at most as many as are shown."""
    lines = gravest_first(verdict.lines)
    told = lines if len(lines) <= MOST_ANNOTATIONS else lines[: MOST_ANNOTATIONS - 1]
    for line in told:
        yield _annotation(verdict, line.critical and line.status in (FAIL, ERROR), f"{line.name}: {reason(line)}")
    if len(told) < len(lines):
        yield _annotation(verdict, False, f"and {len(lines) - len(told)} more; the step summary has all")


def _annotation(verdict: Verdict, broken: bool, text: str) -> str:
    said = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    title = f"gate {verdict.policy}".replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
    title = title.replace("\r", "%0D").replace("\n", "%0A")
    return f"::{'error' if broken else 'warning'} title={title}::{said}"


def by_reason(lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """Status and reason of lines, in their order, what several lines say alike but once; in brackets what is told."""
    alike: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        alike.setdefault((line.status, reason(line).removeprefix(f"{line.measure}: ")), []).append(line)
    for (status, why), those in alike.items():
        decides = any(line.critical for line in those)
        names = (line.measure if line.critical or not decides else f"({line.measure})" for line in those)
        yield status if decides else f"({status})", f"{', '.join(names)}: {why}"


def reason(line: Line) -> str:
    """The reason of a line, and what would settle it."""
    return f"{line.reason}. What would settle it: {line.settles}." if line.settles else f"{line.reason}."


def _clean(text: str) -> str:
    """A text as XML may hold it: no control characters, no half characters, and neither U+FFFE nor U+FFFF."""
    return _NOT_XML.sub("?", text)
