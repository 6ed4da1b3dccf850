"""What the preflight of ``lab memory store`` did, in a sentence with the cause and the remedy."""

from __future__ import annotations

from typing import Any

_KEY = "weijiMemoryPreflight"


def preflight_sentence(receipt: dict[str, Any] | None) -> str:
    """Return why the preflight blocked a memory or could not judge it, from its receipt; blank if it permitted it."""
    if not receipt or not receipt["attempted"]:
        return ""
    command, code = receipt["command"], receipt["wrapperExitCode"]
    if receipt["policyBlock"]:
        status = receipt["governorStatus"] or {40: "queued", 41: "rejected"}.get(code, "blocked")
        return f"the command {command!r} judged the memory {status} (exit code {code}); it has to be reviewed there"
    if not receipt["runtimeFailed"]:
        return ""
    cause, remedy = _failure(receipt)
    closed = receipt["failMode"] == "closed"
    then = "which blocks under failMode closed" if closed else "stored all the same, under failMode open"
    return f"the preflight did not judge the memory, because {cause}; {then}; {remedy}"


def _failure(receipt: dict[str, Any]) -> tuple[str, str]:
    """Return why the command failed, and what to do."""
    command, error = receipt["command"], receipt["errorCode"]
    if error == "ENOENT":
        return f"the command {command!r} was not found", f"set {_KEY}.command to its path"
    if error == "EACCES":
        return f"the command {command!r} is not executable", f"make it so, or correct {_KEY}.command"
    if error == "ETIMEDOUT":
        return f"the command {command!r} took longer than {receipt['timeoutMs']} ms", f"raise {_KEY}.timeoutMs"
    if error == "invalid_output":
        return f"the command {command!r} printed no JSON object", 'let it print one, such as {"ok": true}'
    if receipt["errorMessage"] is None:
        why = receipt["wrapperFailReason"] or "no reason given"
        return f"the command {command!r} reported that it failed ({why})", "see its log"
    said = receipt["errorMessage"].replace("the command", f"the command {command!r}", 1)
    return said, f"run it by hand to see why, or correct {_KEY}.command and commandArgs"
