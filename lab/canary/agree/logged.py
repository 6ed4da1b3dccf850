"""The recalls that a live engine logged, each beside the user's turn at which it was made, and beside the lab's.

A receipt names no turn, and since OpenClaw 2026.6 no transcript keeps the injected block. The host stores a user's
message after the recall that it caused: 39 to 1,019 ms later on 2026.6.11 and 2026.9.6. So a receipt belongs to the
first free user's turn that follows it, of the session of its run where the log names that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import LabError, UnusableInput
from lab.base.formatting import counted
from lab.base.regex import regex
from lab.canary.audit.check import CAPTURE, RECALL, Damaged, check_recall
from lab.canary.audit.copies import Pairs
from lab.canary.audit.lines import has_marker, opened
from lab.canary.audit.log_line import STARTED, LogLine, entries_in, payload
from lab.canary.audit.status import reading_of, with_known_reasons
from lab.canary.audit.waits import runs_of
from lab.recordings.model import Recording
from lab.recordings.readers import read_library

# Milliseconds by which a host stores a message after its recall, at most; and before it, as clocks are rounded.
LATEST, EARLIEST = 120_000, 5
# The format of a host's transcripts.
OPENCLAW = "openclaw"
# Seconds by which lines of one log may be out of order without the clock having been set back.
UNORDERED = 5.0
# What the host says at the end of a run, with the trace of its recall (2026.6.11 and 2026.9.6).
RUN_ENDED = b"[agent] run "
_RUN = regex(rb"\[agent\] run (\S+) ended")
_TRACE = regex(rb"traceId\W{1,8}(\w+)")
_STARTED = regex(rb"registered \(db=([^,]*),")
# The last recalls of a log that show who writes it now.
RECENT = 100
# A part of the live engine that failed, as the fault that repeats it.
FAULT_OF = {"provider_unavailable": "embedder_down", "embedding_input_too_long": "input_too_long"}


class Logged(NamedTuple):
    """A recall receipt: its time in epoch ms, the session that its line names, if any, and where it stands.

    ``blocks`` counts the blocks that the turn got: two if the host called the engine twice (E-23). ``trace`` is the
    host's id of the turn.
    """

    time_ms: int
    session: str | None
    where: str
    receipt: Mapping[str, Any]
    blocks: int = 1
    trace: str | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """What did not work, as reasons of the receipt."""
        return reading_of(self.receipt).faults


@dataclass(slots=True)
class Log:
    """The recalls of a gateway's logs in order of time, those of one turn once.

    ``engines`` are the database, table and model that the engine named at each start, with the place of the line.
    ``runs`` are the runs that ended, by trace. ``notes`` say what was left out, and why.
    """

    recalls: list[Logged] = field(default_factory=list)
    engines: list[tuple[str, int, tuple[str, str, str]]] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_log(files: Iterable[Path]) -> Log:
    """Read the logs of one gateway, such as dated ones, in any order.

    Recalls of a time to which the clock was set back are left out: it is unknown which came first. Raises
    :class:`UnusableInput` if there is no usable receipt with a time.
    """
    log, damaged, untimed = Log(), 0, 0
    paths = list(files)
    for path in paths:
        pairs, last = Pairs(), float("-inf")
        unclear: list[tuple[float, float]] = []
        with opened(str(path), (RUN_ENDED,)) as lines:
            for number, entry in entries_in(_without_runs(lines, log.runs)):
                if entry is None:
                    damaged += 1
                    continue
                where = f"{path}:{number}"
                if entry.time is not None and entry.time < last - UNORDERED:
                    unclear.append((entry.time, last))
                    log.notes.append(
                        f"{where}: the clock went back by {last - entry.time:.0f} s; the recalls that have a time of "
                        "both are left out"
                    )
                    last = entry.time
                last = max(last, entry.time or last)
                try:
                    recall, is_second = _recall(entry, pairs, where)
                except Damaged:
                    damaged += 1
                    continue
                if recall is not None and is_second:
                    _inject_again(log.recalls, recall)
                elif recall is not None and entry.time is None:
                    untimed += 1
                elif recall is not None:
                    log.recalls.append(recall)
                if entry.name == "" and (named := STARTED.match(entry.rest.strip())):
                    at = int(1000 * (entry.time or 0))
                    log.engines.append((where, at, (named["db"], named["table"], named["model"])))
        if unclear:
            log.recalls = [
                one
                for one in log.recalls
                if not (one.where.startswith(f"{path}:") and any(a <= one.time_ms / 1000 <= b for a, b in unclear))
            ]
    for count, what in ((damaged, "damaged line"), (untimed, "receipt without a time and date")):
        if count:
            log.notes.append(f"{counted(count, what)}: left out")
    if not log.recalls:
        why = "".join(f"; {note}" for note in log.notes)
        shown = ", ".join(map(str, paths)) or "no log"
        raise UnusableInput(f"{shown}: no usable recall receipt{why}. Are receipts enabled (receipts.enabled)?")
    log.recalls.sort(key=lambda one: one.time_ms)
    log.engines.sort(key=lambda one: one[1])
    return log


def _recall(entry: LogLine, pairs: Pairs, where: str) -> tuple[Logged | None, bool]:
    """Return the recall of a line, None for another line; and whether it is the second of a turn."""
    if entry.name == CAPTURE:
        pairs.end_turn(entry)
    if entry.name != RECALL:
        return None, False
    receipt = payload(entry)
    check_recall(with_known_reasons(receipt))
    is_second = pairs.is_second(entry, receipt["injectedCount"])
    return Logged(round(1000 * (entry.time or 0)), entry.session, where, receipt, trace=entry.trace), is_second


def _without_runs(
    lines: Iterable[tuple[int, bytes | None]], runs: dict[str, str]
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines of the engine, and note the runs of the others."""
    for number, line in lines:
        if line is None or RUN_ENDED not in line or has_marker(line):
            yield number, line
        elif (run := _RUN.search(line)) and (trace := _TRACE.search(line)):
            runs[trace[1].decode()] = run[1].decode()


