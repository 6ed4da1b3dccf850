"""All values of a scored run: as columns, as rows, and as the file ``scores.parquet``.

The file is read back as long as it is current: it names what it was made from, and carries a checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from lab.columns import codes_of, float_column, numbers_of, text_column
from lab.errors import CannotMeasure
from lab.files import digest, write_atomically
from lab.runs.code import sources_key
from lab.runs.directory import FAILURES, LATENCY, RunDirectory
from lab.runs.records import to_json
from lab.runs.tables import read_table, table_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from lab.columns import Flags, Floats, Ints

SCORES, KIND, VERSION = "scores.parquet", "lab.scores", "2"
NAMES = ("arm", "conversation", "at", "measure")
# Sources that stand between receipts and their scores.
SCORED_BY = ("columns.py", "measures", "runs", "recordings/model.py")


class Score(NamedTuple):
    """One value. ``at`` is the probe or the turn, or the conversation for a measure of the whole of it."""

    arm: str
    conversation: str
    at: str
    measure: str
    value: float | None


class Values(NamedTuple):
    """Places (probes or turns), their conversations, and the values there."""

    at: list[str]
    conversation: list[str]
    value: list[float]


class Scores:
    """All values of a run, in the order of the file.

    ``arm``, ``conversation``, ``at`` and ``measure`` are numbers of the names in ``arms``, ``conversations``,
    ``places`` and ``measures``; ``value`` is NaN where there is none. A place has one number in all arms.

    To iterate is to get every value as a :class:`Score`.
    """

    def __init__(self, names: Sequence[Sequence[str]], numbers: Sequence[Ints], value: Floats) -> None:
        self.arms, self.conversations, self.places, self.measures = names
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
                self.places[at],
                self.measures[measure],
                value if value == value else None,
            )

    def of_arm(self, arm: str) -> dict[str, Values]:
        """What an arm has values of, by measure."""
        return {
            measure: Values(*map(list, zip(*known, strict=True)))
            for measure, found in self.all_of_arm(arm).items()
            if (known := [row for row in zip(*found, strict=True) if row[2] == row[2]])
        }

    def all_of_arm(self, arm: str) -> dict[str, Values]:
        """The places of an arm by measure; a value is NaN where there is none."""
        import numpy as np

        mine = self.where(self.arm == list(self.arms).index(arm))
        places, conversations = np.array(self.places, object), np.array(self.conversations, object)
        found = {}
        for number in dict.fromkeys(mine.measure.tolist()):
            rows = mine.measure == number
            found[self.measures[number]] = Values(
                places[mine.at[rows]].tolist(),
                conversations[mine.conversation[rows]].tolist(),
                mine.value[rows].tolist(),
            )
        return found

    def where(self, which: Flags) -> Scores:
        """Some of the values."""
        numbers = [column[which] for column in (self.arm, self.conversation, self.at, self.measure)]
        return Scores((self.arms, self.conversations, self.places, self.measures), numbers, self.value[which])


def made_from(run: RunDirectory) -> str:
    """A name for all that scores are computed from: receipts, gold, arms, and the code and libraries that measure."""
    import numpy as np
    import pyarrow as pa

    files = {name: one for name, one in sorted(run.digests.items()) if not name.startswith((f"{LATENCY}/", FAILURES))}
    arms = [to_json(arm) for arm in run.manifest.resolved.arms]
    return digest([files, arms, run.conversations, sources_key(*SCORED_BY), np.__version__, pa.__version__])


def write_scores(run: RunDirectory, scores: Scores, slices: Mapping[str, str]) -> None:
    """Write the long form into the run, unless the file holds just that.

    ``arm, conversation, at, measure, value, slices`` (what ``slices`` has for the place, or null). Its metadata says
    what it was made from, and has the checksum of its columns.
    """
    import pyarrow as pa

    columns = {
        "arm": text_column(scores.arm, scores.arms),
        "conversation": text_column(scores.conversation, scores.conversations),
        "at": text_column(scores.at, scores.places),
        "measure": text_column(scores.measure, scores.measures),
        "value": float_column(scores.value),
        "slices": text_column(scores.at, [slices.get(place) for place in scores.places]),
    }
    table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
    about = {"kind": KIND, "schema_version": VERSION, "made_from": made_from(run), "checksum": _checksum(scores)}
    path, data = run.path / SCORES, table_bytes(table.replace_schema_metadata(about))
    if not (path.exists() and path.read_bytes() == data):
        write_atomically(path, data)


def read_scores(run: RunDirectory) -> Scores | None:
    """The scores that a run keeps; None where it keeps none, or not those of what it holds now.

    Everything they were computed from is checked: raises what :meth:`RunDirectory.check_all` does.
    """
    path = run.path / SCORES
    if not path.is_file():
        return None
    run.check_all()
    try:
        table = read_table(path, (*NAMES, "value"), NAMES)
        about = table.schema.metadata or {}
        if (about.get(b"kind"), about.get(b"made_from")) != (KIND.encode(), made_from(run).encode()):
            return None
        scores = _scores(table)
    except (CannotMeasure, ValueError):
        # It is damaged, and can be made again.
        return None
    return scores if about.get(b"checksum") == _checksum(scores).encode() else None


def _scores(table: pa.Table) -> Scores:
    codes, texts = zip(*(codes_of(table[name]) for name in NAMES), strict=True)
    return Scores(
        [[text or "" for text in some[:-1]] for some in texts], codes, numbers_of(table["value"]).astype(float)
    )


def _checksum(scores: Scores) -> str:
    """Of names and values; names are numbered in the order in which rows have them."""
    import numpy as np

    found = sha256()
    columns = (scores.arm, scores.conversation, scores.at, scores.measure)
    for codes, names in zip(columns, (scores.arms, scores.conversations, scores.places, scores.measures), strict=True):
        used, first, again = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty(len(used), np.int64)
        place[order] = np.arange(len(used))
        found.update(place[again].tobytes())
        found.update("\0".join(names[one] for one in used[order].tolist()).encode("utf-8", "surrogatepass"))
    found.update(np.where(np.isnan(scores.value), np.nan, scores.value).tobytes())
    return found.hexdigest()
