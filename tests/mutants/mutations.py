"""Mutations of a file: bytes, lines and fields that are missing, damaged, out of range or hostile.

Mutations come from a :class:`random.Random`, so a seed gives the same mutants on every machine.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

# Written into JSON as strings, then replaced by text that json.dumps would never write.
RAW = {
    "@deep@": "[" * 100_000 + "]" * 100_000,
    "@open@": '{"a":' * 100_000,
    "@huge@": "1e999",
    "@nan@": "NaN",
    "@digits@": "9" * 5_000,
    "@nested@": "[" * 700 + "]" * 700,
}
EVIL_TEXTS = (
    "",
    " ",
    "\ud800",
    "\uffff",
    "\x00",
    "a\x1b[2Jb\r::error::c",
    "::warning::x",
    "../../etc/passwd",
    "/dev/zero",
    "x" * 5_000,
    "名前\u202eabc",
    "a/b/c#d",
    "nan",
    "2026-13-45T99:99:99Z",
    "9999-12-31T23:59:59+00:00",
    "0001-01-01T00:00:00+14:00",
)
EVIL_NUMBERS = (0, -1, 1, 0.5, -1e-9, 2**31, 2**53 + 1, 2**63, -(2**63), 10**400, 1e308)
EVIL_OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, {"\ud800": 1}, *RAW)
EVIL: tuple[Any, ...] = (*EVIL_TEXTS, *EVIL_NUMBERS, *EVIL_OTHERS)
TOML_VALUES = (
    *(
        '""',
        '"::error::x"',
        '"\\u001b[2J"',
        '"\\uffff"',
        "0",
        "-1",
        "1e999",
        "inf",
        "nan",
        "true",
        "[]",
        "{}",
        "1979-05-27",
    ),
    *(
        "99999999999999999999999",
        "1e308",
        "0.5",
        "-0.0",
        "[[]]",
        "9" * 5_000,
        "[" * 100_000 + "]" * 100_000,
        '"/dev/zero"',
    ),
)
Mutate = Callable[[bytes, random.Random], bytes]


def _flip_bit(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]


def _delete_span(data: bytes, draw: random.Random) -> bytes:
    begin = draw.randrange(len(data))
    return data[:begin] + data[begin + draw.choice((1, 2, 7, 60, 2_000)) :]


def _insert(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data) + 1)
    pieces = (
        b"\x00",
        b"\xff",
        b"\xed\xa0\x80",
        b'"',
        b"{",
        b"\n",
        b"\r",
        b"\x1b[2J",
        b"\xe2\x80\xa8",
        b"\\ud800",
        b"1e999",
    )
    return data[:place] + draw.choice(pieces) * draw.choice((1, 1, 3, 5_000)) + data[place:]


def _truncate(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.choice((0, 1, 4, draw.randrange(len(data)), len(data) - 1, len(data) - 9))]


def _zero_span(data: bytes, draw: random.Random) -> bytes:
    begin = draw.randrange(len(data))
    size = min(draw.choice((1, 4, 512)), len(data) - begin)
    return data[:begin] + bytes(size) + data[begin + size :]


def _whole(data: bytes, draw: random.Random) -> bytes:
    """Replace the file, or change its encoding."""
    text = data.decode("utf-8", "replace")
    return draw.choice(
        (
            *(b"", b"\n\n\n", b"{}", b"[]", b"null", b"0", b'""', b"\x00" * 4_096, b"PAR1" + bytes(40) + b"PAR1"),
            *(b"[" * 100_000, b'{"a":' * 100_000, b"\xef\xbb\xbf" + data, text.encode("utf-16"), data + data),
            *(data.replace(b"\n", b"\r\n"), b"\x1f\x8b" + data, b"SQLite format 3\x00" + data, b"-" * 100_000),
        )
    )


BYTES: tuple[Mutate, ...] = (_flip_bit, _delete_span, _insert, _truncate, _zero_span, _whole)


def _line(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    place, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(7)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(other, lines[place])
    elif kind == 2:
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 3:
        lines[place] = lines[place][: draw.randrange(len(lines[place]) + 1)]
    elif kind == 4:
        lines.insert(
            place, draw.choice((b"::error::x", b"\x1b[2J", b"null", b"{}", b"[" * 100_000, b"}", b"\xff", b"= 3"))
        )
    elif kind == 5:
        lines[place : place + 2] = [b"".join(lines[place : place + 2])]
    else:
        del lines[min(place, other) : max(place, other)]
    return b"\n".join(lines)


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path of every value within a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*before, key)
        yield from _places(one, (*before, key))


def _change(value: Any, draw: random.Random) -> Any:
    """Change one field of a parsed value, in place."""
    places = list(_places(value))
    if not places:
        return draw.choice(EVIL)
    *above, last = draw.choice(places)
    holder = value
    for key in above:
        holder = holder[key]
    kind = draw.randrange(8)
    if kind == 0:
        del holder[last]
    elif kind == 1 and isinstance(holder, dict):
        holder[draw.choice(EVIL_TEXTS)] = holder.pop(last)
    elif kind == 2 and isinstance(holder, list):
        holder.append(holder[last])
    elif kind == 3 and isinstance(holder[last], str):
        holder[last] = draw.choice((holder[last] + draw.choice(EVIL_TEXTS), holder[last][:-1], holder[last].upper()))
    elif kind == 4 and isinstance(holder[last], int | float):
        holder[last] = draw.choice((-holder[last], holder[last] + 1, holder[last] * 1_000, str(holder[last])))
    else:
        holder[last] = draw.choice(EVIL)
    return value


def _dumped(value: Any) -> str:
    text = json.dumps(value)
    for name, raw in RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text


def _json_field(data: bytes, draw: random.Random) -> bytes:
    return _dumped(_change(json.loads(data), draw)).encode()


def _json_line_field(data: bytes, draw: random.Random) -> bytes:
    lines = data.decode().split("\n")
    filled = [place for place, line in enumerate(lines) if line.startswith(("{", "["))]
    place = draw.choice(filled)
    changed = _dumped(_change(json.loads(lines[place]), draw))
    # A repeated field.
    lines[place] = changed[:-1] + ', "kind": "x"}' if changed.startswith("{") and draw.random() < 0.05 else changed
    return "\n".join(lines).encode()


def _logged_field(data: bytes, draw: random.Random) -> bytes:
    """Change a field of the JSON behind the marker of a log line."""
    lines = data.decode().split("\n")
    place = draw.choice([place for place, line in enumerate(lines) if "{" in line])
    head, brace, tail = lines[place].partition("{")
    lines[place] = head + _dumped(_change(json.loads(brace + tail), draw))
    return "\n".join(lines).encode()


def _toml_value(data: bytes, draw: random.Random) -> bytes:
    text = data.decode()
    result = draw.choice(list(re.finditer(r"^([\w.\" -]+?) *= *(.+)$", text, re.MULTILINE)))
    key, value = result.groups()
    if draw.random() < 0.2:
        key = draw.choice(('"\\uffff"', '"::error::x"', "nothing", f"{key}.{key}"))
    else:
        value = draw.choice(TOML_VALUES)
    return (text[: result.start()] + f"{key} = {value}" + text[result.end() :]).encode()


def _word(data: bytes, draw: random.Random) -> bytes:
    """Replace a word or a number of a text."""
    text = data.decode("utf-8", "surrogateescape")
    result = draw.choice(list(re.finditer(r"[\w.+-]+", text)))
    words = [
        *(evil_text for evil_text in EVIL_TEXTS if evil_text.isprintable()),
        "1e999",
        "-1",
        "9" * 5_000,
        "nan",
        "0",
    ]
    new = draw.choice(words) if draw.random() < 0.9 else "\x1b[2J::error::"
    return (text[: result.start()] + new + text[result.end() :]).encode("utf-8", "surrogateescape")


def _table(data: bytes, draw: random.Random) -> bytes:
    """Return a valid Parquet file with other rows or columns."""
    table = parquet.read_table(io.BytesIO(data))
    place = draw.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    rows = max(1, table.num_rows)
    kind = draw.randrange(9)
    if kind == 0:
        table = table.slice(0, draw.choice((0, rows // 2)))
    elif kind == 1:
        table = table.drop_columns([name])
    elif kind == 2:
        table = pa.concat_tables([table, table.slice(draw.randrange(rows), 3)])
    elif kind == 3:
        table = table.set_column(place, name, pa.nulls(len(column), column.type))
    elif kind == 4:
        table = table.set_column(place, name, pa.array([draw.choice(("", "::error::x", "\x1b[2J"))] * len(column)))
    elif kind == 5:
        table = table.set_column(place, name, pa.array([draw.choice((2**62, -1, -(2**31)))] * len(column)))
    elif kind == 6:
        table = table.set_column(
            place, name, pa.array([draw.choice((float("nan"), float("inf"), -1e308))] * len(column))
        )
    elif kind == 7:
        table = table.take(pa.array(draw.sample(range(table.num_rows), table.num_rows), pa.int64()))
    else:
        values = column.to_pylist()
        values[draw.randrange(rows) % max(1, len(values))] = draw.choice(values)
        table = table.set_column(place, name, pa.array(values, column.type))
    sink = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(table.schema.metadata), sink)
    return sink.getvalue()


OPERATORS: dict[str, tuple[Mutate, ...]] = {
    "json": (*BYTES, *([_json_field] * 8)),
    "jsonl": (*BYTES, _line, _line, *([_json_line_field] * 8)),
    "toml": (*BYTES, _line, _line, *([_toml_value] * 8)),
    "log": (*BYTES, _line, _line, *([_logged_field] * 8)),
    "text": (*BYTES, _line, _line, *([_word] * 4)),
    "parquet": (*BYTES, *([_table] * 8)),
    "binary": BYTES,
}


def mutant(data: bytes, form: str, draw: random.Random) -> tuple[str, bytes]:
    """Return a mutant of a file and the name of the mutation; ``form`` is a key of :data:`OPERATORS`."""
    made, names = data, []
    for _ in range(draw.choice((1, 1, 1, 2))):
        operator = draw.choice(OPERATORS[form])
        try:
            made = operator(made, draw)
        except (ValueError, IndexError, LookupError, TypeError, OSError, RecursionError, pa.ArrowException):
            # After the first mutation the file has another form, or nothing to change.
            made = _flip_bit(made or b"\n", draw)
        names.append(getattr(operator, "__name__", "").strip("_"))
    return "+".join(names), made
