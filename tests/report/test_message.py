"""Messages: what they say of each kind of verdict, and that no name in them does anything in Slack or a mailbox."""

from __future__ import annotations

import json
from dataclasses import replace
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import dump_json
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.verdict import Answer, Verdict
from lab.report.message import (
    MARKS,
    MOST_CHARACTERS,
    MOST_HEADER,
    MOST_NAMES,
    MOST_RULES,
    MOST_SECTION,
    WIDTH,
    Message,
    as_email,
    as_slack,
    as_text,
    message_at,
)

EVIL = "<!channel> *x* `y` <a href='z'>\r\nBcc: all@example.org\n\u202e\x1b[31m & https://me:pw@host/"
LINES = (
    Line("guard", "Success@6", PASS, True, "Success@6: fine"),
    Line("guard", "Forbidden@6", FAIL, True, f"Forbidden@6: {EVIL}", candidate=0.44, baseline=0.12),
    Line("guard", "HardRules", INCONCLUSIVE, True, "HardRules: open", "30 more conversations"),
    Line("guard", "R@6", FAIL, False, "R@6: advisory"),
    Line("limit", "Future", SKIPPED, True, "Future: not asked"),
)
VERDICT = Verdict("rollout", "what it means", "run", "old", "new", FAIL, LINES, trial=("embedder hashing",))


def _written(folder: Path, verdict: Verdict) -> Message:
    (folder / "verdict.json").write_bytes(dump_json(verdict.as_json()))
    return message_at(folder)


MOVED = ["git 0123456789ab -> 123456789abc", *(f"arm hybrid: config.autoRecall.{n} 1 -> 2" for n in "abcd")]


def test_message_of_a_verdict_with_a_control_is_whole_sentences(tmp_path: Path) -> None:
    answer = Answer("hybrid", INCONCLUSIVE, "it is not shown that tiers are worth having: 3 conversations are too few")
    said = _written(tmp_path, replace(VERDICT, control=answer)).sentence
    assert said.endswith(". It is not shown that tiers are worth having: 3 conversations are too few.")


def _nightly(folder: Path, *verdicts: Verdict, **changed: Any) -> Path:
    sets = [
        {
            "name": verdict.policy.partition("/")[2],
            "status": verdict.status,
            "verdict": verdict.as_json(),
            "reproduces": {"changed": 0, "turns": 20},
            "exact": {"changed": 3, "turns": 20, "moved": MOVED} if verdict.status == FAIL else None,
        }
        for verdict in verdicts
    ]
    status = FAIL if any(verdict.status == FAIL for verdict in verdicts) else verdicts[0].status
    night = {
        "schema": "lab.nightly.v1", "trial": [], "plan": "mine", "about": "", "date": "2026-11-24", "status": status,
        "lab": "0.2.0", "commit": "0123456789abcdef", "sets": sets,
    }  # fmt: skip
    (folder / "nightly.json").write_bytes(dump_json(night | changed))
    return folder


def test_message_says_what_was_decided_why_and_what_to_do(tmp_path: Path) -> None:
    made = _written(tmp_path, VERDICT)
    unchecked = "[not checked: it does not record its policy and runs]"
    assert made.headline == f"✖ FAIL: gate rollout, new against old [trial: embedder hashing] {unchecked}"
    assert made.sentence.startswith("A misleading memory is injected at 44% of the probes that have one, against 12%")
    assert [rule.partition(":")[0] for rule in made.rules] == ["fail", "inconclusive"]
    assert made.rules[1] == "inconclusive: HardRules: open. What would settle it: 30 more conversations."
    assert made.action.sentence.startswith("Keep old.")
    assert made.page is None
    (tmp_path / "report.html").touch()
    assert message_at(tmp_path).page == str(tmp_path / "report.html")
    assert message_at(tmp_path, "https://example.org/x").page == "https://example.org/x"
    assert len(set(MARKS.values())) == len(MARKS) == 4