def _inject_again(recalls: list[Logged], second: Logged) -> None:
    """Count the block of a second receipt to its turn, which has the last receipt of the session."""
    for at in reversed(range(len(recalls))):
        if recalls[at].session == second.session:
            if second.receipt["injectedCount"]:
                recalls[at] = recalls[at]._replace(blocks=recalls[at].blocks + 1)
            return


def since_last_change(log: Log) -> tuple[list[Logged], str | None]:
    """Return the recalls since the engine last changed its store or embedding model, and a note on the others."""
    change = None
    for (_, _, before), (where, at, after) in zip(log.engines, log.engines[1:], strict=False):
        if before != after:
            what = next(
                name
                for name, one, other in zip(("database", "table", "model"), before, after, strict=True)
                if one != other
            )
            change = where, at, what
    if change is None:
        return log.recalls, None
    where, at, what = change
    kept = [one for one in log.recalls if one.time_ms >= at]
    earlier = len(log.recalls) - len(kept)
    if not earlier:
        return kept, None
    return kept, f"{where}: the engine got another {what}; {counted(earlier, 'recall')} before are left out"


class Placed(NamedTuple):
    """Recalls by the key of their user's turn, and those without one."""

    at: dict[str, Logged]
    without: list[Logged]


def placed(recalls: Sequence[Logged], recordings: Sequence[Recording]) -> Placed:
    """Return the turn of each recall: the first free user's turn that follows it within :data:`LATEST`.

    ``recalls`` are in order of time. A line that names one of the conversations has a turn of it.
    """
    turns = sorted(
        (turn.time_ms, recording.conversation, turn.key)
        for recording in recordings
        for turn in recording.turns
        if turn.role == "user"
    )
    times, taken = [time for time, _, _ in turns], set[int]()
    found, without = dict[str, Logged](), list[Logged]()
    names = {name for _, name, _ in turns}
    for one in recalls:
        wanted = one.session if one.session in names else None
        for at in range(bisect_left(times, one.time_ms - EARLIEST), len(turns)):
            time, conversation, key = turns[at]
            if time > one.time_ms + LATEST:
                without.append(one)
                break
            if at not in taken and wanted in (None, conversation):
                taken.add(at)
                found[key] = one
                break
        else:
            without.append(one)
    return Placed(found, without)


class Apart(NamedTuple):
    """Which recalls of a log that several gateways write are of one host, by the runs that its trajectories have.

    ``own`` has their sessions by file and line, ``others`` the traces of all other ones of so many ``recalls``.
    ``databases`` are those of all engines that started.
    """

    own: dict[str, str]
    others: frozenset[str]
    recalls: int
    databases: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Return what to say of it."""
        others, engines = self.recalls - len(self.own), ", ".join(self.databases)
        return (
            f"another gateway writes this log: {others} of {counted(self.recalls, 'recall')} are not this host's "
            f"(engines started on {engines})"
        )


def apart(log: Log, home: Path) -> Apart | None:
    """Return whose the recalls of a log are; None unless another gateway made some.

    Runs decide only if the engine named several databases at its starts: a host forgets runs of its own.
    """
    databases = tuple(sorted({names[0] for _, _, names in log.engines}))
    if len(databases) < 2:
        return None
    mine = runs_of(home)
    runs = [log.runs.get(one.trace or "") for one in log.recalls]
    if all(run is None or run in mine for run in runs):
        return None
    pairs = list(zip(log.recalls, runs, strict=True))
    own = {one.where: mine[run] for one, run in pairs if run in mine}
    others = frozenset(one.trace for one, run in pairs if run not in mine and one.trace)
    return Apart(own, others, len(pairs), databases)


def name_sessions(log: Log, home: Path) -> None:
    """Name the session of each recall whose line names none, if the host's trajectory has the run of its trace."""
    mine = runs_of(home) if log.runs else {}
    log.recalls = [
        one if one.session is not None else one._replace(session=mine.get(log.runs.get(one.trace or "", "")))
        for one in log.recalls
    ]


