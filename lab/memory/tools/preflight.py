"""The Wei Ji preflight (E-91): a command, with limits on its time and output, judges a memory before it is stored."""

from __future__ import annotations

import errno
import json
import math
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from lab.base.files import refuse_constant
from lab.base.utf16 import WHITESPACE, js_slice
from lab.systems.openclaw.config.table import PLUGIN, SEED, Section
from lab.systems.openclaw.config.values import section_values
from lab.systems.openclaw.js import js_json

QUEUED, REJECTED = "queued", "rejected"
# The exit codes by which the command queues and rejects a memory.
BLOCKING_EXITS = (40, 41)
ALLOW, BLOCK = "allow", "block"
# The file of the intent has another name in every call; receipts show this one.
INTENT = "<intent>"
MAX_CHARS = 240
_KEY = "weijiMemoryPreflight"
# What is read of each of the two outputs.
MAX_OUTPUT_BYTES = 1 << 20
TIMED_OUT, TOO_MUCH = "ETIMEDOUT", "ERR_CHILD_PROCESS_STDIO_MAXBUFFER"


class Ran(NamedTuple):
    """What a command did. ``exit_code`` is None if it was not started or was killed; ``error_code`` says why."""

    ok: bool
    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    error_code: str | None = None
    error_message: str | None = None


# Runs a command with its arguments, and a time limit in milliseconds.
RunPreflight: TypeAlias = Callable[[Sequence[str], int], Ran]


@dataclass(frozen=True, slots=True)
class PreflightSettings:
    """The plugin's ``weijiMemoryPreflight``. ``fail_mode``: what a failure of the command means, open or closed."""

    enabled: bool = False
    command: str = "weiji-memory-preflight"
    command_args: tuple[str, ...] = ()
    db_path: str | None = None
    timeout_ms: int = 12_000
    fail_mode: str = "open"
    fail_on_queued: bool = False
    fail_on_rejected: bool = False


class Preflight(NamedTuple):
    """The settings, and the function that runs the command."""

    settings: PreflightSettings
    run: RunPreflight


class Verdict(NamedTuple):
    """Whether the memory may not be stored, and the receipt."""

    blocked: bool
    receipt: dict[str, Any]


def preflight_settings(raw: object, profile: str = SEED) -> PreflightSettings:
    """Return the settings in a plugin's configuration; numbers out of range are clamped as in the plugin."""
    given = raw.get(_KEY) if isinstance(raw, Mapping) else None
    values = section_values(_KEY, cast("Section", PLUGIN[_KEY]), given, profile)
    return PreflightSettings(
        values["enabled"],
        values["command"],
        tuple(values["commandArgs"]),
        values.get("dbPath"),
        values["timeoutMs"],
        values["failMode"],
        values["failOnQueued"],
        values["failOnRejected"],
    )


def preflight(
    settings: PreflightSettings,
    intent: Mapping[str, Any],
    run: RunPreflight,
    now_ms: Callable[[], int],
    *,
    strict: bool,
) -> Verdict:
    """Let the command decide whether a memory may be stored. Never raises, whatever the command does.

    Exit codes 40 and 41 block in every mode. ``strict`` (profile ``seed``): a command that ends without an error and
    prints no JSON object has failed; the plugin takes that as consent.
    """
    started = now_ms()
    if not settings.enabled:
        receipt = {"enabled": False, "attempted": False, "decision": ALLOW, "mode": "disabled"}
        return Verdict(False, receipt | {"latencyMs": max(0, now_ms() - started)})
    mode = "enforced" if settings.fail_on_queued or settings.fail_on_rejected else "advisory"
    try:
        with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
            file = Path(folder) / "intent.json"
            file.write_bytes(js_json(dict(intent)).encode("utf-8", "surrogatepass"))
            ran = run([settings.command, *_arguments(settings, str(file))], settings.timeout_ms)
    except Exception as error:
        mode = "error"
        ran = Ran(False, None, error_code="intent_failed", error_message=type(error).__name__)
    envelope = lenient_object(ran.stdout) or lenient_object(ran.stderr)
    if strict and ran.ok and envelope is None:
        ran = ran._replace(ok=False, error_code="invalid_output", error_message="the command printed no JSON object")
    return _verdict(settings, mode, ran, envelope or {}, started, now_ms)


def _arguments(settings: PreflightSettings, file: str) -> list[str]:
    arguments = [*settings.command_args, "--intent", file]
    if settings.db_path:
        arguments += ["--db", settings.db_path]
    if settings.fail_on_queued:
        arguments.append("--fail-on-queued")
    if settings.fail_on_rejected:
        arguments.append("--fail-on-rejected")
    return arguments


