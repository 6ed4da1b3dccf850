"""Make the reference pages from the code: commands with their exit codes, measures, knobs, the protocol.

mkdocs calls the functions ``on_…``: they add the pages to the site, and lead links to ``reference.md`` to them.
``python docs/generate.py knobs`` prints one page (``cli``, ``measures``, ``knobs`` or ``protocol``).
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

CLI = """# Options of every command

Every command has `--json` (one object on stdout, progress on stderr) and `--help`.

## Exit codes

Each exit code with the exception of `lab.base.errors` that causes it. An error message is one line that says what is
wrong, where, and what would fix it. `lab gate` and `lab nightly run` end with their verdict: 0 pass, 1 fail, 3
inconclusive, 4 error.
"""
MEASURES = """# Measures

`lab score --list` prints the same tables. [Statistics](../statistics.md) explains how two arms are compared by these
measures, and the [glossary](../glossary.md) explains the terms. A measure with `@k` uses the first k memories and is
written with the number: `Success@6`. `(rel=2)` counts only memories of grade 2. `lab score -m` and `lab compare
--primary` take rank measures at any cutoff and level of relevance: `R@7`, `"P(rel=2)@6"`. If k is larger than the
number of memories that an arm can return, the value is null. *Missing* is the number used for a null in one arm if the
other arm has a value; a dash means that the probe or turn is then left out of both arms. *Seed 000* to *seed 004* are
[design documents](../design/coverage.md).
"""
KNOBS = """# Knobs

