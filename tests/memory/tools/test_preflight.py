"""The preflight before a memory is stored, with real commands: they hang, print rubbish, or block."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.memory.tools.preflight import (
    MAX_OUTPUT_BYTES,
    PreflightSettings,
    Verdict,
    lenient_object,
    preflight,
    preflight_settings,
    run_command,
)

pytestmark = pytest.mark.process
INTENT = {"id": "mem-intent-1", "text": "alpha secret-word", "scope": "global"}
Check = Callable[..., Verdict]
FIELDS = [
    *("enabled", "attempted", "decision", "mode", "command", "args", "timeoutMs", "failMode", "wrapperOk"),
    *("wrapperExitCode", "wrapperFailReason", "governorStatus", "reviewRequired", "traceId", "writeId", "bridgeMode"),
    *("nextSafeMove", "shadowMode", "errorCode", "errorMessage", "policyBlock", "runtimeFailed", "latencyMs"),
]


def check(code: str, *, strict: bool = True, timeout_ms: int = 20_000, **settings: Any) -> Verdict:
    """Run a piece of Python as the command."""
    given = PreflightSettings(
        enabled=True, command=sys.executable, command_args=("-c", code), timeout_ms=timeout_ms, **settings
    )
    return preflight(given, INTENT, run_command, lambda: 0, strict=strict)


def test_preflight_disabled_runs_no_command() -> None:
    def refuse(*_: object) -> Any:
        raise AssertionError("the command was run")

    verdict = preflight(PreflightSettings(), INTENT, refuse, lambda: 0, strict=True)
    wanted = {"enabled": False, "attempted": False, "decision": "allow", "mode": "disabled", "latencyMs": 0}
    assert verdict == (False, wanted)


def test_preflight_command_reads_the_intent_from_a_file_that_is_removed() -> None:
    code = (
        "import json,sys; at=sys.argv.index('--intent')+1; intent=json.load(open(sys.argv[at]));"
        "print(json.dumps({'ok': True, 'result': {'next_safe_move': intent['id'], 'memory_governor':"
        "{'status': ' Approved ', 'trace_id': sys.argv[at], 'write_id': ' '.join(sys.argv[at + 1:])}}}))"
    )
    settings = {"db_path": "/gov.db", "fail_on_queued": True, "fail_on_rejected": True}
    receipt = check(code, **settings).receipt
    assert list(receipt) == FIELDS
    assert (receipt["decision"], receipt["mode"], receipt["governorStatus"]) == ("allow", "enforced", "approved")
    assert (receipt["nextSafeMove"], receipt["wrapperExitCode"]) == ("mem-intent-1", 0)
    assert receipt["writeId"] == "--db /gov.db --fail-on-queued --fail-on-rejected"
    assert not Path(receipt["traceId"]).exists()
    assert receipt["args"][2:5] == ["--intent", "<intent>", "--db"]


@pytest.mark.parametrize("exit_code", [40, 41])
@pytest.mark.parametrize("fail_mode", ["open", "closed"])
def test_preflight_exit_40_and_41_block_in_every_mode(exit_code: int, fail_mode: str) -> None:
    blocked, receipt = check(f"raise SystemExit({exit_code})", fail_mode=fail_mode)
    assert (blocked, receipt["decision"], receipt["mode"]) == (True, "block", "advisory")
    assert (receipt["policyBlock"], receipt["runtimeFailed"], receipt["wrapperExitCode"]) == (True, False, exit_code)


@pytest.mark.parametrize("fail_mode", ["open", "closed"])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise SystemExit(3)", None),
        ("import time; time.sleep(60)", "ETIMEDOUT"),
        ("import os, time; os.close(1); os.close(2); time.sleep(60)", "ETIMEDOUT"),
        ("import os, time; os.fork() or time.sleep(60)", "ETIMEDOUT"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import sys\nwhile True: sys.stdout.write('rubbish ' * 9999)", "ERR_CHILD_PROCESS_STDIO_MAXBUFFER"),
        ("print('rubbish {not json}')", "invalid_output"),
        ("pass", "invalid_output"),
    ],
)
def test_preflight_failure_blocks_only_if_fail_mode_is_closed(code: str, error: str | None, fail_mode: str) -> None:
    blocked, receipt = check(code, fail_mode=fail_mode, timeout_ms=1500)
    assert (blocked, receipt["runtimeFailed"], receipt["policyBlock"]) == (fail_mode == "closed", True, False)
    assert (receipt["errorCode"], receipt["wrapperOk"]) == (error, False)
    assert "secret-word" not in json.dumps(receipt)


def test_preflight_silent_success_is_consent_for_the_plugin() -> None:
    blocked, receipt = check("print('rubbish')", strict=False, fail_mode="closed")
    assert (blocked, receipt["wrapperOk"], receipt["errorCode"]) == (False, True, None)


@pytest.mark.parametrize("fail_mode", ["open", "closed"])
@pytest.mark.parametrize("command", ["/no/such/command", "/", "a\0b"])
def test_preflight_command_that_cannot_start_is_a_failure(command: str, fail_mode: str) -> None:
    settings = PreflightSettings(enabled=True, command=command, fail_mode=fail_mode)
    blocked, receipt = preflight(settings, INTENT, run_command, lambda: 0, strict=True)
    assert (blocked, receipt["runtimeFailed"]) == (fail_mode == "closed", True)
    assert receipt["errorCode"] in ("ENOENT", "EACCES", "EINVAL")


def test_preflight_runner_that_raises_is_an_error_of_the_mode() -> None:
    def explode(*_: object) -> Any:
        raise MemoryError("secret-word")

    for fail_mode in ("open", "closed"):
        settings = PreflightSettings(enabled=True, fail_mode=fail_mode)
        blocked, receipt = preflight(settings, INTENT, explode, lambda: 0, strict=True)
        assert (blocked, receipt["mode"], receipt["errorMessage"]) == (fail_mode == "closed", "error", "MemoryError")


@pytest.mark.parametrize(("status", "flag"), [("QUEUED", "fail_on_queued"), ("rejected", "fail_on_rejected")])
def test_preflight_status_blocks_only_with_its_flag(status: str, flag: str) -> None:
    code = f'print(\'{{"result": {{"memory_governor": {{"status": "{status}"}}}}}}\')'
    assert check(code).blocked is False
    assert check(code, **{flag: True}).blocked is True
    other = {"fail_on_queued": "fail_on_rejected", "fail_on_rejected": "fail_on_queued"}[flag]
    assert check(code, **{other: True}).blocked is False


def test_preflight_envelope_is_read_from_stderr_if_stdout_has_none() -> None:
    code = 'import sys; print(\'log\'); sys.stderr.write(\'{"exit_code": 41, "fail_reason": "rejected"}\')'
    receipt = check(code).receipt
    assert (receipt["policyBlock"], receipt["wrapperExitCode"], receipt["wrapperFailReason"]) == (True, 41, "rejected")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        (' log\n{"a":\n 1}\nend', {"a": 1}),
        ('{broken\n{"a": 1}\n{"b": 2}\nend }', {"b": 2}),
        ("[1]", None),
        ('{"a": NaN}', None),
        ("{" * 100_000 + "}" * 100_000, None),
        ("", None),
    ],
)
def test_lenient_object_finds_the_object_in_noise(text: str, found: Any) -> None:
    assert lenient_object(text) == found


def test_preflight_long_strings_of_the_envelope_are_cut() -> None:
    receipt = check("print('{\"fail_reason\": \"' + 'x' * 5000 + '\"}')").receipt
    assert receipt["wrapperFailReason"] == "x" * 240


def test_run_command_kills_the_children_of_a_command_that_hangs(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = f"import os, time; pid = os.fork(); pid and open({str(file)!r}, 'w').write(str(pid)); time.sleep(60)"
    ran = run_command([sys.executable, "-c", code], 3000)
    assert (ran.error_code, ran.exit_code) == ("ETIMEDOUT", None)
    child = int(file.read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{child}/stat").read_text().split()[2]
        except OSError:
            break
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        pytest.fail("the child still runs")


def test_run_command_reads_both_outputs_to_the_end() -> None:
    code = "import sys; sys.stdout.write('o' * 500_000); sys.stderr.write('e' * 500_000)"
    ran = run_command([sys.executable, "-c", code], 20_000)
    assert (ran.ok, len(ran.stdout), len(ran.stderr)) == (True, 500_000, 500_000)
    assert MAX_OUTPUT_BYTES > 500_000


def test_preflight_settings_are_clamped_as_in_the_plugin() -> None:
    raw = {"weijiMemoryPreflight": {"enabled": True, "timeoutMs": 5, "failMode": "shut", "commandArgs": ["a"]}}
    settings = preflight_settings(raw)
    assert (settings.enabled, settings.timeout_ms, settings.fail_mode, settings.command_args) == (
        True,
        1000,
        "open",
        ("a",),
    )
    assert preflight_settings({"weijiMemoryPreflight": True}).enabled is True
    assert preflight_settings({}) == preflight_settings(None) == PreflightSettings()