def test_message_about_a_file_knows_its_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.html").touch()
    printed = tmp_path / "gate.json"
    printed.write_text(json.dumps(replace(VERDICT, run=str(run)).as_json()))
    assert message_at(printed).page == str(run / "report.html")


def test_long_verdicts_are_cut_and_counted(tmp_path: Path) -> None:
    lines = tuple(Line("guard", f"M{number}", FAIL, True, f"M{number}: {'x' * 900} {number}") for number in range(30))
    made = _written(tmp_path, replace(VERDICT, lines=lines))
    assert (len(made.rules), made.more) == (MOST_RULES, 30 - MOST_RULES)
    assert {len(rule) for rule in made.rules} == {MOST_CHARACTERS}
    assert f"and {30 - MOST_RULES} more, on the page" in as_text(made)


def test_reason_of_many_rules_is_not_cut_off(tmp_path: Path) -> None:
    few = [f"lanes.worst_window_{number}" for number in range(21)]
    lines = tuple(Line("receipts", name, INCONCLUSIVE, True, f"{name}: 18 recalls", "282 more") for name in few)
    (rule,) = _written(tmp_path, replace(VERDICT, status=INCONCLUSIVE, lines=lines)).rules
    named = f"{', '.join(few[:MOST_NAMES])} and {len(few) - MOST_NAMES} more"
    assert rule == f"inconclusive: {named}: 18 recalls. What would settle it: 282 more."


def test_rules_with_one_reason_are_one_entry(tmp_path: Path) -> None:
    lines = tuple(Line("receipts", name, INCONCLUSIVE, True, f"{name}: 18 recalls", "282 more") for name in ("a", "b"))
    made = _written(tmp_path, replace(VERDICT, status=INCONCLUSIVE, lines=lines))
    assert made.rules == ("inconclusive: a, b: 18 recalls. What would settle it: 282 more.",)


def test_slack_can_be_made_to_do_nothing(tmp_path: Path) -> None:
    payload = as_slack(_written(tmp_path, VERDICT))
    texts = [block["text"] for block in payload["blocks"] if "text" in block]
    texts += [text for block in payload["blocks"] for text in block.get("elements", ())]
    said = json.dumps(payload, ensure_ascii=False)
    assert "<" not in said
    assert ">" not in said
    assert "&lt;!channel&gt;" in said
    assert "pw@host" not in said
    assert "\u202e" not in said
    assert {text["type"] for text in texts} == {"plain_text", "mrkdwn"}
    marked = [text for text in texts if text["type"] == "mrkdwn"]
    assert all(text["text"].count("`") == 6 and text["verbatim"] for text in marked)
    assert not any(text["emoji"] for text in texts if text["type"] == "plain_text")


def test_slack_limits_hold_after_escaping(tmp_path: Path) -> None:
    lines = tuple(Line("guard", f"M{number}", FAIL, True, f"M{number}: {'&' * 900} {number}") for number in range(30))
    blocks = as_slack(_written(tmp_path, replace(VERDICT, policy="&" * 300, lines=lines)))["blocks"]
    assert len(blocks) <= 50
    assert len(blocks[0]["text"]["text"]) <= MOST_HEADER
    assert all(len(block["text"]["text"]) <= MOST_SECTION for block in blocks if "text" in block)
    assert blocks[0]["text"]["text"].removesuffix("…").endswith("&amp;")


def test_email_has_two_parts_and_one_recipient(tmp_path: Path) -> None:
    made = _written(tmp_path, replace(VERDICT, policy=EVIL))
    data = as_email(made, ["ops@example.org"], "Lab <lab@example.org>")
    assert data == as_email(made, ["ops@example.org"], "Lab <lab@example.org>")
    assert b"\r" not in data
    assert max(map(len, data.splitlines())) <= 78
    mail = message_from_bytes(data, policy=default)
    assert (mail["To"], mail["From"], mail["Bcc"], mail["Date"]) == (
        "ops@example.org",
        "Lab <lab@example.org>",
        None,
        None,
    )
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Subject"].startswith("[lab] FAIL: gate <!channel> *x* `y`")
    text, page = (part.get_content() for part in mail.iter_parts())
    assert text == as_text(made)
    assert "<a href" not in page
    assert "&lt;a href" in page
    folded = [line for line in text.splitlines() if not line.startswith(("  lab ", "Page: "))]
    assert max(map(len, folded)) <= WIDTH


