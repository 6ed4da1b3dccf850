"""Trivial prompts of profile seed (E-19): what is skipped, what is not, and how it differs from the plugin."""

from __future__ import annotations

from typing import Any

import pytest

from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.recall.trivial import is_trivial_for_seed

HEARTBEAT = "Read HEARTBEAT.md if it exists. Follow it strictly. If nothing needs attention, reply HEARTBEAT_OK."
SKIPPED = (
    *("❤️", "👨‍👩‍👧", "🇹🇼", "⭐", "👍🏽", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "?", "…", "   ", "!!"),
    *(
        "good morning",
        "Good evening team!",
        "thank you",
        "Thanks a lot!",
        "thank you very much 🙏",
        "hi there",
        "ok, thanks",
    ),
    *("you're welcome", "ok👍", "hi~", "OK!!!", "yes", "got it", "haha"),
    *("谢谢", "没问题", "嗯嗯嗯", "好的👌", "收到!!", "謝謝你", "好的，謝謝", "早安", "哈哈哈哈"),
    *("heartbeat", "HEARTBEAT", "[HEARTBEAT]", "HEARTBEAT_OK", HEARTBEAT, "HEARTBEAT: anything due?"),
    *("/status", "/model gpt-5", "/new"),
)
RECALLED = (
    *("please check the heartbeat service", "where is HEARTBEAT.md", "heartbeats", "/tmp/a.txt 是什麼", "/tmp is full"),
    *("1", "#4711", "C++", "no", "stop", "team", "ok so what now with the gateway", "thank you page is broken"),
    *(
        "good morning, what is on today",
        "what is /status",
        "好吃嗎",
        "谢谢的英文怎么说",
        "可以部署了嗎",
        "嗯嗯嗯 那個部署呢",
    ),
)


@pytest.mark.parametrize("prompt", SKIPPED)
def test_is_trivial_skips_greetings_acks_emoji_heartbeats_and_commands(prompt: str) -> None:
    assert is_trivial_for_seed(prompt)
    assert not is_trivial_for_seed(prompt, skip=False)


@pytest.mark.parametrize("prompt", RECALLED)
def test_is_trivial_accepts_no_prompt_that_says_more(prompt: str) -> None:
    assert not is_trivial_for_seed(prompt)


def test_is_trivial_bounds_the_length_of_known_words() -> None:
    assert is_trivial_for_seed("thank you very much", max_chars=19)
    assert not is_trivial_for_seed("thank you very much", max_chars=18)


@pytest.mark.parametrize("prompt", ["good morning", "⭐", "please check the heartbeat service", "/tmp/a.txt 是什麼"])
def test_profiles_skip_different_prompts(kit: Any, prompt: str) -> None:
    rows = [kit.row("a", "gateway")]
    plugin = kit.Talk(rows, resolve({}, "upstream")).say(prompt).skip_reason
    seed = kit.Talk(rows, kit.flow()).say(prompt).skip_reason
    assert {plugin, seed} == {"trivial_prompt", None}


@pytest.mark.parametrize("piece", ["哈", "好啊", "謝謝", "ok ", "haha", "k", "早上好", "\u2600", "!", "/", "HEARTBEAT"])
def test_is_trivial_takes_linear_time(piece: str) -> None:
    for prompt in (piece * (39 // len(piece)) + "x", piece * (100_000 // len(piece)) + "x"):
        is_trivial_for_seed(prompt, max_chars=40)