def leave_own(log: Log, home: Path, store: Path) -> None:
    """Leave out what other gateways wrote into a log, with a note; ``store`` is the host's own database."""
    if (found := apart(log, home)) is None:
        name_sessions(log, home)
        return
    log.recalls = [one._replace(session=found.own[one.where]) for one in log.recalls if one.where in found.own]
    log.engines = [each for each in log.engines if Path(each[2][0]) == store]
    log.notes.append(f"{found.sentence}: left out")
    if not log.recalls:
        raise UnusableInput(f"{home}: has none of the runs in its log: {found.sentence}")


def databases_in(files: Iterable[Path]) -> list[str]:
    """Return the databases on which engines started in logs, the last one last."""
    found = dict[str, None]()
    for file in sorted(filter(Path.is_file, files), key=lambda file: file.stat().st_mtime_ns):
        with opened(str(file)) as lines:
            for _, line in lines:
                if started := _STARTED.search(line or b""):
                    name = started[1].decode("utf-8", "replace")
                    found.pop(name, None)
                    found[name] = None
    return list(found)


def require_own(name: Path, files: Sequence[Path], home: Path) -> str | None:
    """Return a warning if engines of several databases started in a log, and nothing tells whose its recalls are.

    Raises :class:`UnusableInput` if another gateway made some of the last :data:`RECENT` recalls.
    """
    databases = databases_in(files)
    if len(databases) < 2:
        return None
    mixed = f"{name}: engines started on {', '.join(databases)}, and nothing tells their recalls apart"
    try:
        log = read_log(filter(Path.is_file, files))
        log.recalls = log.recalls[-RECENT:]
        found = apart(log, home)
    except LabError as error:
        return f"{mixed}: {error}"
    if found is not None:
        raise UnusableInput(f"{name}: {found.sentence}; give each gateway its own logging.file")
    return None if any(one.trace in log.runs for one in log.recalls) else mixed


class Whose(NamedTuple):
    """The session of each recall by file and line (``gateway.log:7``), and the traces of other gateways' recalls."""

    sessions: dict[str, str]
    others: frozenset[str] = frozenset()


def whose(logs: Sequence[Path], home: Path) -> Whose:
    """Return of which sessions of a home the recalls in logs are, by the host's runs or transcripts.

    A recall whose turn is not stored has none. Raises :class:`UnusableInput` if there is no usable receipt with a time,
    or no transcript.
    """
    log = read_log(logs)
    if (found := apart(log, home)) is not None:
        return Whose(found.own, found.others)
    name_sessions(log, home)
    turns = placed(log.recalls, read_library(home, OPENCLAW).recordings)
    return Whose({one.where: key.rpartition("/")[0] for key, one in turns.at.items()})


def untangled(at: Mapping[str, Logged], equal: Callable[[str, Logged], bool]) -> tuple[dict[str, Logged], int]:
    """Exchange recalls of turns that overlap, where both then equal the lab's; return them and how many moved.

    Messages of two sessions may be stored in another order than their recalls were made.
    """
    found, moved = dict(at), 0
    apart = [key for key, one in found.items() if not equal(key, one)]
    for index, key in enumerate(apart):
        for other in apart[index + 1 :]:
            mine, theirs = found[key], found[other]
            if abs(mine.time_ms - theirs.time_ms) > LATEST:
                break
            if equal(key, theirs) and equal(other, mine):
                found[key], found[other] = theirs, mine
                moved += 2
                break
    return found, moved


def difference(live: Mapping[str, Any], lab: Mapping[str, Any]) -> str | None:
    """Return what is different in the blocks that two receipts describe; None if they are equal.

    A receipt holds no text: blocks are equal if the listed memories are the same in the same order and of the same
    tiers, and the whole block has as many memories, of the same tiers, and as many characters before and after the
    budget. If one list is shorter, by another ``receipts.maxItems``, the common part is compared.
    """
    if (live.get("skipReason"), bool(live.get("skipped"))) != (lab.get("skipReason"), bool(lab.get("skipped"))):
        return "skipped"
    ids = [[one["id"] for one in receipt.get("whyTheseIds", ())] for receipt in (live, lab)]
    least = min(map(len, ids))
    if ids[0][:least] != ids[1][:least]:
        return "order" if sorted(ids[0][:least]) == sorted(ids[1][:least]) else "memories"
    if live.get("injectedCount") != lab.get("injectedCount"):
        return "count"
    tiers = [receipt.get("whySummary", {}).get("byTier") for receipt in (live, lab)]
    if tiers[0] != tiers[1]:
        return "tiers"
    budgets = [receipt.get("budget") or {} for receipt in (live, lab)]
    if any(budgets[0].get(key) != budgets[1].get(key) for key in ("beforeChars", "afterChars", "droppedIds")):
        return "characters"
    return None
