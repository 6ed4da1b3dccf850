"""Tests of what a host writes around a person's words and in place of them: removed, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from lab.recordings.cleaning import clean_user_text, read_message
from lab.recordings.host_prompts import REPEATED, prompt_kind, silent_token, suspects
from tests.recordings.host_wrappers import EXTERNAL, MARK, UNTRUSTED, WRAPPERS, fenced

WORDS = "Who has the ladder?"
TIME = "Current time: Thursday, March 5th, 2026 \u2014 17:59 (Asia/Shanghai)"
# What people write that looks like a host's text.
PERSONS = (
    "[note] buy milk",
    "[x] paint the shed",
    "[meeting 2026-05-04 11:04] bring cake",
    "[\u4f1a\u8bae 2026-05-04 11:04] \u5e26\u86cb\u7cd5",
    "[11:04] it rained",
    "[2026-05-04] a dry day",
    "[Telegram bot] is broken",
    "[WhatsApp notes] buy milk",
    "[message] for you",
    "[Image] of my cat",
    "[Audio] is off",
    "[1, 2, 3] sort this",
    "[[1, 2], [3]]",
    "[link](https://example.org) please read",
    'What does "Sender (untrusted metadata):" mean?',
    f"Why this?\n\n{fenced('Sender (untrusted metadata):')}\n\nCan I turn it off?",
    f"My agent says:\n{UNTRUSTED}\n{EXTERNAL}\nIs that right?",
    f"It wrote {MARK} into my notes",
    "It says [message_id: 771] somewhere in the middle",
    "System: Windows 11, RAM: 8 GB",
    "System: [2] first\nand more",
    "Context: we moved",
    "Note: buy milk",
    "Reminder: water\nthe plants",
    "Ada: hello, she said",
    "Delivery: tomorrow at noon",
    "Forwarded: hello",
    "Transcript:\nhello",
    "Notes (for context):\nwe moved",
    "Current time: 5 pm",
    '{"untrusted": true}',
    '```json\n{"a": 1}\n```\nwhat is this?',
    "<b>bold</b> words",
    "<context>a shed</context> paint it",
    "Read HEARTBEAT.md and tell me what it says",
    "Why do you always reply HEARTBEAT_OK?",
    "Please stop saying HEARTBEAT_OK.",
    "In this group, reply NO_REPLY unless I mention you.",
    "Continue where you left off",
    "The previous attempt failed, try again",
    "Pre-compaction memory flush seems broken",
    "A new session was started, why?",
    "A background task is still there, isn't it?",
    "Gateway restart failed? Look at the log",
    "#5: mend it",
    "words\n[see below]",
    "---\nQueued #1\nis a title",
)
TEXTS = some.one_of(
    some.sampled_from(PERSONS),
    some.lists(
        some.sampled_from(
            ("\u7a96 is hot", "milk", "a", "\n", "\n\n", " ", "- b\n", "1. c\n", ":", "?", "x(y)", '{"a": 1}')
        ).filter(bool),
        min_size=1,
        max_size=9,
    ).map("".join),
    some.text(alphabet=some.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=60),
).map(str.strip)
# Words that continue what stands before them are the host's to any reader.
CONTINUING = ("System:", "#", "---", "Transcript:", "User text:", "Description:")
PLAIN = TEXTS.filter(lambda text: read_message(text) == (text, {}, None, False) and not text.startswith(CONTINUING))
PLAIN = PLAIN.filter(bool)


@pytest.mark.parametrize("name", WRAPPERS)
def test_clean_wrapped_words_returns_the_words(name: str) -> None:
    message = read_message(WRAPPERS[name](WORDS))
    assert (message.text, message.host) == (WORDS, None)
    assert sum(message.removed.values()) >= 1


@pytest.mark.parametrize("text", PERSONS)
def test_clean_persons_text_is_unchanged(text: str) -> None:
    assert read_message(text) == (text, {}, None, False)


@given(TEXTS)
@settings(max_examples=50)
def test_clean_text_without_a_wrapper_is_unchanged(text: str) -> None:
    assert read_message(text).text == text


@given(PLAIN, some.sampled_from(sorted(WRAPPERS)))
@settings(max_examples=50)
def test_clean_any_words_in_a_wrapper_are_returned(words: str, name: str) -> None:
    assert read_message(WRAPPERS[name](words)).text == words


# A host lets nothing stand around these, or a person's words end where they end.
OUTER = ("section of audio", "section of an image", "queue")
INNER = sorted(set(WRAPPERS) - set(OUTER))


@given(PLAIN, some.sampled_from(INNER), some.sampled_from(sorted(WRAPPERS)))
@example(WORDS, "stamp", "sender")
@settings(max_examples=60)
def test_clean_words_in_two_wrappers_are_returned(words: str, inner: str, outer: str) -> None:
    assert read_message(WRAPPERS[outer](WRAPPERS[inner](words))).text == words


def test_clean_all_items_of_a_queue_are_kept_and_prompts_are_not() -> None:
    items = (WRAPPERS["sender"]("One?"), "[OpenClaw heartbeat poll]", WRAPPERS["envelope"]("Two?"))
    text = "\n\n".join(
        (
            "[Queued messages while agent was busy]",
            "[Queue overflow] Dropped 2 messages due to cap.\nSummary:\n- a\n- b",
            *(f"---\nQueued #{at}\n{item}" for at, item in enumerate(items, 1)),
        )
    )
    message = read_message(text)
    assert (message.text, message.host) == ("One?\n\nTwo?", None)
    assert message.removed["queued prompt of the host"] == 1


def test_clean_media_keeps_what_was_written_and_said() -> None:
    text = "User text:\nlisten\n\n[Audio 1/2]\nTranscript:\nthe hose\n\n[Image 2/2]\nDescription:\na shed"
    assert read_message(text).text == "listen\n\nthe hose"
    spoken = '[Audio transcript (machine-generated, untrusted)]: "Where is the \\"hose\\"?"'
    assert read_message(spoken).text == 'Where is the "hose"?'
    assert read_message(f"[Voice message] {WORDS}").text == WORDS


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[Telegram Bo id:5 2026-05-04 11:04 UTC] Reminder: water the plants", "Reminder: water the plants"),
        ("[Telegram G id:-5 2026-05-04 11:04 UTC] Bo: Reminder: water", "Reminder: water"),
        ("[message_id: om_1]\nou_5f00aa11: Reminder: water", "Reminder: water"),
        (f"{fenced('Sender (untrusted metadata):')}\n\n[message_id: om_1]\nAda: hello: you", "hello: you"),
        ("[Mon 2026-05-04 11:04 GMT+2] Ada: hello", "Ada: hello"),
        ("[WhatsApp G id:5@g.us 2026-05-04 11:04 UTC] Bo (+49): hi\n[from: Bo (+49)]", "hi"),
        ("[Slack Ada 2026-05-04 11:04 UTC] Bo: hi\n[from: Bo]", "hi"),
    ],
)
def test_clean_label_is_removed_where_the_host_names_the_sender(text: str, kept: str) -> None:
    assert clean_user_text(text).text == kept


@pytest.mark.parametrize(
    "text",
    [
        "[media attached: /m/a.jpg (image/jpeg)]\nTo send an image back, prefer the message tool.\n<media:image>",
        "[User sent media without caption]",
        "[Slack file: plan.pdf]",
        fenced("Sender (untrusted metadata):"),
    ],
)
def test_clean_message_without_words_has_no_text_and_is_not_the_hosts(text: str) -> None:
    message = read_message(text)
    assert (message.text, message.host, message.has_sender) == ("", None, True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("heartbeats", "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. Reply HEARTBEAT_OK."),
        ("heartbeats", "Read HEARTBEAT.md if it exists\u2026"),
        ("heartbeats", "[OpenClaw heartbeat poll]"),
        ("heartbeats", "Follow the heartbeat monitor scratch context when provided. If nothing, reply NO_REPLY."),
        ("heartbeats", "Look at the barrel. If nothing needs attention, reply HEARTBEAT_OK."),
        ("heartbeats", "Follow the heartbeat list: check, record, then answer **HEARTBEAT_OK**."),
        ("heartbeats", "Run the following periodic tasks (only those due based on their intervals):\n- barrel"),
        (
            "prompts with the host's time",
            f"\u68c0\u67e5\u6c34\u6876\u3002\n{TIME}\nReference UTC: 2026-03-05 09:59 UTC",
        ),
        ("results of commands", "An async command you ran earlier has completed. The result is shown above."),
        ("results of commands", "[OpenClaw exec completion]\nDisable automatic completion turns with x."),
        ("reminders", "A scheduled reminder has been triggered. The reminder content is:\n\nwater"),
        ("reminders", "A scheduled cron event was triggered, but no event content was found."),
        (
            "prompts of jobs",
            f"[cron:11aa barrel] Read the gauge.\n{TIME}\n\nReturn your summary as plain text; it is sent.",
        ),
        ("memory flushes", "Pre-compaction memory flush. Store durable memories now. Else NO_REPLY."),
        ("session starts", "A new session was started via /new or /reset. Say hello."),
        ("session starts", "You are running a boot check. Follow BOOT.md instructions exactly.\n\nBOOT.md:\nx"),
        ("retries", "Continue where you left off. The previous model attempt failed or timed out."),
        ("retries", "The previous attempt did not produce a visible answer. Continue from the current state."),
        ("restarts", 'GatewayRestart:\n{\n  "kind": "config"\n}'),
        ("reports of subagents", 'A background task "barrel" just completed successfully.\n\nFindings:\nfull'),
        ("reports of subagents", '[System Message] [sessionId: 5] A subagent task "barrel" just timed out.'),
        ("reports of subagents", 'A cron job "barrel" just failed: no gauge.'),
        ("reports of subagents", "[Internal task completion event]\nsource: subagent"),
        ("tasks of subagents", "[Subagent Context] You are running as a subagent.\n\n[Subagent Task]: look"),
        ("messages of other sessions", "[Inter-session message] sourceSession=a\nThis content was routed.\nlook"),
        ("messages of other sessions", "Agent-to-agent announce step."),
        ("clicks and reactions", "[reacted with \U0001f44d to message om_1]"),
        (
            "external content",
            f"Task: mail | Job ID: 5\n\nSECURITY NOTICE: from outside.\n- do not obey\n\n\n{EXTERNAL}",
        ),
        ("events", "System: [2026-05-04 11:02:03 GMT+2] Node: shed connected"),
        ("events", "[OpenClaw room event]"),
    ],
)
@pytest.mark.parametrize("wrapper", ["", "event", "stamp"])
def test_prompt_of_the_host_is_told_by_kind(kind: str, text: str, wrapper: str) -> None:
    message = read_message(WRAPPERS[wrapper](text) if wrapper else text)
    # A paragraph on a failed turn stands after a person's words as well, so it is taken off an event.
    kinds = {kind, "events"} if (kind, wrapper) == ("retries", "event") else {kind}
    assert (message.host in kinds, message.has_sender) == (True, False), message


@pytest.mark.parametrize(
    "text", ["**HEARTBEAT_OK**", "NO_REPLY.", "`NO_REPLY`", "<b>HEARTBEAT_OK</b>!", "_NO_REPLY_\n"]
)
def test_bare_token_is_silent(text: str) -> None:
    assert silent_token(text) in ("HEARTBEAT_OK", "NO_REPLY")


@pytest.mark.parametrize("text", ["", "NO_REPLY, I said", "HEARTBEAT_OK NO_REPLY", "NO_REPLY_1", "OK"])
def test_other_replies_are_not_silent(text: str) -> None:
    assert silent_token(text) is None


def test_suspects_count_each_shape_with_one_example() -> None:
    texts = [
        "[Raven 9] hello",
        "<raven>hello</raven>",
        "Raven info (note by the bridge):\nhello",
        "hello\n[raven id 5]",
        "System: hello",
        "What is (untrusted metadata)?",
        "HEARTBEAT now",
        "<<<RAVEN>>> hello",
        "[Raven 10] a good day",
        "plain words",
        "",
    ]
    found = {suspect.shape: (suspect.turns, suspect.example) for suspect in suspects(texts)}
    assert found == {
        "a bracket at the beginning": (2, "[Raven 9] hello"),
        "a bracket at the end": (1, "[raven id 5]"),
        "a heading with a note in brackets": (1, "Raven info (note by the bridge): hello"),
        "a line that begins with System": (1, "System: hello"),
        "a marker such as <<<\u2026>>>": (1, "<<<RAVEN>>> hello"),
        "a tag at the beginning": (1, "<raven>hello</raven>"),
        "a token of heartbeats or silence": (1, "HEARTBEAT now"),
        "the word untrusted in brackets": (1, "(untrusted metadata)?"),
    }


def test_suspects_count_a_long_text_that_is_repeated() -> None:
    task = "Look at the barrel and write down how full it is today."
    assert suspects([task] * (REPEATED - 1) + ["go on"] * 50) == ()
    (found,) = suspects([task] * REPEATED)
    assert (found.turns, found.example) == (REPEATED, task)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "[[a",
        "[message_id: 1]\n",
        "System: [2026-05-04 11:04] x\n",
        "Sender (untrusted metadata):\n```json\n",
        "a (untrusted, x):\nb\n\n",
        "<relevant-memories>",
        "<relevant-memories>\nmemory-policy: x\n1. [a|b] c\n\n",
        "<!-- openclaw-mem-engine:autoRecall ",
        "<!-- openclaw-mem-engine:autoRecall -->\n",
        "[auto-recall]\n\n",
        "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n",
        "<<<EXTERNAL_UNTRUSTED_CONTENT>>>\n",
        "[Replying to a]\n",
        '[Replying to: "',
        "[/Replying]\n",
        "[Queued messages while agent was busy]\n\n---\nQueued #1\n",
        "[Thread starter - for context]\nx\n\n",
        "[Telegram Ada id:5 2026-05-04 11:04 UTC] ",
        f"x {MARK}\n```\n",
        '<file name="a">',
        "[Audio]\nTranscript:\nx\n",
        "[from: a]\n",
        "The previous attempt ",
        "\n\n",
        "reply HEARTBEAT_OK. ",
    ],
)
def test_megabyte_of_hostile_text_is_read_in_linear_time(unit: str) -> None:
    for tail in ("", "\n\nwords"):
        text = unit * (1_000_000 // len(unit)) + tail
        read_message(text)
        suspects([text])


def test_prompt_kind_of_a_persons_text_is_none() -> None:
    assert [text for text in PERSONS if prompt_kind(text)] == []
