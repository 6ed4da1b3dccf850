"""Notes on configurations: they name another embedding model than the run used, or what nothing here has."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lab.embedding.embedder import DEFAULT_MODEL
from lab.runs.manifest import Resolved
from lab.systems.contract import ArmInfo


def embedder_notes(resolved: Resolved, arms: Collection[str] | None = None) -> tuple[str, ...]:
    """One sentence for each embedder that configurations name and the run did not use, with the arms that name it.

    ``resolved`` is that of a manifest; ``arms`` are those to look at, by default all. Empty where nothing differs, and
    where no configuration speaks of an embedder. Model names are compared, for that is all that a configuration says.
    """
    named = [(arm.name, arm.embedder) for arm in resolved.arms if arms is None or arm.name in arms]
    return other_embedders(resolved.embedder_model, named)


def other_embedders(used: str, named: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    """The same of arms by name, each with the model that its configuration names, where ``used`` was the embedder."""
    by_model: dict[str, list[str]] = {}
    for arm, model in named:
        if model and model != used:
            by_model.setdefault(model, []).append(arm)
    return tuple(_note(names, model, used) for model, names in by_model.items())


def config_note(named: str | None) -> str | None:
    """The same of a configuration by itself, before any replay; None where it names no embedder, or the default."""
    if named in (None, DEFAULT_MODEL):
        return None
    return (
        f"embedder: this configuration names {named}; lab replay uses {DEFAULT_MODEL} unless --embedder names another, "
        "and its figures are then not those of this engine"
    )


def _note(arms: list[str], named: str, used: str) -> str:
    one = len(arms) == 1
    return (
        f"embedder: the configuration of {'arm' if one else 'arms'} {', '.join(arms)} names {named}; this run used "
        f"{used}, so its figures are not those of {'that engine' if one else 'these engines'}"
    )


def missing_notes(infos: Iterable[ArmInfo]) -> tuple[str, ...]:
    """One sentence on what the configurations of arms ask for and nothing here has; empty where there is nothing."""
    by_path: dict[str, list[str]] = {}
    for info in infos:
        for path in info.missing:
            by_path.setdefault(path, []).append(info.name)
    if not by_path:
        return ()
    arms = list(dict.fromkeys(arm for named in by_path.values() for arm in named))
    return (f"not implemented here: {', '.join(by_path)} (of {'arm' if len(arms) == 1 else 'arms'} {', '.join(arms)})",)
