"""Notes on configurations: arms that are off, another embedder than the run used, settings that are missing here."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lab.embedding.embedder import DEFAULT_MODEL
from lab.runs.manifest import Resolved
from lab.systems.contract import ArmInfo


def config_notes(resolved: Resolved, arms: Collection[str] | None = None) -> tuple[str, ...]:
    """Return what the configurations of arms mean for the figures of a run: which arms are off, and their embedders.

    A sentence for each arm that its host does not run (HC-9), and one for each embedder that configurations name and
    the run did not use, with its arms. ``resolved`` comes from a manifest; ``arms`` defaults to all. Only model names
    are compared, because configurations say no more. Empty where nothing differs.
    """
    chosen = [arm for arm in resolved.arms if arms is None or arm.name in arms]
    off = (off_note(arm.name, arm.off) for arm in chosen if arm.off)
    named = [(arm.name, arm.embedder) for arm in chosen if not arm.off]
    return (*off, *other_embedders(resolved.embedder_model, named))


def off_note(arm: str, why: str) -> str:
    """Return the note on an arm that its host does not run."""
    return f"arm {arm} injects nothing, as on its host: {why}"


def other_embedders(used: str, named: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    """Return the notes of :func:`config_notes` from pairs of an arm and the model that its configuration names."""
    by_model: dict[str, list[str]] = {}
    for arm, model in named:
        if model and model != used:
            by_model.setdefault(model, []).append(arm)
    return tuple(_note(names, model, used) for model, names in by_model.items())


def config_note(named: str | None) -> str | None:
    """Return the note on one configuration before any replay; None if it names no embedder, or the default one."""
    if named in (None, DEFAULT_MODEL):
        return None
    return (
        f"embedder: this configuration names {named}; lab replay uses {DEFAULT_MODEL} unless --embedder names another, "
        "and its figures are then not those of this engine"
    )


def _note(arms: list[str], named: str, used: str) -> str:
    arm, engine = ("arm", "that engine") if len(arms) == 1 else ("arms", "these engines")
    return (
        f"embedder: the configuration of {arm} {', '.join(arms)} names {named}; this run used {used}, "
        f"so its figures are not those of {engine}"
    )


def missing_notes(infos: Iterable[ArmInfo]) -> tuple[str, ...]:
    """Return one sentence that lists the settings of arms which are not implemented here; empty if there are none."""
    by_path: dict[str, list[str]] = {}
    for info in infos:
        for path in info.missing:
            by_path.setdefault(path, []).append(info.name)
    if not by_path:
        return ()
    arms = list(dict.fromkeys(arm for named in by_path.values() for arm in named))
    named = f"{'arm' if len(arms) == 1 else 'arms'} {', '.join(arms)}"
    return (f"settings that the lab does not implement, so without effect here: {', '.join(by_path)} (of {named})",)
