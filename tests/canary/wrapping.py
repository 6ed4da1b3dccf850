"""Write lines of a gateway as log collectors, container runtimes and exports keep them.

Each form takes events, which are times with the gateway's lines, and returns the bytes of the collector's log.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import html
import io
import json
import lzma
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

Events = Sequence[tuple[datetime, str]]
Form = Callable[[Events], bytes]
TAG = "gateway"


def iso(at: datetime) -> str:
    """Return a time as containers write it, with nine digits of a second."""
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}000Z"


def micros(at: datetime) -> int:
    """Return microseconds since 1970."""
    return round(at.timestamp() * 1e6)


def lines(write: Callable[[datetime, str], str]) -> Form:
    """Return a form that writes one line for each event."""
    return lambda events: "".join(f"{write(at, text)}\n" for at, text in events).encode()


def objects(write: Callable[[datetime, str], Any]) -> Form:
    """Return a form that writes one JSON line for each event."""
    return lines(lambda at, text: json.dumps(write(at, text), ensure_ascii=False, separators=(",", ":")))


def document(write: Callable[[datetime, str], Any], around: Callable[[list[Any]], Any], indent: int | None = 2) -> Form:
    """Return a form that writes one JSON document."""
    return lambda events: json.dumps(around([write(at, text) for at, text in events]), indent=indent).encode()


def parts(size: int, write: Callable[[datetime, str, bool], str]) -> Form:
    """Return a form that splits lines after so many characters; ``write`` is given whether the record goes on."""

    def form(events: Events) -> bytes:
        written = []
        for at, text in events:
            pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
            written += [write(at, piece, number < len(pieces)) for number, piece in enumerate(pieces, 1)]
        return "".join(f"{line}\n" for line in written).encode()

    return form


def table(delimiter: str, columns: Callable[[datetime, str], list[str]], header: list[str]) -> Form:
    """Return a form that writes a table with a header and quoted cells."""

    def form(events: Events) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerow(header)
        writer.writerows(columns(at, text) for at, text in events)
        return out.getvalue().encode()

    return form


def journal_export(events: Events) -> bytes:
    """Write the journal's export format; fields with colour codes are binary, with their length."""
    records = []
    for at, text in events:
        data = text.encode()
        binary = b"MESSAGE\n" + len(data).to_bytes(8, "little") + data
        field = binary if "\x1b" in text else b"MESSAGE=" + data
        head = f"__CURSOR=s={micros(at):x}\n__REALTIME_TIMESTAMP={micros(at)}\n_BOOT_ID=ab\n_HOSTNAME=pi\n".encode()
        records.append(head + b"PRIORITY=6\n" + field + b"\n_PID=71\n\n")
    return b"".join(records)


def journal_message(text: str) -> str | list[int]:
    """Return a message as the journal's JSON has it: a text with colour codes is a list of bytes."""
    return list(text.encode()) if "\x1b" in text else text


def yaml(events: Events) -> bytes:
    """Write documents of YAML, as a cloud's command line prints them."""
    documents = []
    for at, text in events:
        single = text.replace("'", "''").replace("\x1b", "")
        documents.append(f"---\ninsertId: a1\nlabels:\n  pod: x\ntextPayload: '{single}'\ntimestamp: '{iso(at)}'\n")
    return "".join(documents).encode()


def columns(events: Events) -> bytes:
    """Write a table of PostgreSQL with a column on each line."""
    rows = [f"-[ RECORD {n} ]-----\ntime    | {iso(at)}\nmessage | {text}\n" for n, (at, text) in enumerate(events, 1)]
    return "".join(rows).encode()


def rows(events: Events) -> bytes:
    """Write a table of MySQL with a column on each line."""
    bar = "*" * 27
    made = [f"{bar} {n}. row {bar}\n     ts: {iso(at)}\nmessage: {text}\n" for n, (at, text) in enumerate(events, 1)]
    return "".join(made).encode()


def journal_verbose(events: Events) -> bytes:
    """Write the journal's verbose format."""
    records = [
        f"Sun {at:%Y-%m-%d %H:%M:%S}.{at.microsecond:06} UTC [s=a;i=1;b=2]\n    PRIORITY=6\n    MESSAGE={text}\n"
        for at, text in events
    ]
    return "".join(records).encode()


