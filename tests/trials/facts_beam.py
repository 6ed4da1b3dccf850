"""BEAM's knowledge updates as facts: the new value must be current at the question, and the old one in the timeline.

    python tests/trials/facts_beam.py ../shared/data/beam

Each chat becomes a ledger with a row for each message. For each question of type knowledge_update, the value before and
after is asserted as a status, from the times of the messages that the gold names and with those rows as sources; the
second supersedes the first. Checked are: what is current at the end of the chat, what was current just before the
update, the timeline, the lint, the rebuilt view, and the fact that the lane returns first for the question.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.memory.facts import store
from lab.memory.facts.asserting import Claim, assert_facts
from lab.memory.facts.pack import FactsLane
from lab.memory.facts.sources import Sources
from lab.memory.facts.store import view_bytes, view_path
from lab.memory.facts.view import View, current, lint
from lab.memory.ledger.ingest import ingest
from lab.memory.ledger.ledger import stamp
from lab.recordings import beam
from lab.recordings.formats import FORMATS
from lab.recordings.model import Recording

UPDATE = "knowledge_update"


def moment(recording: Recording, message: int) -> str:
    """Return the time of a message. Facts have whole seconds, so each message is a second after the one before it."""
    first = recording.turns[0].time_ms
    return stamp(datetime.fromtimestamp(first // 1000 + message, UTC))


def row(recording: Recording, number: int) -> dict[str, Any]:
    """Return a message as an observation; its id in the ledger is ``number`` + 1."""
    turn = recording.turns[number]
    return {"ts": moment(recording, number), "kind": "event", "summary": turn.text, "tool_name": turn.role}


def updates(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the questions about knowledge updates that name a message before and after."""
    for question in json.loads(beam.questions_of(path)[0].read_text("utf-8")).get(UPDATE, []):
        if isinstance(question.get("source_chat_ids"), dict) and beam.NEW in question["source_chat_ids"]:
            yield question


def of_chat(path: Path, folder: Path) -> Counter[str]:
    """Assert the updates of a chat, and return how many of them pass each check."""
    ((recording, _),) = beam.read(path, "")
    log, ledger, facts = folder / "log.jsonl", folder / "ledger.sqlite", folder / "facts.jsonl"
    log.write_text("".join(json.dumps(row(recording, number)) + "\n" for number in range(len(recording.turns))))
    ingest(ledger, log)
    place = {int(turn.key.rpartition("/")[2]): number for number, turn in enumerate(recording.turns)}
    asked = datetime.fromisoformat(moment(recording, len(recording.turns) + 1))
    passed: Counter[str] = Counter()
    for number, question in enumerate(updates(path)):
        ids = question["source_chat_ids"]
        before, after = (sorted(place[one] for one in ids[name]) for name in (beam.OLD, beam.NEW))
        subject = f"{recording.conversation} {number} {question['tests_retention_of']}"
        # One message may hold both values; the later one then holds from the next second on.
        times = moment(recording, before[0]), moment(recording, max(after[0], before[0] + 1))
        values = question["conversation_references"][0], question["answer"]
        old: tuple[str, ...] = ()
        for value, since, rows in zip(values, times, (before, after), strict=True):
            refs = tuple(f"obs:{one + 1}" for one in rows)
            claim = Claim(subject, "status", value, since, refs, "gold:beam", supersedes=old)
            done = assert_facts(facts, [claim], Sources(ledger), now=asked, write=True)
            old = (done.facts[0].id,)
        view, sources = View(store.read(facts).records), Sources(ledger)
        course = view.of(done.facts[0].subject)

        def held(time: str, course: list[Any] = course, sources: Sources = sources) -> list[str]:
            return [fact.object.value for fact, _ in current(course, time, sources).facts]

        passed["current at the question"] += held(stamp(asked)) == [values[1]]
        passed["current before the update"] += held(times[0]) == [values[0]]
        passed["timeline"] += [fact.object.value for fact in course] == [*values]
        found = FactsLane(facts, ledger).search(
            question["question"], 5, scope=None, now_ms=int(asked.timestamp() * 1000)
        )
        passed["first in the lane"] += bool(found.candidates) and found.candidates[0].ref == old[0]
        passed["updates"] += 1
    if passed:
        view = View(store.read(facts).records)
        passed["lint issues"] += len(lint(view, Sources(ledger)))
        passed["views not rebuilt"] += view_path(facts).read_bytes() != view_bytes(store.read(facts))
    return passed


def main() -> None:
    """Check all chats below a folder, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    passed: Counter[str] = Counter()
    for path in sorted(parser.parse_args().folder.glob(FORMATS["beam"].pattern)):
        with tempfile.TemporaryDirectory(prefix="facts-beam-") as name:
            passed.update(of_chat(path, Path(name)))
    total = passed.pop("updates", 0)
    if not total:
        sys.exit("there is no question about a knowledge update here")
    for check in ("current at the question", "current before the update", "timeline", "first in the lane"):
        print(f"{check}: {passed[check]} of {total}")
    print(f"lint issues: {passed['lint issues']}; views that differ when rebuilt: {passed['views not rebuilt']}")


if __name__ == "__main__":
    main()
