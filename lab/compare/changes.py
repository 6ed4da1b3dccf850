"""Exact comparison of two runs: every column of their receipts and of what arms wrote, bit for bit.

A replay is a function of its inputs, so this needs no statistics: any difference is reported. Compared are the
conversations that are the same in both runs; those that were added, removed or changed are named (IN-9).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import codes_of, numbers
from lab.base.errors import CannotMeasure, NotComparable
from lab.base.formatting import counted
from lab.base.shape import to_json
from lab.compare.comparable import NO_CONVERSATIONS, Common, common
from lab.runs.directory import RunDirectory
from lab.runs.manifest import Manifest
from lab.runs.tables import ANSWER_SHARE, read_table
from lab.systems.contract import ArmInfo

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "writes."
# What identifies the rows of a turn, and what follows from the turn.
_PLACE = ("arm", "turn", "seq")


class WrittenTurn(NamedTuple):
    """A turn at which an arm wrote in either run, and the columns that differ, such as ``writes.id``."""

    arm: str
    turn: str
    columns: tuple[str, ...]


def written_turns(
    before: RunDirectory, after: RunDirectory, conversation: str, arms: Sequence[str]
) -> list[WrittenTurn]:
    """Return every turn at which one of the arms wrote in either run, in the order of the conversation.

    A run without a file of writes wrote nothing. Raises :class:`NotComparable` if the files have different columns.
    """
    tables = [_table(run, conversation) for run in (before, after)]
    names = [table.schema.names for table in tables if table is not None]
    if not names:
        return []
    if names[0] != names[-1]:
        raise NotComparable(
            f"{before.path} and {after.path} cannot be compared: their files of writes have different columns; replay "
            "the older run again"
        )
    left, right = map(_by_turn, tables)
    columns = [name for name in names[0] if name not in _PLACE]
    places = sorted({place for place in (*left, *right) if place[0] in arms}, key=lambda at: (arms.index(at[0]), at))
    return [
        WrittenTurn(
            arm, turn, _differing_columns(left.get((arm, seq, turn), ()), right.get((arm, seq, turn), ()), columns)
        )
        for arm, seq, turn in places
    ]


def _table(run: RunDirectory, conversation: str) -> pa.Table | None:
    path = run.writes(conversation)
    return read_table(run.check(path)) if run.name_of(path) in run.digests else None


def _by_turn(table: pa.Table | None) -> Mapping[tuple[str, int, str], Sequence[Mapping[str, Any]]]:
    rows: defaultdict[tuple[str, int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in [] if table is None else table.to_pylist():
        rows[row["arm"], row["seq"], row["turn"]].append(row)
    return rows


def _differing_columns(
    left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns in which the rows of a turn differ; by ``repr``, so that NaN equals NaN."""
    return tuple(
        f"{PREFIX}{name}" for name in columns if [repr(row[name]) for row in left] != [repr(row[name]) for row in right]
    )


# Keys of the resolved settings, listed after the versions and before the arms; any other key comes last.
SETTINGS = ("store", "profile", "depth", "faults", "format", "memories", "memories_from")
DATA = ("recordings", "golden", "documents", "conversations")
SHOWN_DIGITS = 12
# Differences in one clause.
MOST_CAUSES = 3


def moved(before: Manifest, after: Manifest) -> tuple[str, ...]:
    """Return the manifest differences that could explain different receipts, each as ``numpy 2.3.1 -> 2.3.2``.

    The order is: the lab, its source, the packages, Python and the machine, the embedder, the settings, each
    configuration key of each arm, and each data file. Empty if the manifests agree.
    """
    old, new = to_json(before.resolved), to_json(after.resolved)
    old_environment, new_environment = before.environment, after.environment
    differences = [*_value("lab", before.resolved.lab, after.resolved.lab), *_source(before, after)]
    differences += mapping_differences("", old_environment.packages, new_environment.packages)
    for name in ("python", "platform", "machine"):
        differences += _value(name, getattr(old_environment, name), getattr(new_environment, name))
    differences += mapping_differences("embedder ", old.get("embedder"), new.get("embedder"))
    rest = sorted((old.keys() | new.keys()) - {"lab", "embedder", "arms", *SETTINGS, *DATA})
    for name in (*SETTINGS, *rest):
        differences += mapping_differences(f"{name} ", {"": old.get(name)}, {"": new.get(name)})
    differences += _arms(before.resolved.arms, after.resolved.arms)
    for name in DATA:
        differences += mapping_differences(f"{name} ", old.get(name), new.get(name))
    return tuple(differences)


def cause(moved: Sequence[str], arm: str | None = None) -> str:
    """Return the first manifest differences in one clause, for ``arm`` those that are not of another arm.

    What was configured comes before the code and the packages, whose new versions may change nothing.
    """
    mine = [text for text in moved if arm is None or not text.startswith("arm ") or text.startswith(f"arm {arm}: ")]
    mine.sort(key=lambda text: not text.startswith("arm "))
    more = f" and {counted(len(mine) - MOST_CAUSES, 'more difference')}" if len(mine) > MOST_CAUSES else ""
    return f"{'; '.join(mine[:MOST_CAUSES])}{more}" if mine else "no difference in the manifests"


