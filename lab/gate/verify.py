"""Verify a verdict: compare what it records with its run, judge the run again, replay its recordings.

Each difference is a sentence. Differences of the environment, which two honest replays may have, are kept apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.base.code import __version__
from lab.base.errors import LabError, NotARun, UnusableInput
from lab.base.files import digest, read_json, sha256_file
from lab.base.formatting import counted
from lab.base.set_registry import golden_beside
from lab.base.shape import to_json
from lab.compare.changes import changes, mapping_differences
from lab.embedding.endpoint import from_cache_alone
from lab.gate.outputs import verdict_of
from lab.gate.record import DOES_NOT_SHOW, Inputs, record_of
from lab.gate.rejudge import Unchecked, differences, judged_again
from lab.gate.verdict import Verdict, overall
from lab.replay.admission import is_hosted
from lab.replay.plan import Plan, make_plan
from lab.replay.run import gold_of, run_replay
from lab.runs.directory import GOLDEN, MANIFEST, RunDirectory
from lab.runs.manifest import COVER, KIND, VERSION, Manifest, manifest_of, read_manifest, resolved_of
from lab.runs.request import ReplayRequest
from lab.runs.resume import arms_differences, decisive, environment, tolerated

Announce = Callable[[str], None]
# What honest replays of the same inputs may have different.
_OF_ENVIRONMENT = ("versions", "timings")


@dataclass(frozen=True, slots=True)
class Verified:
    """What verifying a verdict found, as sentences.

    ``differences`` are of content. ``environment`` are differences that two honest replays may have, and ``left_out``
    says what was not compared. ``compared`` counts what was: files, rules, replayed turns.
    """

    file: str
    run: str | None
    differences: tuple[str, ...]
    environment: tuple[str, ...]
    left_out: tuple[str, ...]
    compared: Mapping[str, int]
    does_not_show: tuple[str, ...] = DOES_NOT_SHOW

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


class _Found:
    """What was found so far."""

    def __init__(self) -> None:
        self.differences: list[str] = []
        self.environment: list[str] = []
        self.left_out: list[str] = []
        self.compared: dict[str, int] = {}

    def differ(self, where: str, texts: Iterable[str]) -> None:
        self.differences += [f"{where}: {text}" for text in texts]


def verify(
    file: Path,
    run: Path | None = None,
    recordings: Path | None = None,
    *,
    replay: bool = True,
    jobs: int = 1,
    announce: Announce = lambda _: None,
) -> Verified:
    """Verify a verdict.json of ``lab gate``.

    ``run`` is its run, by default that in its folder or where it was; ``recordings`` are by default where the run found
    them. Raises :class:`UnusableInput` for a file that is no verdict of this version, and for inputs that are missing.
    """
    if file.is_dir():
        raise UnusableInput(f"{file}: is a folder; name the verdict.json in it")
    verdict, found = verdict_of(read_json(file), str(file)), _Found()
    known = verdict.evidence
    if known is None or (verdict.run and not isinstance(known.record, Mapping)):
        raise UnusableInput(f"{file}: does not record its inputs, as an earlier version wrote it; run `lab gate` again")
    opened, is_other = None, False
    if verdict.run:
        opened = _opened(_place(verdict, file, run), found)
        is_other = _compare_record(known, opened, found)
        verdict = replace(verdict, evidence=replace(known, run=opened.content))
    _judge_again(verdict, file, opened, found, is_other=is_other)
    if opened and replay:
        _replay(opened, recordings, jobs, announce, found)
    elif opened:
        found.left_out.append("the replay, by --no-replay")
    return Verified(
        str(file),
        str(opened.path) if opened else None,
        tuple(dict.fromkeys(found.differences)),
        tuple(dict.fromkeys(found.environment)),
        tuple(found.left_out),
        found.compared,
    )


def _place(verdict: Verdict, file: Path, run: Path | None) -> Path:
    """Return where the run of a verdict is."""
    for place in [run] if run else [file.parent, Path(str(verdict.run))]:
        if (place / MANIFEST).is_file():
            return place
    if run:
        raise NotARun(f"{run}: is not a run directory (it has no {MANIFEST})")
    raise UnusableInput(f"{file}: its run is not in its folder, nor at {verdict.run}; name it with --run")


def _opened(path: Path, found: _Found) -> RunDirectory:
    """Return the run as it is, though its digests may differ, which is noted."""
    place = path / MANIFEST
    value = read_json(place)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise NotARun(f"{place}: is not the manifest of a run")
    actual = digest({name: content for name, content in value.items() if name != COVER})
    if value.get(COVER) == actual and value.get("schema_version") != VERSION:
        read_manifest(place)
    covers = {COVER: value.get(COVER), "schema_version": value.get("schema_version")}
    found.differ(MANIFEST, mapping_differences("", covers, {COVER: actual, "schema_version": VERSION}))
    manifest = manifest_of(value, str(place))
    found.differ(MANIFEST, _differing("run_key", manifest.run_key, manifest.resolved.key))
    if not manifest.resolved.arms:
        raise NotARun(f"{place}: lists no arm")
    lacking = [name for name in manifest.assigned if name not in manifest.recall_points]
    found.differ(MANIFEST, [f"recall_points lacks conversation {name}" for name in lacking])
    # Stored scores are outputs, too.
    points = {**manifest.recall_points, **dict.fromkeys(lacking, 0)}
    opened = RunDirectory(path, replace(manifest, scores=None, recall_points=points))
    opened.digests = dict(_digests(opened, found))
    return opened


def _digests(run: RunDirectory, found: _Found) -> Iterator[tuple[str, str]]:
    """Yield the digest that each file of a run has."""
    for name, recorded in run.manifest.files.items():
        try:
            actual = sha256_file(run.path / name)
        except OSError as error:
            found.differences.append(f"{name}: cannot be read: {error.strerror}")
            continue
        found.differ(name, mapping_differences("sha256", {"": recorded}, {"": actual}))
        yield name, actual
    found.compared["files"] = len(run.manifest.files)


def _compare_record(known: Inputs, run: RunDirectory, found: _Found) -> bool:
    """Compare what a verdict records with its run; return whether the run is another replay, by its timings."""
    before = dict(known.record or {})
    try:
        after = record_of(run)
    except LabError as error:
        found.differ("run", [str(error)])
        return False
    for name in {**before, **after}:
        if name not in _OF_ENVIRONMENT:
            found.differ("run", _differing(name, before.get(name), after.get(name)))
    versions = list(_differing("versions", before.get("versions"), after.get("versions")))
    if before.get("timings") != after.get("timings") and known.run != run.content:
        found.environment += [*versions, "the run is another replay than was judged: it has other timings"]
        return True
    found.differ("run", versions)
    if not found.differences:
        found.differ("run", _differing("content", known.run, run.content))
    return False


def _differing(name: str, before: object, after: object) -> Iterator[str]:
    nested = isinstance(before, Mapping) and isinstance(after, Mapping)
    values = (before, after) if nested else ({"": before}, {"": after})
    return mapping_differences(f"{name}." if nested else name, *values)


def _judge_again(verdict: Verdict, file: Path, run: RunDirectory | None, found: _Found, *, is_other: bool) -> None:
    """Judge the inputs of a verdict again, and compare."""
    texts: list[str] = []
    try:
        again = judged_again(verdict, file.parent, run, texts.append)
        found.compared["rules"] = len(again.lines)
        if is_other and any(line.kind == "latency" for line in verdict.lines):
            found.left_out.append("latency rules: the times are of the replay that was judged")
            verdict, again = map(_without_latency, (verdict, again))
        words = _is_of_this_version(verdict, found)
        texts += differences(verdict, again, words=words)
        if words and verdict.evidence:
            texts += _differing("does_not_show", verdict.evidence.does_not_show, DOES_NOT_SHOW)
    except Unchecked as error:
        raise UnusableInput(f"{file}: {error}; put it back") from None
    except (LabError, AttributeError, KeyError, TypeError, ValueError) as error:
        texts.append(f"its inputs cannot be judged again: {error}")
    found.differ(file.name, texts)


def _is_of_this_version(verdict: Verdict, found: _Found) -> bool:
    """Return whether this version of the lab wrote a verdict, and so the same sentences."""
    record = (verdict.evidence.record if verdict.evidence else None) or {}
    wrote = record["versions"]["lab"] if record else __version__
    if wrote != __version__:
        found.environment.append(f"lab {wrote} -> {__version__}, whose sentences are not compared")
    return bool(wrote == __version__)


def _without_latency(verdict: Verdict) -> Verdict:
    lines = tuple(line for line in verdict.lines if line.kind != "latency")
    return replace(verdict, lines=lines, status=overall(lines))


def _replay(run: RunDirectory, recordings: Path | None, jobs: int, announce: Announce, found: _Found) -> None:
    """Replay the recordings of a run with its settings and arms, and compare receipts and judgements row by row."""
    try:
        request = _request(run.manifest, recordings)
        plan, hosted, roots = _plan(run.manifest, request)
    except (LabError, AttributeError, TypeError, ValueError) as error:
        changed = list(_changed_files(run.manifest, recordings))
        if recordings and not changed:
            raise UnusableInput(f"--recordings {recordings}: {error}") from None
        found.differ("replay", changed)
        found.left_out.append(f"the replay: {error}")
        return
    if hosted:
        found.left_out.append(f"the replay of {', '.join(hosted)}: no program outside the lab is started")
    here = environment(*roots)
    made_with = run.manifest.environment
    found.environment += [*decisive(made_with, here), *tolerated(made_with, here)]
    before, after = (to_json(resolved) for resolved in (run.manifest.resolved, resolved_of(plan.resolved())))
    for name in {**before, **after}:
        if name not in ("lab", "arms", "conversations"):
            found.differ("replay", _differing(name, before.get(name), after.get(name)))
    arms = [to_json(arm) for arm in run.manifest.resolved.arms if arm.name not in hosted]
    if text := arms_differences(arms, after["arms"]):
        found.differ("replay", [f"arms: {text}"])
    found.differ("golden.jsonl", _judgements(run, gold_of(plan)))
    with TemporaryDirectory(prefix="lab-verify-") as folder:
        try:
            outcome = run_replay(
                plan.request, Path(folder) / "run", jobs=jobs, use_cache=False, announce=announce, plan=plan
            )
            found.differ("replay", [f"{one['conversation']}: {one['reason']}" for one in outcome.failures])
            found.differ("replay", _receipts(run, outcome.run, found))
        except LabError as error:
            found.differ("replay", [f"cannot be compared: {error}".replace(folder, "the replay")])


def _request(manifest: Manifest, recordings: Path | None) -> ReplayRequest:
    """Return the arguments of a run, for recordings that may be in another place than they were."""
    asked = ReplayRequest.of_manifest(manifest.asked)
    path = recordings or Path(asked.path)
    if not path.exists():
        raise UnusableInput(f"{path} is not there; name its recordings with --recordings")
    golden = asked.golden
    if recordings and golden and (beside := golden_beside(recordings)) and beside.name == Path(golden).name:
        golden = str(beside)
    return replace(asked, path=str(path), golden=golden)


def _changed_files(manifest: Manifest, recordings: Path | None) -> Iterator[str]:
    """Yield which files of recordings that cannot be read are others than the run read."""
    place = recordings or Path(str(manifest.asked.get("path")))
    for name, recorded in manifest.resolved.recordings.items():
        file = place if place.is_file() else place / name
        # Of a database, the digest is that of its content.
        if file.is_file() and file.suffix in (".json", ".jsonl"):
            yield from _differing(f"recordings.{name}", recorded, sha256_file(file))


def _plan(manifest: Manifest, request: ReplayRequest) -> tuple[Plan, list[str], tuple[str, ...]]:
    """Return the plan of a run's arms that this process can replay, the names of the others, and the modules of all.

    The manifest may come from others: no program that it names is started, and no address is queried.
    """
    arms = [to_json(arm) for arm in manifest.resolved.arms]
    plan = make_plan(request, arms=arms, cached=True)
    hosted, roots = [arm.name for arm in plan.arms if is_hosted(arm)], plan.code_roots()
    if hosted:
        plan = make_plan(request, arms=[arm for arm in arms if arm["name"] not in hosted], cached=True)
    return replace(plan, embedder=from_cache_alone(plan.embedder)), hosted, roots


def _judgements(run: RunDirectory, made: bytes) -> Iterator[str]:
    """Yield how the judgements of a run differ from those that its golden set gives."""
    data = (run.path / GOLDEN).read_bytes() if GOLDEN in run.digests else made
    if data == made:
        return
    kept, given = (dict(_by_probe(lines)) for lines in (data, made))
    differ = [probe for probe in {**kept, **given} if kept.get(probe) != given.get(probe)]
    if not differ:
        yield "holds the judgements of the golden set in another order, or some twice"
        return
    first = differ[0]
    yield f"{counted(len(differ), 'probe')} judged otherwise than the golden set at hand, the first is {first}"
    yield from _differing(first, kept.get(first), given.get(first))


def _by_probe(data: bytes) -> Iterator[tuple[str, object]]:
    for line in data.decode("utf-8", "replace").splitlines():
        try:
            value = json.loads(line)
            yield str(value["probe"]), value
        except (ValueError, KeyError, TypeError):
            yield line, None


def _receipts(run: RunDirectory, replayed: RunDirectory, found: _Found) -> Iterator[str]:
    """Yield how the receipts of a run differ from those of its replay."""
    result = changes(run, replayed)
    found.compared["turns"] = result.turns
    if result.common.others:
        yield str(result.common)
    for arm in result.arms:
        if arm.changed:
            first = arm.changed[0]
            yield (
                f"{len(arm.changed):,} of {arm.turns:,} turns of {arm.arm} differ from the receipts, the first is "
                f"{first.turn} ({', '.join(first.columns)})"
            )
    if result.only_before or found.differences or found.environment or any(arm.changed for arm in result.arms):
        return
    for conversation in result.common.same:
        name = run.name_of(run.receipts(conversation))
        if run.digests.get(name) != replayed.digests.get(name):
            yield f"{name}: equal rows, and other bytes"
