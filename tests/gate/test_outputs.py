"""The output formats of a verdict, checked by JSON Schema, JUnit's schema and the OpenMetrics parser."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lab.base.errors import UnusableInput
from lab.gate.keys import HEAD, RULES
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.outputs import MOST_ANNOTATIONS, junit, openmetrics, summary, workflow_commands, write_verdict
from lab.gate.policy import read_policy
from lab.gate.schema import policy_schema, verdict_schema
from lab.gate.shipped import SHIPPED, shipped_policies
from lab.gate.verdict import Verdict, judge
from lab.runs.directory import RunDirectory

LINES = (
    Line("guard", "Success@6", PASS, True, "fine", difference=0.1),
    Line("guard", "R@6", FAIL, True, 'worse & <b>"|', difference=-0.5),
    Line("guard", "R@6", FAIL, False, "advisory", difference=-0.5),
    Line("guard", "P@6", INCONCLUSIVE, True, "open", "40 more"),
    Line("guard", "P@6", PASS, False, "fine", slice='type=a\\b"\n', candidate=0.25),
    Line("limit", "WrongScope", ERROR, True, "nothing\nthere"),
    Line("limit", "Jaccard", FAIL, False, "advisory"),
    Line("exact", "receipts", SKIPPED, True, "not asked"),
)
VERDICT = Verdict("mine", "what it means", "run", "old", "new", ERROR, LINES, "switch \x00 it | back")
JUNIT = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))


def test_junit_counts_its_cases() -> None:
    JUNIT.validate(ElementTree.fromstring(junit(VERDICT)))
    suite = ElementTree.fromstring(junit(VERDICT)).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8", "failures": "1", "errors": "1", "skipped": "4"
    }  # fmt: skip
    kinds = [[child.tag for child in case] for case in suite.findall("testcase")]
    assert kinds == [[], ["failure"], ["skipped"], ["skipped"], [], ["error"], ["skipped"], ["skipped"]]
    names = [case.get("name") for case in suite.findall("testcase")]
    assert len(set(names)) == len(names)
    assert names[1:5] == ["guard R@6", "guard R@6 (advisory)", "guard P@6", 'guard P@6 [type=a\\b"\n]']
    assert 'worse & <b>"|.' in [child.get("message") for case in suite for child in case]
    assert [one.text for one in suite.iter("failure")] == ["Roll back: switch ? it | back"]
    assert {one.get("name"): one.get("value") for one in suite.iter("property")} == {
        "verdict": "error", "run": "run", "rollback": "Roll back: switch ? it | back"
    }  # fmt: skip


def test_junit_schema_rejects_invalid_files() -> None:
    for before, after in ((b" classname=", b" klass="), (b"testcase", b"case"), (b'tests="8"', b'tests="some"')):
        with pytest.raises(xmlschema.XMLSchemaValidationError):
            JUNIT.validate(ElementTree.fromstring(junit(VERDICT).replace(before, after)))


def test_openmetrics_is_parsed_by_the_reference_parser() -> None:
    families = {one.name: one for one in text_string_to_metric_families(openmetrics(VERDICT))}
    assert list(families) == ["lab_gate_verdict", "lab_gate_rule", "lab_gate_value", "lab_gate_difference"]
    states = {one.labels["lab_gate_verdict"]: one.value for one in families["lab_gate_verdict"].samples}
    assert (families["lab_gate_verdict"].type, states) == (
        "stateset", {PASS: 0, FAIL: 0, INCONCLUSIVE: 0, ERROR: 1}
    )  # fmt: skip
    # A skipped rule has no sample.
    samples = families["lab_gate_rule"].samples
    assert [one.value for one in samples] == [1, 0, 0, 0, 1, 0, 0]
    assert len({tuple(sorted(one.labels.items())) for one in samples}) == 7
    (value,) = families["lab_gate_value"].samples
    assert value.labels == {
        "policy": "mine", "rule": "guard", "measure": "P@6", "critical": "false", "slice": 'type=a\\b"\n'
    }  # fmt: skip


def test_openmetrics_control_has_samples_of_its_own() -> None:
    line = Line("guard", "Success@6", PASS, True, "fine", candidate=0.5, difference=0.1)
    text = openmetrics(replace(VERDICT, lines=(line, replace(line, against="hybrid"))))
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    names = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(set(names)) == len(names)
    assert [sample.labels.get("against") for sample in samples if sample.name == "lab_gate_rule"] == [None, "hybrid"]


def test_summary_and_workflow_commands_escape_text() -> None:
    text = summary(VERDICT)
    assert text.startswith("## NO-GO (could not measure): mine, new against old\n\n**Roll back: switch")
    assert 'worse &amp; &lt;b&gt;"\\|.' in text
    assert text.index("nothing there") < text.index("worse &amp;") < text.index("open.")
    # Critical rules come first, passed or not; then advisory ones, those that did not pass first.
    rows = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert [f"{status[2:]} {rule}" for status, rule in rows] == [
        "error limit WrongScope", "fail guard R@6", "inconclusive guard P@6", "pass guard Success@6",
        "skipped exact receipts", "(fail) guard R@6 (advisory)", "(fail) limit Jaccard (advisory)",
        '(pass) guard P@6 \\[type=a\\\\b" \\]',
    ]  # fmt: skip
    commands = list(workflow_commands(VERDICT))
    assert [one.split(" ")[0] for one in commands] == ["::error", "::error", "::warning", "::warning", "::warning"]
    assert all("\n" not in one for one in commands)
    assert "nothing%0Athere" in commands[0]


def test_summary_and_annotations_are_cut_to_the_limits_of_github() -> None:
    lines = tuple(Line("guard", f"R@{place}", FAIL, True, "why " * 200) for place in range(200))
    many = replace(VERDICT, lines=lines)
    commands = list(workflow_commands(many))
    assert len(commands) == MOST_ANNOTATIONS
    assert commands[-1].endswith("::and 191 more; the step summary lists all")
    assert len(summary(many).encode()) < 64 * 1024
    shown = summary(many).count("| fail |")
    assert summary(many).endswith(f"… and {200 - shown} more: verdict.json lists all rules\n")


HEADED = 'name = "mine"\nabout = "what it means"\nrollback = "back"\n'
BY_STATUS = {
    PASS: '[[receipts]]\nmeasure = "errors.rate"\nof = "errors.attempts"\nat_most = 0.1\n',
    FAIL: '[[limit]]\nmeasure = "Success@6"\nat_least = 1.0\n',
    INCONCLUSIVE: '[[improve]]\nmeasure = "Success@6"\nby = 0.07\nslices = ["type"]\n',
    ERROR: '[[guard]]\nmeasure = "GoldNice@99"\nmargin = 0.02\n[[latency]]\nquantile = 0.5\nat_most_ms = 9\n',
}


@pytest.mark.parametrize("status", BY_STATUS)
def test_verdicts_match_their_schema(tmp_path: Path, run: RunDirectory, audit: Mapping[str, Any], status: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEADED + BY_STATUS[status])
    verdict = judge(read_policy(str(path)), run, audit=audit)
    assert verdict.status == status, verdict.lines
    found = [one.name for one in write_verdict(verdict, tmp_path / "out")]
    assert found == ["verdict.json", "verdict.xml", "verdict.prom"]
    value = json.loads((tmp_path / "out" / "verdict.json").read_text())
    jsonschema.Draft202012Validator(verdict_schema()).validate(value)
    JUNIT.validate(str(tmp_path / "out" / "verdict.xml"))
    assert list(text_string_to_metric_families((tmp_path / "out" / "verdict.prom").read_text()))
    # A verdict is overwritten; equal evidence gives equal bytes.
    before = [one.read_bytes() for one in sorted((tmp_path / "out").iterdir())]
    write_verdict(judge(read_policy(str(path)), run, audit=audit), tmp_path / "out")
    assert before == [one.read_bytes() for one in sorted((tmp_path / "out").iterdir())]


def test_schemas_are_valid_and_complete() -> None:
    for schema in (verdict_schema(), policy_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)
    properties = verdict_schema()["properties"]
    assert set(properties) == {"schema", *(one.name for one in fields(Verdict))}
    assert set(properties["lines"]["items"]["properties"]) == {one.name for one in fields(Line)}
    assert set(policy_schema()["properties"]) == {*HEAD, "comparison", "control", *RULES}


def test_policy_schema_accepts_shipped_and_rejects_bad() -> None:
    validator = jsonschema.Draft202012Validator(policy_schema())
    for name in shipped_policies():
        value = tomllib.loads((SHIPPED / f"{name}.toml").read_text("utf-8"))
        validator.validate(value)
        assert not validator.is_valid(value | {"gaurd": []})
        assert not validator.is_valid(value | {"about": " "})
        assert not validator.is_valid(value | {"fail_level": 0.5})
        assert not validator.is_valid(value | {"limit": [{"measure": "WrongScope"}]})
        assert not validator.is_valid(value | {"exact": [{"changed": "maybe"}]})


@pytest.mark.parametrize("name", ["verdict.json", "verdict.xml", "verdict.prom"])
def test_write_verdict_keeps_other_files(tmp_path: Path, name: str) -> None:
    for text in ("", '{"schema": "another"}', "<testsuites><testsuite name='theirs'/></testsuites>", "[]"):
        (tmp_path / name).write_text(text)
        with pytest.raises(
            UnusableInput, match=f"{name}: exists and is not a verdict of `lab gate`; choose another --out"
        ):
            write_verdict(VERDICT, tmp_path)
        assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(name, text)]