def _verdict(
    settings: PreflightSettings,
    mode: str,
    ran: Ran,
    envelope: Mapping[str, Any],
    started: int,
    now_ms: Callable[[], int],
) -> Verdict:
    result = _object(envelope, "result")
    governor = _object(result, "memory_governor")
    status = _text(governor.get("status"))
    status = status.lower() if status else None
    exit_code = _number(envelope.get("exit_code"))
    exit_code = ran.exit_code if exit_code is None else exit_code
    ok = envelope["ok"] if isinstance(envelope.get("ok"), bool) else ran.ok
    stopped = (
        exit_code in BLOCKING_EXITS
        or (settings.fail_on_queued and status == QUEUED)
        or (settings.fail_on_rejected and status == REJECTED)
    )
    failed = not (ran.ok and ok) and not stopped
    blocked = stopped or (failed and settings.fail_mode == "closed")
    receipt = {
        "enabled": True,
        "attempted": True,
        "decision": BLOCK if blocked else ALLOW,
        "mode": mode,
        "command": settings.command,
        "args": _arguments(settings, INTENT),
        "timeoutMs": settings.timeout_ms,
        "failMode": settings.fail_mode,
        "wrapperOk": ok,
        "wrapperExitCode": exit_code,
        "wrapperFailReason": _text(envelope.get("fail_reason")),
        "governorStatus": status,
        "reviewRequired": governor.get("review_required") is True,
        "traceId": _text(governor.get("trace_id")),
        "writeId": _text(governor.get("write_id")) or _text(_object(governor, "request_payload").get("write_id")),
        "bridgeMode": _text(_object(governor, "bridge").get("mode")),
        "nextSafeMove": _text(result.get("next_safe_move")),
        "shadowMode": result.get("shadow_mode") is True,
        "errorCode": ran.error_code,
        "errorMessage": ran.error_message,
        "policyBlock": stopped,
        "runtimeFailed": failed,
        "latencyMs": max(0, now_ms() - started),
    }
    return Verdict(blocked, receipt)


def lenient_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a text with other output around it, or None.

    Tries the whole text, what is between the outermost braces, and the last line that is an object.
    """
    for candidate in _candidates(text.strip(WHITESPACE)):
        try:
            value = json.loads(candidate, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def _candidates(text: str) -> Iterator[str]:
    yield text
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        yield text[start : end + 1]
    yield from (line.strip(WHITESPACE) for line in reversed(text.split("\n")) if line.strip(WHITESPACE).startswith("{"))


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _text(value: object) -> str | None:
    """Return a text that is not blank, cut so that a receipt stays small."""
    if not isinstance(value, str) or not value.strip(WHITESPACE):
        return None
    return js_slice(value.strip(WHITESPACE), MAX_CHARS)


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def run_command(argv: Sequence[str], timeout_ms: int) -> Ran:
    """Run a command without a shell and return what it did. It and its children are killed at the time limit.

    A command that prints more than 1 MiB is killed as well. Nothing is raised for a command that cannot be started.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator configures the command
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # A ValueError is a null character in the command.
        number = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
        why = f"the command cannot be started: {os.strerror(number)}"
        return Ran(False, None, error_code=errno.errorcode.get(number, str(number)), error_message=why)
    end = time.monotonic() + timeout_ms / 1000
    with process:
        output, failure = _read(process, end)
        if failure is None:
            try:
                process.wait(timeout=max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                failure = TIMED_OUT
        if failure is not None:
            _kill(process)
        code = process.wait()
    stdout, stderr = (part.decode("utf-8", "replace") for part in output)
    if failure is not None:
        why = "took too long" if failure == TIMED_OUT else f"printed more than {MAX_OUTPUT_BYTES} bytes"
        return Ran(False, None, stdout, stderr, failure, f"the command {why} and was stopped (limit {timeout_ms} ms)")
    if code < 0:
        return Ran(False, None, stdout, stderr, signal.Signals(-code).name, "the command was killed by a signal")
    ended = None if code == 0 else f"the command ended with exit code {code}"
    return Ran(code == 0, code, stdout, stderr, None, ended)


def _read(process: subprocess.Popen[bytes], end: float) -> tuple[tuple[bytes, bytes], str | None]:
    parts: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ)
                parts[stream.fileno()] = bytearray()
        failure = None
        while selector.get_map() and failure is None:
            rest = end - time.monotonic()
            ready = selector.select(rest) if rest > 0 else []
            if not ready:
                failure = TIMED_OUT
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                parts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(parts[key.fd]) > MAX_OUTPUT_BYTES:
                    failure = TOO_MUCH
    stdout, stderr = (bytes(part) for part in parts.values())
    return (stdout, stderr), failure


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