def quoted(text: str) -> str:
    """Return a text in the quotes of key=value logs, with escapes that JSON lacks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\x1b", "\\x1b") + '"'


def elastic(at: datetime, text: str) -> dict[str, Any]:
    """Return a hit of Elasticsearch with a line that Filebeat shipped."""
    source = {"@timestamp": iso(at), "message": text, "event": {"original": text}, "agent": {"type": "filebeat"}}
    return {"_index": "logs-1", "_id": f"{micros(at):x}", "_source": source, "fields": {"message": [text]}, "sort": [1]}


def fluent_bit(at: datetime, text: str) -> str:
    """Return a record as Fluent Bit prints it to its own output."""
    return f'[0] kube.var: [[{at.timestamp():.9f}, {{}}], {{"log"=>{json.dumps(text)}, "stream"=>"stdout"}}]'


FORMS: dict[str, Form] = {
    "docker json-file": objects(lambda at, text: {"log": f"{text}\n", "stream": "stdout", "time": iso(at)}),
    "docker json-file in parts": parts(
        300,
        lambda at, text, more: json.dumps({"log": text + ("" if more else "\n"), "stream": "stdout", "time": iso(at)}),
    ),
    "docker json-file without line feeds": objects(lambda at, text: {"log": text, "stream": "stdout", "time": iso(at)}),
    "docker in parts, by fluentd": parts(
        300,
        lambda at, text, more: json.dumps(
            {
                "log": text,
                "source": "stdout",
                "partial_message": "true",
                "partial_last": str(not more).lower(),
                "time": iso(at),
            }
        ),
    ),
    "fluent bit in parts": parts(
        300,
        lambda at, text, more: json.dumps(
            {"time": iso(at), "stream": "stdout", "logtag": "P" if more else "F", "log": text}
        ),
    ),
    "docker compose": lines(lambda at, text: f"gateway-1  | {iso(at)} {text}"),
    "kubernetes": lines(lambda at, text: f"{iso(at)} stdout F {text}"),
    "kubernetes in parts": parts(300, lambda at, text, more: f"{iso(at)} stdout {'P' if more else 'F'} {text}"),
    "kubectl --prefix --timestamps": lines(lambda at, text: f"[pod/gateway-7d9f-x2/gateway] {iso(at)} {text}"),
    "stern": objects(lambda at, text: {"message": f"{iso(at)} {text}", "podName": "gateway-0", "namespace": "a"}),
    "loki lines": objects(lambda at, text: {"labels": {"app": TAG}, "line": text, "timestamp": iso(at)}),
    "loki answer": document(
        lambda at, text: [f"{micros(at)}000", text],
        lambda values: {"status": "success", "data": {"result": [{"stream": {"app": TAG}, "values": values}]}},
    ),
    "loki answer on one line": document(
        lambda at, text: [f"{micros(at)}000", text],
        lambda values: {"data": {"resultType": "streams", "result": [{"stream": {}, "values": values}]}},
        None,
    ),
    "logcli": lines(lambda at, text: f'{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}Z {{app="{TAG}", pod="a"}} {text}'),
    "journal json": objects(
        lambda at, text: {
            "__REALTIME_TIMESTAMP": str(micros(at)),
            "__MONOTONIC_TIMESTAMP": "1234567",
            "PRIORITY": "6",
            "MESSAGE": journal_message(text),
        }
    ),
    "journal json-pretty": lambda events: b"".join(
        json.dumps({"__REALTIME_TIMESTAMP": str(micros(at)), "MESSAGE": journal_message(text)}, indent="\t").encode()
        + b"\n"
        for at, text in events
    ),
    "journal json-seq": lines(
        lambda at, text: (
            "\x1e" + json.dumps({"__REALTIME_TIMESTAMP": str(micros(at)), "MESSAGE": journal_message(text)})
        )
    ),
    "journal short-iso": lines(lambda at, text: f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}+0000 pi node[71]: {text}"),
    "journal short-unix": lines(lambda at, text: f"{at.timestamp():.6f} pi node[71]: {text}"),
    "journal export": journal_export,
    "journal verbose": journal_verbose,
    "yaml": yaml,
    "psql, a column on each line": columns,
    "mysql, a column on each line": rows,
    "syslog RFC 5424": lines(lambda at, text: f"<14>1 {iso(at)} pi openclaw 71 - - {text}"),
    "syslog with octal escapes": lines(lambda at, text: f"{iso(at)} pi openclaw[71]: " + text.replace("\x1b", "#033")),
    "fluentd file": lines(lambda at, text: f"{iso(at)}\tdocker.gateway\t{json.dumps({'log': text, 'stream': 'out'})}"),
    "fluentd records": objects(lambda at, text: [at.timestamp(), {"log": text, "container": "a"}]),
    "fluent bit": lines(fluent_bit),
    "fluent bit json": document(lambda at, text: {"date": at.timestamp(), "log": text}, lambda records: records, None),
    "vector": objects(lambda at, text: {"host": "pi", "message": text, "source_type": "file", "timestamp": iso(at)}),
    "elastic hits": document(elastic, lambda hits: {"took": 3, "hits": {"total": {"value": 9}, "hits": hits}}),
    "elasticdump": objects(elastic),
    "cloudwatch events": document(
        lambda at, text: {"timestamp": micros(at) // 1000, "message": text, "ingestionTime": 1_900_000_000_000},
        lambda events: {"events": events, "nextForwardToken": "f/1"},
    ),
    "cloudwatch insights": document(
        lambda at, text: [
            {"field": "@timestamp", "value": f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"},
            {"field": "@message", "value": text},
        ],
        lambda results: {"results": results, "status": "Complete"},
    ),
    "cloudwatch tail": lines(lambda at, text: f"{iso(at)} gateway/gateway/0a1b2c {text}"),
    "google cloud": document(
        lambda at, text: {"insertId": "a", "textPayload": text, "timestamp": iso(at), "receiveTimestamp": "2027-01-01"},
        lambda entries: entries,
    ),
    "azure": objects(lambda at, text: {"TimeGenerated": iso(at), "LogEntry": text, "ContainerName": "a"}),
    "datadog": document(
        lambda at, text: {"id": "A", "attributes": {"message": text, "timestamp": iso(at), "tags": ["a:b"]}},
        lambda data: {"data": data, "meta": {"elapsed": 132}},
    ),
    "splunk": objects(lambda at, text: {"preview": False, "result": {"_raw": text, "_time": iso(at), "host": "pi"}}),
    "opentelemetry": document(
        lambda at, text: {
            "timeUnixNano": f"{micros(at)}000",
            "body": {"stringValue": text},
            "attributes": [{"key": "log.file.name", "value": {"stringValue": "a.log"}}],
        },
        lambda records: {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": records}]}]},
        None,
    ),
    "pm2": lines(lambda at, text: f"0|gateway  | {iso(at)}: {text}"),
    "pm2 json": objects(
        lambda at, text: {"message": f"{text}\n", "timestamp": iso(at), "type": "out", "app_name": "g"}
    ),
    "ts": lines(lambda at, text: f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}Z {text}"),
    "key=value": lines(lambda at, text: f"time={iso(at)} level=info msg={quoted(text)} app={TAG}"),
    "comma-separated": table(",", lambda at, text: [iso(at), text, "info"], ["@timestamp", "@message", "level"]),
    "comma-separated, time last": table(",", lambda at, text: [text, iso(at)], ["message", "time"]),
    "tab-separated": table("\t", lambda at, text: ["a", iso(at), text], ["host", "time", "message"]),
    "xml": lines(lambda at, text: f'<event time="{iso(at)}"><message>{html.escape(text)}</message></event>'),
    "the host's own tail": objects(
        lambda at, text: {"type": "log", "time": iso(at), "level": "info", "message": text, "raw": text}
    ),
}

# Forms whose lines another collector may keep.
WITHIN = ("docker json-file", "journal json", "key=value")


def nested(inner: Form, outer: Form) -> Form:
    """Return the form of a collector that reads the log of another one."""

    def form(events: Events) -> bytes:
        wrapped = [(event[0], inner([event]).decode().splitlines()[-1]) for event in events]
        return outer(wrapped)

    return form


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "UTF-16 LE with mark": lambda data: data.decode().encode("utf-16"),
    "UTF-16 LE": lambda data: data.decode().encode("utf-16-le"),
    "UTF-16 BE with mark": lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
    "UTF-16 BE": lambda data: data.decode().encode("utf-16-be"),
    "UTF-32 with mark": lambda data: data.decode().encode("utf-32"),
    "UTF-8 with mark": lambda data: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
