"""Plans of nightly runs: reading them, and the messages for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.base.set_registry import shipped
from lab.nightly.nightly_run import identity
from lab.nightly.plan import read_plan, shipped_plans

GOOD = """
name = "n"
about = "a"
policy = "rollout"
[[set]]
name = "one"
recordings = "shipped:operators"
format = "lab"
arms = ["tier_first_v1", "hybrid", "wide=wide.json"]
golden = "gold"
must_share = 0.2
limit = 2
conversation = ["tea-mountain"]
[[set.compare]]
baseline = "tier_first_v1"
candidate = "wide"
policy = "rollout"
critical = false
"""


def _write(folder: Path, text: str) -> str:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_read_plan_returns_every_setting(tmp_path: Path) -> None:
    plan = read_plan(_write(tmp_path, GOOD))
    (one,) = plan.sets
    assert (plan.name, plan.policy.name, one.name, one.baseline) == ("n", "rollout", "one", "one")
    assert one.asked.path == str(shipped("datasets", "operators"))
    # Paths are relative to the plan's folder, whatever the current folder.
    assert one.asked.arms == ("tier_first_v1", "hybrid", f"wide={tmp_path / 'wide.json'}")
    assert (one.asked.golden, one.asked.must_share, one.asked.limit) == (str(tmp_path / "gold"), 0.2, 2)
    assert one.asked.conversation == ("tea-mountain",)
    (within,) = one.compare
    assert (within.candidate, within.critical) == ("wide", False)
    # Comparisons are critical by default.
    ((within,),) = (one.compare for one in read_plan(_write(tmp_path, GOOD.replace("critical = false", ""))).sets)
    assert within.critical


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('name = "n"', "", "name: expected text"),
        ('about = "a"', "about = 3", "about: expected text, found a number"),
        ('policy = "rollout"\n[[set]]', 'policy = "none such"\n[[set]]', "policy: none such: no such file"),
        (
            "shipped:operators",
            "shipped:trap",
            "set 1: recordings: shipped:trap: no such shipped set; known: ship",
        ),
        (
            '"hybrid", ',
            "",
            "set 1: compare 1: policy rollout compares with 'hybrid', which is not an arm of the set; add it to arms",
        ),
        ("limit = 2", "limits = 2", "set 1: unknown key 'limits'; known: name"),
        ("limit = 2", "limit = -1", "set 1: limit: expected a whole number"),
        ("limit = 2", "limit = true", "set 1: limit: expected a whole number"),
        ("must_share = 0.2", 'must_share = "a fifth"', "set 1: must_share: expected a number"),
        ("must_share = 0.2", "must_share = nan", "set 1: must_share: expected a number, found nan"),
        ("must_share = 0.2", "must_share = inf", "set 1: must_share: expected a number, found inf"),
        ('arms = ["tier_first_v1", "hybrid", "wide=wide.json"]', "arms = []", "set 1: arms: names no arm"),
        (
            'arms = ["tier_first_v1", "hybrid", "wide=wide.json"]',
            'arms = "hybrid"',
            "set 1: arms: expected a list of texts",
        ),
        ('recordings = "shipped:operators"', "", "set 1: recordings: expected text"),
        ('candidate = "wide"', 'candidate = "narrow"', "compare 1: 'narrow' is not an arm of the set; it has"),
        ("critical = false", 'critical = "no"', "compare 1: critical: expected true or false"),
        ("critical = false", "worth = 1", "compare 1: unknown key 'worth'"),
        ("[[set.compare]]", "[set.compare]", "compare: expected [[set.compare]] tables"),
        ("[[set]]", "[[set", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in GOOD
    with pytest.raises(UnusableInput) as raised:
        read_plan(_write(tmp_path, GOOD.replace(before, after, 1)))
    assert said in str(raised.value)
    assert "plan.toml" in str(raised.value)


def test_read_plan_empty_or_with_duplicate_sets_is_refused(tmp_path: Path) -> None:
    head, _, rest = GOOD.partition("[[set]]")
    with pytest.raises(UnusableInput, match="would pass everything"):
        read_plan(_write(tmp_path, head))
    double = f"{head}[[set]]{rest.partition('[[set.compare]]')[0]}"
    with pytest.raises(UnusableInput, match="two sets have the name 'one'"):
        read_plan(_write(tmp_path, double + double.removeprefix(head)))
    # Two sets with one baseline name would overwrite each other's baseline.
    other = double.removeprefix(head).replace('name = "one"', 'name = "two"\nbaseline = "one"')
    with pytest.raises(UnusableInput, match="two sets have the baseline 'one'"):
        read_plan(_write(tmp_path, double + other))
    with pytest.raises(UnusableInput, match="is a folder; name the TOML file"):
        read_plan(str(tmp_path))
    with pytest.raises(UnusableInput, match="shipped plans: shipped:operators"):
        read_plan("shipped:none-such")


def test_shipped_plans_can_be_run() -> None:
    assert shipped_plans() == ["shipped:operators"]
    plan = read_plan("shipped:operators")
    # Reads every recording, gold and configuration that it names.
    assert identity(plan)["sets"].keys() == {one.name for one in plan.sets}