Every key of an engine configuration, as the plugin spells it, and the lab's own keys below `lab`.
[Engine](../engine.md) describes the stages that use them; `lab config show FILE` prints what a configuration resolves
to. A number out of range is clamped; an unknown key is refused. *Seed alone*: the public plugin has no such key. *Not
implemented here*: nothing in the lab reads the key ([what is ignored and what is
refused](../engine.md#not-implemented-here)).
"""
PROTOCOL = """# Protocol of external systems

[External systems](../external.md) explains the protocol. This page lists every field. A request is one JSON object
`{"id", "instance", "op", …}` with the fields below. `id` counts from 1; `instance` is a string that names one
conversation of one arm. An answer is `{"id", "ok": true, "result"}`, or
`{"id", "ok": false, "error": {"kind", "message"}}`, with the same `id`. A result must have the fields without a
default. Null stands for an absent field. An unknown field is a breach.
"""


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of every command (``gate judge``, ``replay``), the command and the context of its help."""
    import typer

    from lab.cli.main import app

    def walk(command: Any, parent: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
        context = typer.Context(command, parent=parent, info_name=words[-1] if words else "lab")
        if not hasattr(command, "commands"):
            yield " ".join(words), command, context
            return
        for name, inner in command.commands.items():
            if not inner.hidden:
                yield from walk(inner, context, (*words, name))

    yield from walk(typer.main.get_command(app), None, ())


def cli_page() -> str:
    """Return the page of commands: help, arguments and options, exit codes."""
    from lab.base.errors import LabError

    codes = [*_codes(LabError), ("0", "", "Done.")]
    lines = [CLI, _table(("code", "raised", "when"), codes, sort=True), ""]
    for name, command, context in commands():
        lines += [f"## lab {name}", "", f"    {_usage(context)}", "", *_help(command.help or "")]
        records = [record for option in command.params if (record := option.get_help_record(context))]
        lines += [*_example(command.epilog), ""] if command.epilog else []
        rows = [(f"`{' '.join(left.split())}`", " ".join(right.split())) for left, right in records]
        lines += [_table(("argument or option", "meaning"), rows), ""]
    return "\n".join(lines)


def _usage(context: Any) -> str:
    pieces = context.command.collect_usage_pieces(context)
    return " ".join([context.command_path, *pieces])


def _example(epilog: str) -> list[str]:
    """Return the example of a command's help as code."""
    return ["Example:", "", *(f"    {line.strip()}" for line in epilog.splitlines()[2:])]


def _help(text: str) -> list[str]:
    return [part for paragraph in text.strip().split("\n\n") for part in (_escaped(" ".join(paragraph.split())), "")]


def _codes(root: type) -> Iterator[tuple[str, str, str]]:
    yield str(root.exit_code), f"`{root.__name__}`", _first(root)
    for below in root.__subclasses__():
        # Only classes of lab.base.errors: other modules may define subclasses.
        if below.__module__ == root.__module__:
            yield from _codes(below)
    if root.__name__ == "LabError":
        from lab.cli.main import INTERRUPTED

        yield str(INTERRUPTED), "", "Interrupted; the same command continues where it stopped."


def _first(thing: type) -> str:
    text = (thing.__doc__ or "").strip().split("\n\n")[0]
    if thing.__name__ == "LabError":
        return "Any other fault while measuring."
    return " ".join(text.split())


def measures_page() -> str:
    """Return the page of measures."""
    from lab.measures.catalogue import CATALOGUE

    units = {
        "probe": "Per probe: a turn that the golden set judges",
        "turn": "Per recall turn, judged or not",
        "conversation": "Per conversation",
    }
    lines = [MEASURES]
    for unit, title in units.items():
        rows = [
            (
                f"`{measure.title}`",
                {"higher": "high", "lower": "low", "neither": "–"}[measure.better],
                measure.range,
                "–" if measure.missing is None else f"{measure.missing:g}",
                measure.definition,
                measure.source,
            )
            for measure in CATALOGUE
            if measure.unit == unit
        ]
        lines += [f"## {title}", "", _table(("measure", "better", "range", "missing", "definition", "source"), rows)]
        lines.append("")
    return "\n".join(lines)


def knobs_page() -> str:
    """Return the page of knobs: every key with its default in each profile."""
    from lab.systems.openclaw.config.table import LAB, PLUGIN

    lines = [KNOBS]
    alone = {name: knob for name, knob in PLUGIN.items() if not hasattr(knob, "keys")}
    sections = {name: knob for name, knob in PLUGIN.items() if name not in alone}
    for name, section in {**sections, "lab": LAB}.items():
        lines += [f"## {name}", "", _knobs(name, section.keys, here=section.here), ""]
    lines += ["## Outside of sections", "", _knobs("", alone), ""]
    return "\n".join(lines)


def protocol_page() -> str:
    """Return the page of the protocol: the fields of every request and answer."""
    from lab.systems.external.protocol import ANSWERS, ITEM, OPTIONAL_OPS, REQUESTS, STORED, TIMEOUTS, WRITES

    lines = [PROTOCOL]
    for op, fields in REQUESTS.items():
        optional = " A host may leave it out." if op in OPTIONAL_OPS else ""
        lines += [f"## {op}", "", f"Time-out: {TIMEOUTS[op]:g} seconds.{optional}", ""]
        if fields:
            lines += [_table(("field of the request", "type and meaning"), [_coded(row) for row in fields.items()]), ""]
        lines += [_fields(ANSWERS[op], "field of the result"), ""] if ANSWERS[op] else ["The result is `{}`.", ""]
    for title, parts in {"An item": ITEM, "A stored memory": STORED, "Writes": WRITES}.items():
        lines += [f"## {title}", "", _fields(parts, "field"), ""]
    return "\n".join(lines)


def _coded(row: tuple[str, str]) -> tuple[str, str]:
    return f"`{row[0]}`", row[1]


def _fields(fields: Mapping[str, Any], title: str) -> str:
    return _table(
        (title, "type", "default", "meaning"),
        [(f"`{name}`", field.type.shown, _default(field.default), field.about) for name, field in fields.items()],
    )


def _default(value: object) -> str:
    from lab.systems.external.protocol import REQUIRED

    if value is REQUIRED:
        return "required"
    words = {"None": "–", "()": "`[]`"}
    return words.get(repr(value), f"`{json.dumps(value)}`")


def _knobs(path: str, keys: Mapping[str, Any], *, here: bool = True) -> str:
    return _table(("key", "value", "upstream", "seed"), list(_knob_rows(path, keys, here=here)))


def _knob_rows(
    path: str, keys: Mapping[str, Any], only_seed: bool = False, *, here: bool = True
) -> Iterator[tuple[str, ...]]:
    from lab.systems.openclaw.config.values import why_missing

    for name, knob in keys.items():
        where = f"{path}.{name}" if path else name
        if hasattr(knob, "keys"):
            yield from _knob_rows(where, knob.keys, only_seed or knob.only_seed, here=knob.here)
            continue
        if not (here if knob.here is None else knob.here):
            why = why_missing(where)
            yield f"`{where}`", _values(knob), why, why
            continue
        alone = only_seed or knob.only_seed
        upstream = "seed alone" if alone else _shown(knob.default_in("upstream"))
        yield f"`{where}`", _values(knob), upstream, _shown(knob.default_in("seed"))


def _values(knob: Any) -> str:
    words = {"flag": "true or false", "whole": "whole number", "positive": "positive number", "args": "list of words"}
    words |= {"texts": "list of texts", "scopes": "list of scopes", "map": "object", "secret": "text, never shown"}
    if knob.choices:
        return ", ".join(f"`{choice}`" for choice in knob.choices)
    if knob.kind not in ("whole", "number"):
        return words.get(knob.kind, knob.kind)
    high, most = knob.high_in("upstream"), knob.high_in("seed")
    upper = "" if math.isinf(high) else f" … {high:g}" + (f" ({most:g} in seed)" if most != high else "")
    return f"{words.get(knob.kind, knob.kind)} {knob.low:g}{upper}"


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"`{value}`" if isinstance(value, str) else "none" if value == {} else f"{value:g}"


def _table(headers: tuple[str, ...], rows: list[tuple[str, ...]], *, sort: bool = False) -> str:
    body = sorted(rows, key=lambda row: (int(row[0]), row[1])) if sort else rows
    lines = [headers, ("---",) * len(headers), *(tuple(map(_cell, row)) for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Return the text with < and > escaped outside of code."""
    parts = text.split("`")
    return "`".join(
        part if index % 2 else part.replace("<", "&lt;").replace(">", "&gt;") for index, part in enumerate(parts)
    )


PAGES = {"cli": cli_page, "measures": measures_page, "knobs": knobs_page, "protocol": protocol_page}
# The heading of each page in reference.md, which a clone has in place of the pages.
HEADINGS = {"options": "cli", "measures": "measures", "knobs": "knobs", "protocol": "protocol"}


def on_files(files: Any, config: Any) -> Any:
    """Add the reference pages to the files of the site."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with its links to a heading of reference.md turned into links to the page itself."""

    def led(link: re.Match[str]) -> str:
        return f"]({link[1]}reference/{HEADINGS[link[2]]}.md)"

    if page.file.src_uri == "reference.md":
        links = [f"* [{heading.title()}](reference/{name}.md)" for heading, name in HEADINGS.items()]
        return "\n".join(["# Reference", "", *links, "", markdown[markdown.index("## In a terminal") :]])
    return re.sub(rf"\]\(((?:\.\./)*)reference\.md#({'|'.join(HEADINGS)})\)", led, markdown)


if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
