"""The code key of a result: the import closure of what makes it, neither more nor less."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base import code
from lab.base.code import closure, code_key, imported_by, imports_of, modules_in
from lab.recordings.formats import FORMATS
from lab.replay.candidates import ROOTS
from lab.replay.plan import Plan, make_plan
from lab.runs.request import ReplayRequest
from lab.runs.scores import DEFINITIONS, SCORING
from lab.systems.openclaw.config.table import POLICIES
from lab.systems.openclaw.presets import ABLATION_STEPS, RECOMMENDED
from lab.systems.openclaw.select import policies
from lab.systems.registry import BUILT_IN

MODULES = sorted(code.LAB.rglob("*.py"))


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield what the statements of a syntax tree import of the lab, but for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and (child.module or "").partition(".")[0] == "lab":
            yield from (str(child.module), *(f"{child.module}.{name.name}" for name in child.names))
        if isinstance(child, ast.Import):
            yield from (name.name for name in child.names if name.name.partition(".")[0] == "lab")
        yield from _imports(child)


def _plan(path: Path, *arms: str, form: str = "lab") -> Plan:
    return make_plan(ReplayRequest(str(path), form, arms, embedder="hashing", haystack=0))


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a copy of the sources, which are hashed in place of the lab's."""
    folder = tmp_path / "lab"
    shutil.copytree(code.LAB, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "LAB", folder)
    _forget()
    yield folder
    _forget()


def _forget() -> None:
    for kept in (code._key, code._source):
        kept.cache_clear()


def _changes(copy: Path, edited: str, *roots: str) -> bool:
    """Return whether a comment in a file changes the key of some modules."""
    _forget()
    before = code_key(*roots)
    with (copy / edited).open("a", encoding="utf-8") as file:
        file.write("# A comment.\n")
    _forget()
    return code_key(*roots) != before


@pytest.mark.parametrize("package", sorted({path.relative_to(code.LAB).parts[0] for path in MODULES}))
def test_imports_of_reads_what_a_parser_reads(package: str) -> None:
    for path in MODULES:
        if path.relative_to(code.LAB).parts[0] == package:
            text = path.read_text("utf-8")
            assert imports_of(text) == set(_imports(ast.parse(text))), path


def test_imports_of_counts_imports_in_functions_and_not_those_for_types() -> None:
    text = (
        "from lab.base.files import (\n    digest,  # why, not what\n    dump_json as dumped,\n)\n"
        "if TYPE_CHECKING:\n    from lab.golden.model import Probe\n\n    import lab.view\n\n"
        "def later():\n    import lab.runs.manifest\n    from lab.recordings import native as own, ikat\n"
    )
    assert imports_of(text) == {
        *("lab.base.files", "lab.base.files.digest", "lab.base.files.dump_json", "lab.runs.manifest"),
        *("lab.recordings", "lab.recordings.native", "lab.recordings.ikat"),
    }


def test_no_source_imports_relatively_or_by_a_name_of_its_own() -> None:
    relative = [
        path
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_closure_of_an_unknown_module_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"lab\.replay\.rune"):
        closure("lab.replay.run", "lab.replay.rune")


def test_closure_includes_the_packages_around_a_module() -> None:
    assert {"lab", "lab.systems", "lab.systems.baselines"} <= set(closure("lab.systems.baselines.arm"))


@pytest.mark.parametrize(
    "edited",
    [
        "systems/openclaw/recall/scope.py",
        "systems/openclaw/arms.py",
        "systems/registry.py",
        "systems/contract.py",
        "replay/loop.py",
        "replay/receipts.py",
        "retrieval/exact.py",
        "embedding/vectors.py",
        "recordings/native.py",
        "recordings/model.py",
        "base/columns.py",
    ],
)
def test_comment_in_the_loop_the_reader_or_the_arm_changes_the_key(operators: Path, copy: Path, edited: str) -> None:
    assert _changes(copy, edited, *_plan(operators, "tier_quota_v1").code_roots())


@pytest.mark.parametrize(
    "edited",
    [
        "cli/replay.py",
        "canary/audit/audit.py",
        "measures/score.py",
        "report/build.py",
        "replay/explain.py",
        "runs/receipts.py",
        "recordings/beam.py",
        "recordings/openclaw/transcript.py",
        "systems/baselines/arm.py",
        "systems/files/memory_core.py",
        "systems/rsclaw/system.py",
        "systems/openclaw/seed/stages.py",
        "systems/openclaw/select/policies.py",
        "memory/pack/system.py",
        "memory/ledger/ingest.py",
    ],
)
def test_comment_that_no_arm_of_the_run_reaches_changes_no_key(operators: Path, copy: Path, edited: str) -> None:
    roots = _plan(operators, "memory_lancedb", "long_context").code_roots()
    assert not _changes(copy, edited, *roots)
    # Control: the file is one that some key covers.
    assert _changes(copy, edited, "lab." + edited.removesuffix(".py").replace("/", "."))