def _source(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield differences in the commit, in uncommitted changes, and in the digest of the code.

    The digest is of the code that a run uses, so one of other systems or another format is no evidence of a change.
    """
    before, after = old.environment, new.environment
    yield from _value("git", before.commit, after.commit)
    dirty = [bool(environment.git and environment.git.dirty) for environment in (before, after)]
    covered = [(run.resolved.format, {arm.system for arm in run.resolved.arms}) for run in (old, new)]
    if covered[0] != covered[1]:
        return
    # If the code is equal, uncommitted changes explain nothing.
    if any(dirty) and (before.code is None or before.code != after.code):
        yield "git uncommitted changes " + ("in both" if all(dirty) else f"{_flag(dirty[0])} -> {_flag(dirty[1])}")
    yield from _value("code", before.code, after.code)


def _arms(before: Sequence[ArmInfo], after: Sequence[ArmInfo]) -> Iterator[str]:
    old, new = ({arm.name: to_json(arm) for arm in arms} for arms in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new:
            yield from mapping_differences(f"arm {name}: ", old[name], new[name])
        else:
            yield f"arm {name}: " + ("present -> absent" if name in old else "absent -> present")


def mapping_differences(title: str, before: object, after: object) -> Iterator[str]:
    """Yield the differences between the leaves of two nested values, each with its dotted name: ``seed 0 -> 7``."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for name in sorted(old.keys() | new.keys()):
        yield from _value(f"{title}{name}".strip(), old.get(name), new.get(name))


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, value


def _value(title: str, before: object, after: object) -> Iterator[str]:
    # Compare as text: a manifest that was read from a file has lists where freshly resolved settings have tuples.
    if _text(before, full=True) != _text(after, full=True):
        yield f"{title} {_text(before)} -> {_text(after)}"


def _text(value: object, *, full: bool = False) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(_text(element, full=full) for element in value) or "nothing"
    text = str(value)
    is_hash = len(text) in (40, 64) and set(text) <= set("0123456789abcdef")
    return text[:SHOWN_DIGITS] if is_hash and not full else text


def _flag(value: bool) -> str:
    return "yes" if value else "no"


SHOWN = 5
# The columns that hold what is injected; the others say how it was chosen.
RECALLED = frozenset({"item_key", "pinned", "block"})


class Changed(NamedTuple):
    """One turn whose receipts or writes differ, and the columns that differ; those of writes begin with ``writes.``."""

    conversation: str
    turn: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmChanges:
    """One arm of both runs: turns compared, changed turns in the order of the run, and changed turns by column."""

    arm: str
    turns: int
    changed: tuple[Changed, ...]
    columns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Changes:
    """The result of an exact comparison.

    ``arms`` are in both runs, ``only_before`` and ``only_after`` in one. ``moved`` lists manifest differences that
    could explain a change, see :func:`lab.compare.changes.moved`. ``common`` says which conversations were
    compared.
    """

    before: str
    after: str
    arms: tuple[ArmChanges, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    moved: tuple[str, ...]
    common: Common = NO_CONVERSATIONS

    @property
    def turns(self) -> int:
        """Return the number of turns compared, each counted once per arm."""
        return sum(arm.turns for arm in self.arms)

    @property
    def changed(self) -> int:
        """Return the number of turns whose receipts or writes differ, each counted once per arm."""
        return sum(len(arm.changed) for arm in self.arms)

    def first(self, count: int = SHOWN) -> list[dict[str, Any]]:
        """Return the first changed turns, each with the commands that explain it in both runs; see :func:`foremost`."""
        return [
            {
                "arm": arm,
                "conversation": change.conversation,
                "turn": change.turn,
                "columns": list(change.columns),
                # Where an arm only wrote, no recall is to be explained.
                "explain": [
                    join(["lab", "explain", run, change.turn, "--arm", arm])
                    for run in (self.before, self.after)
                    if not all(column.startswith(PREFIX) for column in change.columns)
                ],
            }
            for arm, change in foremost(self.arms)[:count]
        ]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the first few changed turns."""
        return {
            "before": self.before,
            "after": self.after,
            "turns": self.turns,
            "changed": self.changed,
            "arms": {
                arm.arm: {"turns": arm.turns, "changed": len(arm.changed), "columns": dict(arm.columns)}
                for arm in self.arms
            },
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "conversations": self.common.as_json(),
            "first": self.first(),
            "moved": list(self.moved),
        }


def foremost(arms: Iterable[ArmChanges]) -> list[tuple[str, Changed]]:
    """Return the changed turns of some arms, those whose injected memories or text changed first."""
    changed = [(arm.arm, change) for arm in arms for change in arm.changed]
    return sorted(changed, key=lambda pair: RECALLED.isdisjoint(pair[1].columns))


def changes(before: RunDirectory, after: RunDirectory) -> Changes:
    """Compare the receipts and writes of two runs exactly, in all columns, arm by arm.

    A turn at which an arm only wrote, such as the reply at which it captured, counts as a turn.

    Raises :class:`NotComparable` if the runs differ in settings, share no conversation or no arm, or have receipts of
    different versions, and :class:`lab.base.errors.CannotMeasure` for a damaged file.
    """
    both_have = common(before, after)
    for run in (before, after):
        run.require_done()
    both = [arm for arm in before.arms if arm in after.arms]
    if not both:
        raise NotComparable(f"{before.path} and {after.path} cannot be compared: they have no arm in common")
    turns, changed = Counter[str](), {arm: list[Changed]() for arm in both}
    for conversation in both_have.same:
        for arm, turn, columns in _of_conversation(before, after, conversation, both, turns):
            changed[arm].append(Changed(conversation, turn, columns))
    arms = tuple(
        ArmChanges(arm, turns[arm], tuple(rows), dict(Counter(column for row in rows for column in row.columns)))
        for arm, rows in changed.items()
    )
    return Changes(
        str(before.path),
        str(after.path),
        arms,
        tuple(arm for arm in before.arms if arm not in both),
        tuple(arm for arm in after.arms if arm not in both),
        moved(before.manifest, after.manifest),
        both_have,
    )


def _of_conversation(
    before: RunDirectory, after: RunDirectory, conversation: str, arms: Sequence[str], turns: Counter[str]
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the arm, turn and columns of each row that differs; adds the rows of each arm to ``turns``."""
    paths = [run.receipts(conversation) for run in (before, after)]
    left, right = (_rows_of(run.read_receipts(conversation), arms) for run in (before, after))
    if (ANSWER_SHARE in left.column_names) != (ANSWER_SHARE in right.column_names):
        # What only one run counts is no change of a recall: the other is older, or its questions had no answers.
        left, right = (_without_shares(table) for table in (left, right))
    versions = [(table.schema.metadata or {}).get(b"schema_version", b"none").decode() for table in (left, right)]
    if versions[0] != versions[1] or left.schema.names != right.schema.names:
        raise NotComparable(
            f"{before.path} and {after.path} cannot be compared: their receipts are of versions {versions[0]} and "
            f"{versions[1]}, which have different columns; replay the older run again"
        )
    if not (left["arm"].equals(right["arm"]) and left["turn"].equals(right["turn"])):
        raise CannotMeasure(f"{paths[0]} and {paths[1]}: do not hold the same turns; replay one of the runs again")
    codes, names = codes_of(left["arm"])
    turns.update(names[code] or "" for code in codes.tolist())
    differs: dict[int, list[str]] = {}
    for column in left.schema.names:
        for row in _differing(left[column], right[column]):
            differs.setdefault(row, []).append(column)
    at = {(left["arm"][row].as_py(), left["turn"][row].as_py()): tuple(names) for row, names in sorted(differs.items())}
    recalled = set(zip(left["arm"].to_pylist(), left["turn"].to_pylist(), strict=True))
    for written in written_turns(before, after, conversation, arms):
        place = (written.arm, written.turn)
        turns[written.arm] += place not in recalled
        if written.columns:
            at[place] = (*at.get(place, ()), *written.columns)
    return [(arm, turn, columns) for (arm, turn), columns in at.items()]


def _without_shares(table: pa.Table) -> pa.Table:
    return table.select([name for name in table.column_names if name != ANSWER_SHARE])


def _rows_of(table: pa.Table, arms: Sequence[str]) -> pa.Table:
    """Return the rows of some arms, arm by arm in this order, each arm's rows in the order of the file."""
    import numpy as np

    codes, names = codes_of(table["arm"])
    known = {name: code for code, name in enumerate(names)}
    rows = np.concatenate([np.flatnonzero(codes == known.get(arm, -2)) for arm in arms])
    return table.take(numbers(rows, "int64")).combine_chunks()


def _differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[int]:
    """Return the rows in which two columns differ. Floats are compared by their bits, so that NaN equals NaN."""
    if left.type != right.type:
        return list(range(len(left)))
    ours, theirs = _bits(left), _bits(right)
    if ours.equals(theirs):
        return []
    return [
        row for row, (mine, other) in enumerate(zip(ours.to_pylist(), theirs.to_pylist(), strict=True)) if mine != other
    ]


def _bits(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    array = column.combine_chunks()
    if pa.types.is_float64(array.type):
        return array.view(pa.int64())
    if pa.types.is_list(array.type) and pa.types.is_float64(array.type.value_type):
        return array.view(pa.list_(pa.int64()))
    return array
