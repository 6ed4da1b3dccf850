"""The shipped policies of the gate: their files, names and heads, without the measures that reading a policy needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.base.files import read_toml

SHIPPED = Path(__file__).parent / "policies"


def shipped_policies() -> list[str]:
    """Return the names of the shipped policies."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def shipped_heads() -> list[dict[str, Any]]:
    """Return the name, the meaning and the number of rules of each shipped policy; a rule is a table in a list."""
    heads = []
    for name in shipped_policies():
        policy = read_toml(SHIPPED / f"{name}.toml")
        listed = [one for value in policy.values() if isinstance(value, list) for one in value]
        rules = sum(isinstance(one, dict) for one in listed)
        heads.append({"policy": policy["name"], "about": policy["about"], "rules": rules})
    return heads


def is_shipped(file: str | None) -> bool:
    """Return whether the file of a policy is one of the lab's own, which nobody edits."""
    return file is not None and Path(file).parent == SHIPPED
