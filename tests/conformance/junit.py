"""The results of a conformance check as JUnit XML, for what collects test results in a CI."""

from __future__ import annotations

from xml.etree import ElementTree

from lab.base.formatting import visible
from tests.conformance.record_files import FileResult
from tests.conformance.run import Conformance


def junit(result: Conformance) -> bytes:
    """Return JUnit XML: one suite, one case per vector file.

    A file fails if one of its records differs, and is skipped if none was compared. It names the first record that
    differs, its line and the place in it, and never a value, which may be a text.
    """
    cases = [(file, _state(file)) for file in result.files]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(state == "failure" for _, state in cases)),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites", counts)
    skipped = str(sum(state == "skipped" for _, state in cases))
    suite = ElementTree.SubElement(root, "testsuite", counts | {"name": "conformance", "skipped": skipped})
    for file, state in cases:
        case = ElementTree.SubElement(suite, "testcase", classname="conformance", name=_clean(file.name))
        if state:
            ElementTree.SubElement(case, state, message=_clean(_why(file, state)))
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _state(file: FileResult) -> str | None:
    if file.failed:
        return "failure"
    return None if file.passed else "skipped"


def _why(file: FileResult, state: str) -> str:
    if state == "skipped":
        return "; ".join(f"{count} skipped: {reason}" for reason, count in file.reasons.items()) or "no records"
    first = file.first_failure
    if first is None:
        return f"{file.failed} of {file.passed + file.failed} records differ"
    place = f", line {first.line}" if first.line else ""
    at = f" at {first.difference.path}" if first.difference else ""
    return (
        f"{file.failed} of {file.passed + file.failed} records differ; the first: {first.id or 'the file'}{place}{at}"
    )


def _clean(text: str) -> str:
    """Return a text without what XML does not allow."""
    return visible(text).replace("\ufffe", "?").replace("\uffff", "?")
