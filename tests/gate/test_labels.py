"""How many wrong judgements turn a verdict: what is named turns it when it is judged again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from lab.compare.judgements import Judgement, turned_lines
from lab.gate.line import FAIL, INCONCLUSIVE, PASS
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.schema import verdict_schema
from lab.gate.verdict import Verdict, judge
from lab.runs.directory import GOLDEN, RunDirectory
from lab.runs.scores import read_gold

# Wide margins, because six conversations show little.
HITS = Rule("guard", "Success@6", margin=0.3)
NDCG = Rule("guard", "nDCG@6", margin=0.3)
NICE = Rule("improve", "GoldNice@6")
NICE_GUARD = Rule("guard", "GoldNice@6", margin=0.02)
REPEATS = Rule("guard", "RepeatRate", direction="lower", margin=0.0)


def of(*rules: Rule, **values: object) -> Policy:
    return replace(Policy("mine", "what it means", "tier_first_v1", "tier_quota_v1", 6, rules), **values)  # type: ignore[arg-type]  # of names


def turned(run: RunDirectory, verdict: Verdict) -> RunDirectory:
    """The run with what the verdict names turned round."""
    assert verdict.turns is not None
    wrong = verdict.turns["wrong"]["named"]
    nice = {key for gold in read_gold(run).values() for key, label in gold.visible.items() if label == "nice_to_have"}
    lines = [json.loads(line) for line in (run.path / GOLDEN).read_text("utf-8").splitlines()]
    return run.judged_by(turned_lines(lines, [Judgement(**one, nice=one["memory"] in nice) for one in wrong]))


@pytest.mark.parametrize("policy", [of(HITS), of(HITS, NICE), of(NDCG)])
def test_what_is_named_turns_a_pass(run: RunDirectory, policy: Policy) -> None:
    verdict = judge(policy, run, turns=True)
    assert verdict.status == PASS
    assert verdict.turns is not None
    found = verdict.turns["wrong"]
    assert 1 <= found["least"] <= found["most"] == len(found["named"])
    assert judge(policy, turned(run, verdict)).status != PASS
    assert f"{verdict.turns['judgements']:,} judgements are wrong" in verdict.turning
    shares = [*verdict.turns["at_random"].values()]
    assert shares == sorted(shares)


def test_what_is_named_turns_a_failure(run: RunDirectory) -> None:
    policy = replace(of(NICE_GUARD), baseline="tier_quota_v1", candidate="tier_first_v1")
    verdict = judge(policy, run, turns=True)
    assert verdict.status == FAIL
    assert verdict.turns is not None
    assert verdict.turns["wrong"]["most"] is not None
    assert judge(policy, turned(run, verdict)).status != FAIL
    assert verdict.turning.startswith("This FAIL turns if ")


def test_a_failure_that_no_judgement_turns_says_so(run: RunDirectory) -> None:
    policy = replace(of(NICE_GUARD, REPEATS), baseline="tier_quota_v1", candidate="tier_first_v1")
    verdict = judge(policy, run, turns=True)
    assert verdict.status == FAIL
    said = "No wrong judgement turns this FAIL: RepeatRate does not rest on them; GoldNice@6 alone takes "
    assert verdict.turning.startswith(said)
    assert verdict.turns is not None
    assert verdict.turns["wrong"]["most"] is None


def test_an_open_verdict_has_nothing_to_turn(run: RunDirectory) -> None:
    verdict = judge(of(HITS, minimum_conversations=50), run, turns=True)
    assert verdict.status == INCONCLUSIVE
    assert verdict.turns is None
    assert verdict.turning == ""
    # And nothing is looked for unless it is wanted.
    assert judge(of(HITS), run).turns is None


def test_a_policy_asks_for_a_pass_that_wrong_judgements_do_not_turn(run: RunDirectory, tmp_path: Path) -> None:
    least = judge(of(HITS), run, turns=True).turns["wrong"]["least"]  # type: ignore[index]  # of a pass
    assert judge(of(HITS, wrong_judgements=least), run).status == PASS
    refused = judge(of(HITS, wrong_judgements=least + 1), run)
    assert refused.status == INCONCLUSIVE
    (line,) = (line for line in refused.lines if line.kind == "labels")
    assert line.candidate == least
    assert f"at least {least + 1}" in line.reason
    file = tmp_path / "policy.toml"
    file.write_text(
        'name = "n"\nabout = "a"\nwrong_judgements = 0\n[[guard]]\nmeasure = "R@6"\nmargin = 0.1\n', "utf-8"
    )
    with pytest.raises(Exception, match="wrong_judgements: expected a whole number from 1"):
        read_policy(str(file))
    # Policies without the key keep their digest.
    assert of(HITS).key != of(HITS, wrong_judgements=1).key


def test_a_verdict_with_what_turns_it_is_of_its_schema(run: RunDirectory) -> None:
    for policy in (of(HITS), of(HITS, wrong_judgements=1), of(HITS, minimum_conversations=50)):
        verdict = json.loads(json.dumps(judge(policy, run, turns=True).as_json()))
        jsonschema.validate(verdict, verdict_schema())