@pytest.mark.parametrize("address", ["ops", "a@b\nBcc: c@d", "a@b, c@d", "<a@b>\x00", "a@b;c@d", "Name <a@b>, c@d", ""])
def test_address_that_could_add_a_recipient_is_refused(tmp_path: Path, address: str) -> None:
    made = _written(tmp_path, VERDICT)
    with pytest.raises(UnusableInput, match="not one e-mail address"):
        as_email(made, [address])
    with pytest.raises(UnusableInput, match="--to: is required"):
        as_email(made, [])


def test_nightly_message_counts_sets_and_names_the_command(tmp_path: Path) -> None:
    approve = "lab nightly baseline approve reports/nightly/x/sets/a/run --name a --baselines reports/baselines"
    intended = " (if the change is intended)"
    failed = Verdict(
        "mine/a", "", "x", "a", None, FAIL,
        (Line("exact", "hybrid receipts", FAIL, True, "3 of 20 receipts changed", f"{approve}{intended}"),),
    )  # fmt: skip
    passed = Verdict("mine/b", "", "x", "b", None, PASS, (Line("a/a", "receipts", PASS, True, "equal"),))
    made = message_at(_nightly(tmp_path, passed, failed, trial=["store lance"]))
    unchecked = "[not checked: its plan is not there]"
    assert made.title == f"FAIL: nightly run of 2026-11-24, plan mine [trial: store lance] {unchecked}"
    assert (
        made.sentence == f"Since the baseline: {'; '.join(MOVED[1:4])} and 2 more differences. 1 of 2 sets failed: a."
    )
    assert message_at(_nightly(tmp_path, passed)).sentence == "1 of 1 set passed: b."
    # What the policy accepts as unmeasured is named, and the word does not hide it.
    stale = Line("guard", "StaleRecall", SKIPPED, True, "not measurable here: no memory is superseded", unmeasured=True)
    accepted = message_at(_nightly(tmp_path, passed, replace(passed, policy="mine/c", lines=(*passed.lines, stale))))
    assert accepted.title.startswith("PASS on what was measured: nightly run of 2026-11-24, plan mine [")
    named = [name for name, said in accepted.facts if said.endswith("not measurable here: StaleRecall")]
    assert named == ["set c"]
    made = message_at(_nightly(tmp_path, passed, failed, trial=["store lance"]))
    assert made.rules[0].startswith("a: fail: hybrid receipts: 3 of 20 receipts changed")
    assert made.action.command == approve
    assert (
        dict(made.facts)["set a"] == "fail, 0 of 20 receipts differ between two replays, 3 changed since the baseline"
    )
    assert dict(made.facts)["commit"] == "0123456789ab"
    assert message_at(_nightly(tmp_path, passed)).action.sentence == "Nothing has to be done."
    assert dict(message_at(_nightly(tmp_path, passed, commit=None)).facts)["commit"] == "no repository"
    first = replace(passed, status=INCONCLUSIVE, lines=(Line("baseline", "b", INCONCLUSIVE, True, "none", approve),))
    assert message_at(_nightly(tmp_path, first)).action.command == approve
    # The page and the message are given the same decision.
    explain = "lab explain reports/nightly/x/sets/a/run den/s01/t01 --arm hybrid"
    result = json.loads((_nightly(tmp_path, passed, failed) / "nightly.json").read_bytes())
    result["sets"][1]["exact"]["first"] = [{"explain": ["lab explain before", explain]}]
    (tmp_path / "nightly.json").write_bytes(dump_json(result))
    assert message_at(tmp_path).action.command == explain
    broken = replace(passed, status=ERROR, lines=(Line("a/a", "receipts", ERROR, True, "differ"),))
    result["status"], result["sets"][0]["verdict"] = ERROR, broken.as_json()
    result["sets"][0]["reproduces"] = {"changed": 3, "turns": 20, "before": "x/run", "after": "x/again"}
    (tmp_path / "nightly.json").write_bytes(dump_json(result))
    assert message_at(tmp_path).action.command == "lab diff x/run x/again"


