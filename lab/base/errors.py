"""The exceptions of the lab, and the exit code of each.

    LabError                      4   could not measure (the default: a fault while measuring)
    ├── CheckFailed               1   a check found errors: validate, lint
    ├── UnusableInput             2   the arguments or the input files cannot be used
    │   ├── NotARun               2   the folder is not a run directory
    │   └── OtherArguments        2   the run directory was made with different arguments
    ├── NotComparable             3   two arms cannot be compared; the message lists the reasons
    └── CannotMeasure             4   a model, a store, a file or a conversation failed
        ├── Altered               4   a file of a run has changed since it was written
        ├── Incomplete            4   a run lacks conversations or rows
        ├── CannotWrite           4   the disk is full or read-only
        └── InUse                 4   another process is writing the same folder

A message is one line: what is wrong, where, and how to fix it. Commands print it to stderr and exit with the code. An
unexpected exception also exits with 4; its traceback is saved to a file that the message names.
"""

from __future__ import annotations

from pathlib import Path


class LabError(Exception):
    """Base class of all exceptions of the lab. ``exit_code`` is the exit code of the command line."""

    exit_code = 4


class CheckFailed(LabError):
    """A check found errors in what it was given."""

    exit_code = 1


class UnusableInput(LabError):
    """The arguments or the input files cannot be used."""

    exit_code = 2


class NotARun(UnusableInput):
    """The folder has no manifest of the lab, so it is not a run directory."""


class OtherArguments(UnusableInput):
    """The run directory was made with different arguments."""


class NotComparable(LabError):
    """The runs of two arms differ in more than the arm; the message lists the differences."""

    exit_code = 3


class CannotMeasure(LabError):
    """Something that the measurement needs failed: a model, a store, a file or a conversation."""


class Altered(CannotMeasure):
    """A file of a run does not match its recorded checksum: it was damaged or edited."""


class Incomplete(CannotMeasure):
    """A run does not have exactly one row for each arm and recall point."""


class CannotWrite(CannotMeasure):
    """The disk is full or read-only, so nothing more can be saved."""


class InUse(CannotMeasure):
    """Another process is writing the same folder."""


def describe_unexpected(error: Exception) -> str:
    """Return a one-line summary of an unexpected exception: its type and where it was raised.

    The message of the exception is left out because it may quote a recording, except that of an OSError, which names
    only a file.
    """
    kind = type(error).__name__
    if isinstance(error, OSError):
        return f"{kind}: {error}"
    import re
    from traceback import format_tb

    # An exception from a worker process carries that process's traceback as text.
    traceback = getattr(error.__cause__, "tb", None) or "".join(format_tb(error.__traceback__))
    frames = re.findall(r'^ +File "([^"]+)", line (\d+)', traceback, re.MULTILINE)
    return f"{kind} in {Path(frames[-1][0]).name}, line {frames[-1][1]}" if frames else kind