def test_arm_that_holds_another_reaches_it(operators: Path, tmp_path: Path, copy: Path) -> None:
    like = tmp_path / "like.json"
    like.write_text(json.dumps({"lab": {"arm": "placebo"}, "like": {"lab": {"arm": "rsclaw"}}}), "utf-8")
    alone, holding = (_plan(operators, arm).code_roots() for arm in ("placebo", f"dull={like}"))
    assert not _changes(copy, "systems/rsclaw/search.py", *alone)
    assert _changes(copy, "systems/rsclaw/search.py", *holding)


def test_arm_under_a_budget_reaches_its_system(operators: Path, copy: Path) -> None:
    assert _changes(copy, "systems/rsclaw/search.py", *_plan(operators, "rsclaw@256").code_roots())


def test_arm_of_another_package_reaches_what_the_package_imports(tmp_path: Path) -> None:
    module = tmp_path / "theirs.py"
    module.write_text("from lab.systems.fixed import FixedArm\nimport json\nfrom laboratory import lab\n", "utf-8")
    assert imported_by([module]) == {"lab.systems.fixed"}


def test_haystack_of_another_format_reaches_its_reader(operators: Path, tmp_path: Path) -> None:
    request = ReplayRequest(str(operators), "lab", ("none",), haystack_from=(f"{operators}:beam", "shipped:capture"))
    plan = make_plan(ReplayRequest(str(operators), "lab", ("none",), embedder="hashing", haystack=0))
    assert "lab.recordings.beam" not in plan.code_roots()
    object.__setattr__(plan, "request", request)
    assert {"lab.recordings.beam", "lab.recordings.native"} <= set(plan.code_roots())


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("retrieval/exact.py", True),
        ("replay/candidates.py", True),
        ("embedding/vectors.py", True),
        ("systems/openclaw/arms.py", False),
        ("systems/baselines/arm.py", False),
        ("cli/replay.py", False),
        ("measures/score.py", False),
    ],
)
def test_candidates_depend_on_the_search_and_not_on_the_arms(copy: Path, edited: str, changes: bool) -> None:
    assert _changes(copy, edited, *ROOTS) == changes


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("measures/score.py", True),
        ("measures/definitions/ndcg.py", True),
        ("runs/receipts.py", True),
        ("base/columns.py", True),
        ("replay/loop.py", False),
        ("retrieval/exact.py", False),
        ("systems/openclaw/arms.py", False),
        ("report/build.py", False),
    ],
)
def test_scores_depend_on_the_measures_and_not_on_the_replay(copy: Path, edited: str, changes: bool) -> None:
    assert _changes(copy, edited, SCORING, *modules_in(DEFINITIONS)) == changes


def test_key_is_equal_in_any_order_and_any_place(copy: Path) -> None:
    roots = ("lab.replay.run", "lab.systems.openclaw.arms")
    here = code_key(*roots)
    _forget()
    assert code_key(*reversed(roots)) == here == code_key(*roots, "lab.replay.loop")


def test_names_in_the_registry_are_those_of_the_modules() -> None:
    assert tuple(policies.POLICIES) == POLICIES
    engine = [name for name, module in BUILT_IN.items() if module == "lab.systems.openclaw.arms:make"]
    assert engine == [*POLICIES, *ABLATION_STEPS, RECOMMENDED, "engine"]
    assert closure(*(form.module for form in FORMATS.values()))


LOADED = """
import json, sys
from pathlib import Path
from lab.replay.plan import make_plan
from lab.runs.request import ReplayRequest
from lab.replay.run import run_replay

path, out, *arms = sys.argv[1:]
roots = set()
for source, some in (("given", arms), ("captured", [arm for arm in arms if arm != "oracle"])):
    request = ReplayRequest(path, "lab", tuple(some), embedder="hashing", limit=1, source=source, labels="heuristic-v1")
    outcome = run_replay(request, Path(out) / source)
    assert not outcome.failures, outcome.failures
    roots |= {*make_plan(request).code_roots()}
print(json.dumps([sorted(roots), [name for name in sys.modules if name.split(".")[0] == "lab"]]))
"""


@pytest.mark.process
@pytest.mark.slow
def test_closure_covers_every_module_that_a_replay_loads(operators: Path, tmp_path: Path) -> None:
    """The arms are all built-in ones but the two that run foreign programs, which the suites of their hosts hold."""
    arms = [name for name in BUILT_IN if name not in ("external", "plugin")]
    like, engine = tmp_path / "like.json", tmp_path / "engine.json"
    like.write_text(json.dumps({"lab": {"arm": "placebo"}, "like": {"lab": {"arm": "hybrid"}}}), "utf-8")
    engine.write_text(json.dumps({"lab": {"arm": "engine"}, "workingSet": {"enabled": True}}), "utf-8")
    command = [sys.executable, "-c", LOADED, str(operators), str(tmp_path / "out"), *arms, f"dull={like}"]
    done = subprocess.run([*command, f"flow={engine}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    roots, loaded = json.loads(done.stdout.splitlines()[-1])
    assert sorted(set(loaded) - set(closure(*roots))) == []
    assert len(loaded) > 200