@pytest.mark.parametrize(("kept", "differ"), [([], "a, b"), (["b"], "a")])
def test_message_of_a_nightly_run_that_lost_a_set_is_refused(tmp_path: Path, kept: list[str], differ: str) -> None:
    (tmp_path / "begun.json").write_bytes(dump_json({"sets": {"a": "0", "b": "1"}}))
    line = Line("a/a", "receipts", PASS, True, "equal")
    verdicts = [Verdict(f"mine/{name}", "", "x", name, None, PASS, (line,)) for name in ("a", "b")]
    assert message_at(_nightly(tmp_path, *verdicts)).sentence == "2 of 2 sets passed: a, b."
    sets = [entry for entry in json.loads((tmp_path / "nightly.json").read_bytes())["sets"] if entry["name"] in kept]
    _nightly(tmp_path, *verdicts, sets=sets)
    with pytest.raises(CannotMeasure, match=rf"is stale: its sets .* \(which differ: {differ}\)"):
        message_at(tmp_path)
    if not kept:
        (tmp_path / "begun.json").unlink()
        with pytest.raises(CannotMeasure, match=r"is stale: its sets .* \(which differ: none\)"):
            message_at(tmp_path)


def test_acceptance_message_counts_what_applies(tmp_path: Path) -> None:
    def result(arm: str, status: str, *, applies: bool = True) -> dict[str, Any]:
        return {
            "criterion": "1", "title": "t", "arm": arm, "status": status, "reason": "why.", "settles": "more",
            "applies": applies,
        }  # fmt: skip

    data = {
        "schema": "lab.acceptance.v1", "trial": [], "status": FAIL, "about": "a set", "candidates": ["new"],
        "readings": {"other": "x"}, "runs": [str(tmp_path)],
        "criteria": [
            result("new", PASS), result("new", INCONCLUSIVE), result("new", FAIL), result("other", FAIL),
            result("new", ERROR, applies=False),
        ],
    }  # fmt: skip
    (tmp_path / "verdict.json").write_bytes(dump_json(data))
    made = message_at(tmp_path)
    assert made.sentence == "1 of 3 requirements is met."
    assert [rule[:9] for rule in made.rules] == ["fail: new", "inconclus"]


def test_command_that_ended_without_a_verdict_is_a_message_too(tmp_path: Path) -> None:
    log, empty = tmp_path / "log", tmp_path / "night.json"
    log.write_text("operators (set 1 of 1)\nerror: plan.toml: unknown key 'sets'\n\n")
    empty.touch()
    for path in (empty, tmp_path / "nowhere.json"):
        made = message_at(path, log=log)
        assert (made.status, made.sentence) == (ERROR, "plan.toml: unknown key 'sets'")
    assert message_at(empty, log=tmp_path / "none").sentence == "the command wrote nothing"
    with pytest.raises(UnusableInput):
        message_at(empty)


@pytest.mark.parametrize("text", ["[]", '{"schema": "lab.run.v1"}', '{"schema": "lab.verdict.v1"}', "x"])
def test_what_is_no_verdict_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "verdict.json"
    file.write_text(text)
    with pytest.raises(UnusableInput):
        message_at(tmp_path)
    file.unlink()
    with pytest.raises(UnusableInput, match="has no verdict"):
        message_at(tmp_path)
