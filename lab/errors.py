"""Everything that can go wrong, and the exit code it ends a command with.

    LabError                      4   could not measure (the default: a fault while measuring)
    ├── CheckFailed               1   the thing that was checked failed: validate, lint
    ├── UnusableInput             2   the arguments or the files cannot be worked with
    │   ├── NotARun               2   a folder was given that is not a run directory
    │   └── OtherArguments        2   a run directory was made with other arguments than these
    ├── NotComparable             3   two arms cannot be compared; the reasons are listed
    └── CannotMeasure             4   a model, a store or a file failed underneath us
        ├── Altered               4   a file of a run is not as it was written
        ├── Incomplete            4   a run lacks conversations, or rows of one
        ├── CannotWrite           4   the disk is full or read-only: nothing more can be kept
        └── InUse                 4   another process is writing the same folder

A message is one line that says what is wrong, where, and what would mend it. Commands print it on stderr and end with
the code. An unexpected exception ends with 4 as well, and its traceback is kept in a file that the line names.
"""

from __future__ import annotations

from pathlib import Path


class LabError(Exception):
    """Root of the tree. ``exit_code`` is what the command line ends with."""

    exit_code = 4


class CheckFailed(LabError):
    """Validation or lint found errors in the thing it was asked to check."""

    exit_code = 1


class UnusableInput(LabError):
    """Arguments or input files that nothing can be done with."""

    exit_code = 2


class NotARun(UnusableInput):
    """The folder holds no manifest of ours."""


class OtherArguments(UnusableInput):
    """The run directory belongs to a run with other arguments."""


class NotComparable(LabError):
    """Two arms differ in more than the arm; the message lists in what."""

    exit_code = 3


class CannotMeasure(LabError):
    """A fault below us: model weights that do not match, a store that fails, a file that cannot be written."""


class Altered(CannotMeasure):
    """A file of a run is not the one whose digest was recorded: damaged, or changed by somebody."""


class Incomplete(CannotMeasure):
    """A run does not hold exactly one row for each arm and recall point."""


class CannotWrite(CannotMeasure):
    """The disk is full or read-only, so that going on would keep nothing."""


class InUse(CannotMeasure):
    """Another process is writing the same folder."""


def unforeseen(error: Exception) -> str:
    """A fault that nobody foresaw in one line: its kind and place.

    Its words are left out, for they may hold a text of the recording; those of the system on a file hold none.
    """
    kind = type(error).__name__
    if isinstance(error, OSError):
        return f"{kind}: {error}"
    import re
    from traceback import format_tb

    # Of a process that helped, its own traceback came along as text.
    told = getattr(error.__cause__, "tb", None) or "".join(format_tb(error.__traceback__))
    places = re.findall(r'^ +File "([^"]+)", line (\d+)', told, re.MULTILINE)
    return f"{kind} in {Path(places[-1][0]).name}, line {places[-1][1]}" if places else kind
