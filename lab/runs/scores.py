"""The values of a scored run: as columns, as rows, and as the file ``scores.parquet``; and what they are scored with.

The judgements are in golden.jsonl, which holds keys and no texts. The file of values is reused while it is current: the
manifest seals it, with its sha256 and what it was computed from.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lab.base.code import code_key, modules_in
from lab.base.columns import codes_of, float_column, numbers_of, text_column
from lab.base.errors import Altered, CannotMeasure, InUse, UnusableInput
from lab.base.files import digest, only_writer, read_json_lines, sha256_bytes, sha256_file, write_atomically
from lab.base.shape import expect, field, optional, to_json
from lab.runs.directory import FAILURES, GOLDEN, LATENCY, MANIFEST, OBJECT, RunDirectory
from lab.runs.manifest import Seal, read_manifest, write_manifest
from lab.runs.tables import read_table, table_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from lab.base.columns import Flags, Floats, Ints


class Gold(NamedTuple):
    """The judgements of one probe.

    ``grades`` has those of the relevant memories; ``judged`` those of all judged ones, 0 for forbidden and irrelevant
    memories.
    """

    conversation: str
    grades: dict[str, int]
    visible: dict[str, str]
    forbidden: list[str]
    slices: dict[str, str]
    judged: dict[str, int]


def read_gold(run: RunDirectory) -> dict[str, Gold]:
    """Return the probes of a run by id, without those at which a recall failed (:attr:`RunDirectory.left_out`).

    A run of some conversations (:meth:`RunDirectory.of`) has only their probes.

    Raises :class:`CannotMeasure` for a malformed line.
    """
    path = run.check(run.path / GOLDEN)
    probes = {}
    for number, line in (
        read_json_lines(path) if run.gold is None else enumerate(map(json.loads, run.gold.splitlines()), 1)
    ):
        at = f"{path}:{number}"
        try:
            relevant = [expect(entry, dict, at) for entry in field(line, "relevant", list, at)]
            grades = {field(entry, "memory", str, at): field(entry, "grade", int, at) for entry in relevant}
            in_reach = [entry for entry in relevant if field(entry, "visible", bool, at)]
            visible = {entry["memory"]: field(entry, "label", str, at) for entry in in_reach}
            forbidden = [expect(memory, str, at) for memory in field(line, "forbidden", list, at)]
            irrelevant = [expect(memory, str, at) for memory in optional(line, "irrelevant", list, [], at)]
            judged = dict.fromkeys((*forbidden, *irrelevant), 0) | grades
            slices = {name: expect(value, str, at) for name, value in field(line, "slices", dict, at).items()}
            conversation = field(line, "conversation", str, at)
            probes[field(line, "probe", str, at)] = Gold(conversation, grades, visible, forbidden, slices, judged)
        except UnusableInput as error:
            raise CannotMeasure(f"{error}; delete it and run the replay again") from None
    chosen = set(run.conversations)
    return {probe: gold for probe, gold in probes.items() if probe not in run.left_out and gold.conversation in chosen}


SCORES, KIND, VERSION = "scores.parquet", "lab.scores", "2"
NAMES = ("arm", "conversation", "at", "measure")
# What computes the scores, given the receipts.
SCORING, DEFINITIONS = "lab.measures.score", "lab.measures.definitions"


class Score(NamedTuple):
    """One value. ``at`` is the probe or turn, or the conversation for a measure of whole conversations."""

    arm: str
    conversation: str
    at: str
    measure: str
    value: float | None


class Values(NamedTuple):
    """Units (probes, turns or conversations), their conversations, and their values."""

    at: list[str]
    conversation: list[str]
    value: list[float]


class Scores:
    """All values of a run as columns, in the order of the file.

    ``arm``, ``conversation``, ``at`` and ``measure`` are positions in the lists of names ``arms``, ``conversations``,
    ``units`` and ``measures``; a unit has the same position for all arms. A missing ``value`` is NaN. Iteration yields
    every value as a :class:`Score`.
    """

    def __init__(self, names: Sequence[Sequence[str]], numbers: Sequence[Ints], value: Floats) -> None:
        self.arms, self.conversations, self.units, self.measures = names
        self.arm, self.conversation, self.at, self.measure = numbers
        self.value = value

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Score]:
        columns = (self.arm, self.conversation, self.at, self.measure, self.value)
        for arm, conversation, at, measure, value in zip(*(column.tolist() for column in columns), strict=True):
            yield Score(
                self.arms[arm],
                self.conversations[conversation],
                self.units[at],
                self.measures[measure],
                value if value == value else None,
            )

    def of_arm(self, arm: str) -> dict[str, Values]:
        """Return the values of an arm by measure, without units that have none."""
        return {name: values for name, values in self._by_measure(arm, known=True).items() if values.at}

    def all_of_arm(self, arm: str) -> dict[str, Values]:
        """Return the units of an arm by measure; a missing value is NaN."""
        return self._by_measure(arm, known=False)

    def _by_measure(self, arm: str, *, known: bool) -> dict[str, Values]:
        """Return the units of an arm by measure, with ``known`` only those that have a value."""
        import numpy as np

        scores = self.where(self.arm == list(self.arms).index(arm))
        units, conversations = np.array(self.units, object), np.array(self.conversations, object)
        by_measure = {}
        for number in dict.fromkeys(scores.measure.tolist()):
            rows = scores.measure == number
            if known:
                rows &= ~np.isnan(scores.value)
            by_measure[self.measures[number]] = Values(
                units[scores.at[rows]].tolist(),
                conversations[scores.conversation[rows]].tolist(),
                scores.value[rows].tolist(),
            )
        return by_measure

    def only(self, measures: Collection[str]) -> Scores:
        """Return the values of some measures."""
        import numpy as np

        return self.where(np.isin(self.measure, [at for at, name in enumerate(self.measures) if name in measures]))

    def where(self, selected: Flags) -> Scores:
        """Return the flagged values."""
        numbers = [column[selected] for column in (self.arm, self.conversation, self.at, self.measure)]
        return Scores((self.arms, self.conversations, self.units, self.measures), numbers, self.value[selected])


def made_from(run: RunDirectory) -> str:
    """Return a hash of all that scores depend on: receipts, gold, arms, and the code and libraries that measure."""
    import numpy as np
    import pyarrow as pa

    files = {
        name: sha256 for name, sha256 in sorted(run.digests.items()) if not name.startswith((f"{LATENCY}/", FAILURES))
    }
    arms = [to_json(arm) for arm in run.manifest.resolved.arms]
    code = code_key(SCORING, *modules_in(DEFINITIONS))
    return digest([files, arms, run.conversations, code, np.__version__, pa.__version__])


def write_scores(run: RunDirectory, scores: Scores, slices: Mapping[str, str]) -> None:
    """Write the scores into the run, one value a row, unless the file is the same already, and seal them.

    Columns: ``arm, conversation, at, measure, value, slices`` (the entry of ``slices`` for the unit, or null). The
    manifest gets the sha256 of the file, after it, and :func:`made_from`.
    """
    import pyarrow as pa

    columns = {
        "arm": text_column(scores.arm, scores.arms),
        "conversation": text_column(scores.conversation, scores.conversations),
        "at": text_column(scores.at, scores.units),
        "measure": text_column(scores.measure, scores.measures),
        "value": float_column(scores.value),
        "slices": text_column(scores.at, [slices.get(unit) for unit in scores.units]),
    }
    table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
    path = run.path / SCORES
    data = table_bytes(table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION}))
    if not (path.exists() and path.read_bytes() == data):
        write_atomically(path, data)
    _seal(run, Seal(sha256_bytes(data), made_from(run)))


def _seal(run: RunDirectory, seal: Seal) -> None:
    """Write the seal into the manifest, unless the run is an approved one, which never changes, or is being written.

    Scores without a seal are computed again by whoever needs them.
    """
    path = run.path / MANIFEST
    if run.manifest.scores == seal or (run.path / OBJECT).exists():
        return
    with suppress(InUse), only_writer(run.path):
        if read_manifest(path) == run.manifest:
            run.manifest = replace(run.manifest, scores=seal)
            write_manifest(path, run.manifest)


def read_scores(run: RunDirectory) -> Scores | None:
    """Return the stored scores of a run; None if there are none, or if they are outdated or not sealed.

    Checks every file that scores are computed from, and raises what :meth:`RunDirectory.check_all` raises, and
    :class:`Altered` for stored scores that are not those that the manifest seals.
    """
    path, seal = run.path / SCORES, run.manifest.scores
    if seal is None or not path.is_file() or run.gold is not None:
        return None
    run.check_all()
    if seal.made_from != made_from(run):
        return None
    if sha256_file(path) != seal.sha256:
        raise Altered(
            f"{path}: damaged or altered (its sha256 is not the one that {MANIFEST} seals); delete it: the scores are "
            "computed from the receipts again"
        )
    return _scores(read_table(path, (*NAMES, "value"), NAMES))


def _scores(table: pa.Table) -> Scores:
    codes, texts = zip(*(codes_of(table[name]) for name in NAMES), strict=True)
    return Scores(
        [[text or "" for text in names[:-1]] for names in texts], codes, numbers_of(table["value"]).astype(float)
    )
