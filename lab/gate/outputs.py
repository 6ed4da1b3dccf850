"""A verdict in the forms that machines read: JSON, JUnit XML, OpenMetrics text, and a GitHub step summary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from lab.files import dump_json, write_whole
from lab.gate.verdict import ERROR, FAIL, INCONCLUSIVE, PASS, Line, Verdict

STATES = (PASS, FAIL, INCONCLUSIVE, ERROR)


def write_verdict(verdict: Verdict, folder: Path) -> list[Path]:
    """Write verdict.json, verdict.xml (JUnit) and verdict.prom (OpenMetrics) into a folder, each whole."""
    files = {
        "verdict.json": dump_json(verdict.as_json()),
        "verdict.xml": junit(verdict),
        "verdict.prom": openmetrics(verdict).encode(),
    }
    for name, data in files.items():
        write_whole(folder / name, data)
    return [folder / name for name in files]


def junit(verdict: Verdict) -> bytes:
    """JUnit XML: a suite is the gate, a case one rule.

    A broken rule is a failure, what could not be measured an error, what is inconclusive or decides nothing is skipped.
    """
    counts = {state: sum(_state(line) == state for line in verdict.lines) for state in (*STATES, "skipped")}
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(f"gate {verdict.policy}"),
        tests=str(len(verdict.lines)),
        failures=str(counts[FAIL]),
        errors=str(counts[ERROR]),
        skipped=str(counts["skipped"]),
    )
    for line in verdict.lines:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(f"gate.{verdict.policy}"), name=_clean(f"{line.kind} {line.measure}")
        )
        kind = {FAIL: "failure", ERROR: "error", "skipped": "skipped"}.get(_state(line))
        if kind:
            ElementTree.SubElement(case, kind, message=_clean(told(line)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _state(line: Line) -> str:
    return "skipped" if line.status == INCONCLUSIVE or (line.status != PASS and not line.critical) else line.status


def openmetrics(verdict: Verdict) -> str:
    """OpenMetrics text: the verdict as a state set, and each rule's status and difference as gauges."""
    lines = [
        "# HELP lab_gate_verdict The verdict of a gate.",
        "# TYPE lab_gate_verdict stateset",
        *(_state_sample(verdict, state) for state in STATES),
        "# HELP lab_gate_rule Whether a rule of a gate passed.",
        "# TYPE lab_gate_rule gauge",
        *(_sample("lab_gate_rule", verdict, line, float(line.status == PASS)) for line in verdict.lines),
        "# HELP lab_gate_difference Candidate less baseline.",
        "# TYPE lab_gate_difference gauge",
        *(
            _sample("lab_gate_difference", verdict, line, line.difference)
            for line in verdict.lines
            if line.difference is not None
        ),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _state_sample(verdict: Verdict, state: str) -> str:
    labels = _labels(policy=verdict.policy, lab_gate_verdict=state)
    return f"lab_gate_verdict{{{labels}}} {int(verdict.status == state)}"


def _sample(name: str, verdict: Verdict, line: Line, value: float) -> str:
    return f"{name}{{{_labels(policy=verdict.policy, rule=line.kind, measure=line.measure)}}} {value!r}"


def _labels(**values: str) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return ",".join(f'{name}="{quoted(value)}"' for name, value in values.items())


def summary(verdict: Verdict) -> str:
    """Markdown: the verdict and a row a rule, as a step summary shows it."""
    rows = (
        f"| {line.status if line.critical else f'({line.status})'} | {_cell(line.measure)} | {_cell(told(line))} |"
        for line in verdict.lines
    )
    return "\n".join(
        [
            f"## Gate {_cell(verdict.policy)}: {verdict.status}",
            "",
            _cell(verdict.about),
            "",
            "| | measure | why |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def workflow_commands(verdict: Verdict) -> Iterable[str]:
    """GitHub workflow commands, one for every rule that did not pass."""
    for line in verdict.lines:
        if line.status != PASS:
            kind = "error" if line.critical and line.status in (FAIL, ERROR) else "warning"
            said = told(line).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            title = f"gate {verdict.policy}".replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
            yield f"::{kind} title={title}::{said}"


def told(line: Line) -> str:
    """The reason of a line, and what would settle it."""
    return f"{line.reason}. What would settle it: {line.settles}." if line.settles else f"{line.reason}."


def _cell(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(escaped.replace("|", "\\|").split())


def _clean(text: str) -> str:
    """A text as XML may hold it: no control characters, no half characters."""
    return "".join(one if one in "\t\n\r" or (one >= " " and not "\ud800" <= one <= "\udfff") else "?" for one in text)
