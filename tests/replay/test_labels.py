"""Labels as recorded, sampled, and with the gold kept out of the must pool."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from lab.errors import UnusableInput
from lab.recordings.model import MUST, NICE, UNKNOWN, Memory, Recording, Turn
from lab.replay.labels import Labels, choose_labels

MANY = 6000


def conversation(count: int, name: str = "c", label: str | None = None) -> Recording:
    turn = Turn(f"{name}/s1/t1", 0, "s1", "user", "hello", 0)
    memories = tuple(
        Memory(f"{name}/s1/t1#{number}", f"memory {number}", f"memory {number}", 1, number, label=label)
        for number in range(count)
    )
    return Recording(name, (turn,), memories)


def keys_with(labels: dict[str, str], label: str) -> set[str]:
    return {key for key, one in labels.items() if one == label}


@pytest.mark.parametrize("mode", ["sampled", "distractors"])
def test_a_drawn_label_does_not_depend_on_the_order_of_memories(mode: str) -> None:
    recording = conversation(300)
    shuffled = list(recording.memories)
    random.Random(1).shuffle(shuffled)
    gold = [memory.key for memory in recording.memories[:40]]
    labels = Labels(mode, 0.2, 0.5, 7)
    assert labels.of(replace(recording, memories=tuple(shuffled)), gold) == labels.of(recording, gold)


def test_a_sampled_label_does_not_depend_on_which_other_memories_there_are() -> None:
    recording = conversation(300)
    labels = Labels("sampled", 0.2, 0.5, 7)
    whole = labels.of(recording, [])
    for some in (recording.memories[:17], recording.memories[200:], recording.memories[::3]):
        assert labels.of(replace(recording, memories=some), []) == {memory.key: whole[memory.key] for memory in some}


def test_a_sampled_label_does_not_depend_on_gold() -> None:
    recording = conversation(300)
    labels = Labels("sampled", 0.2, 0.5, 7)
    assert labels.of(recording, [memory.key for memory in recording.memories]) == labels.of(recording, [])


def test_a_sampled_label_depends_on_the_key_and_not_on_what_the_memory_says() -> None:
    recording = conversation(50)
    other = replace(recording, memories=tuple(replace(one, text="other", label=MUST) for one in recording.memories))
    labels = Labels("sampled", 0.3, 0.3, 2)
    assert labels.of(other, []) == labels.of(recording, [])


@pytest.mark.parametrize("mode", ["sampled", "distractors"])
def test_seeds_and_conversations_draw_independently(mode: str) -> None:
    recording, other = conversation(MANY), conversation(MANY, "d")

    def must(seed: int, of: Recording) -> set[int]:
        return {int(key.split("#")[1]) for key in keys_with(Labels(mode, 0.2, 0.5, seed).of(of, []), MUST)}

    # Independent fifths share a fifth of themselves: 240 of 1200, standard deviation 14.
    assert must(0, recording) == must(0, recording)
    assert len(must(0, recording) & must(1, recording)) == pytest.approx(240, abs=60)
    assert len(must(0, recording) & must(0, other)) == pytest.approx(240, abs=60)


@pytest.mark.parametrize("mode", ["sampled", "distractors"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_must_set_of_a_smaller_share_lies_inside_that_of_a_larger(mode: str, seed: int) -> None:
    recording = conversation(800)
    gold = [memory.key for memory in recording.memories[::5]]
    shares = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 0.79, 0.9, 1.0)
    pools = [keys_with(Labels(mode, share, 0.7 * (1 - share), seed).of(recording, gold), MUST) for share in shares]
    for smaller, larger in pairwise(pools):
        assert smaller <= larger
    assert len(pools[0]) == 0
    assert len(pools[2]) < len(pools[4]) < len(pools[6])


@pytest.mark.parametrize(("must", "nice"), [(0.1, 0.63), (0.45, 0.385), (0.0, 0.5), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_sampled_shares_come_out_within_sampling_error(must: float, nice: float) -> None:
    counts = Counter(Labels("sampled", must, nice, 3).of(conversation(MANY), []).values())
    assert set(counts) <= {MUST, NICE, UNKNOWN}
    for label, share in ((MUST, must), (NICE, nice), (UNKNOWN, 1 - must - nice)):
        # Four standard deviations of a binomial count; none at all where the share leaves nothing to chance.
        spread = 4 * (MANY * max(0.0, share * (1 - share))) ** 0.5
        assert counts[label] == pytest.approx(MANY * share, abs=spread + 1e-6)


@pytest.mark.parametrize("must", [0.0, 0.1, 0.5, 0.75])
def test_distractors_fill_the_must_share_from_memories_that_are_not_gold(must: float) -> None:
    recording = conversation(MANY)
    gold = {memory.key for memory in recording.memories[::5]}
    labels = Labels("distractors", must, 0.7 * (1 - must), 3).of(recording, gold)
    assert not keys_with(labels, MUST) & gold
    others = MANY - len(gold)
    within = must * MANY / others
    spread = 4 * (others * within * (1 - within)) ** 0.5
    assert len(keys_with(labels, MUST)) == pytest.approx(must * MANY, abs=spread + 1e-6)
    for group in (gold, set(labels) - gold - keys_with(labels, MUST)):
        nice = len(keys_with(labels, NICE) & group)
        assert nice == pytest.approx(0.7 * len(group), abs=4 * (len(group) * 0.21) ** 0.5)
        assert len(keys_with(labels, UNKNOWN) & group) == len(group) - nice


@pytest.mark.parametrize("must", [0.05, 0.5, 0.8, 0.95, 1.0])
def test_distractors_never_label_gold_must(must: float) -> None:
    recording = conversation(50)
    gold = {memory.key for memory in recording.memories[::3]}
    for seed in range(20):
        labels = Labels("distractors", must, 1 - must, seed).of(recording, gold)
        assert not keys_with(labels, MUST) & gold
        if must * 50 >= 50 - len(gold):
            assert keys_with(labels, MUST) == set(labels) - gold


def test_where_everything_is_gold_distractors_have_no_must_pool() -> None:
    recording = conversation(60)
    labels = Labels("distractors", 0.5, 0.25, 0).of(recording, [memory.key for memory in recording.memories])
    assert set(labels.values()) == {NICE, UNKNOWN}


def test_recorded_labels_are_those_of_the_recording_and_unknown_where_it_has_none() -> None:
    recording = conversation(3, label="ignore")
    first = replace(recording.memories[0], label=None)
    mixed = replace(recording, memories=(first, *recording.memories[1:]))
    assert Labels("recorded", seed=5).of(mixed, [first.key]) == {
        "c/s1/t1#0": UNKNOWN,
        "c/s1/t1#1": "ignore",
        "c/s1/t1#2": "ignore",
    }


@pytest.mark.parametrize(
    ("must", "nice"),
    [(-0.1, 0.5), (1.1, 0.0), (0.5, -0.1), (0.0, 1.5), (0.6, 0.5), (float("nan"), 0.1), (0.1, float("nan"))],
)
def test_shares_that_are_no_shares_are_refused(must: float, nice: float) -> None:
    with pytest.raises(UnusableInput, match=r"must-share .* and nice-share .* sum to at most 1"):
        Labels("sampled", must, nice)


def test_shares_may_sum_to_one_with_the_rounding_of_decimals() -> None:
    assert set(Labels("sampled", 0.1, 0.9).of(conversation(200), []).values()) == {MUST, NICE}
    assert Labels("sampled", 0.7, 0.1 + 0.2).nice_share == 0.1 + 0.2


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UnusableInput, match="'graded'; known: recorded, sampled, distractors, heuristic-v1, independent"
    ):
        choose_labels("graded", [conversation(2)], 0.1, 0.6, 0)


def test_independent_is_another_name_of_sampled() -> None:
    recordings = [conversation(2)]
    assert choose_labels("independent", recordings, 0.1, 0.6, 4) == choose_labels("sampled", recordings, 0.1, 0.6, 4)
    assert choose_labels("independent", recordings, 0.1, 0.6, 4) == Labels("sampled", 0.1, 0.6, 4)


def test_recorded_labels_are_the_default_where_every_recording_has_them_and_sampled_ones_where_not() -> None:
    graded, bare = conversation(2, "a", NICE), conversation(2, "b")
    assert choose_labels(None, [graded, conversation(2, "b", MUST)], None, None, 0).mode == "recorded"
    assert choose_labels(None, [bare], 0.2, 0.5, 9) == Labels("sampled", 0.2, 0.5, 9)
    assert choose_labels("distractors", [graded], 0.1, 0.6, 0).mode == "distractors"


def test_a_recording_without_any_memory_does_not_take_the_grades_of_the_others_away() -> None:
    """It has nothing to grade, so it cannot be said to lack grades."""
    recordings = [conversation(2, "a", NICE), conversation(0, "b")]
    assert choose_labels(None, recordings, None, None, 0).mode == "recorded"
    assert choose_labels("recorded", recordings, None, None, 0).mode == "recorded"


def test_recorded_labels_without_any_recorded_are_an_error_that_names_the_way_out() -> None:
    with pytest.raises(UnusableInput) as refused:
        choose_labels("recorded", [conversation(2)], 0.1, 0.6, 0)
    assert "memories without labels" in str(refused.value)
    assert "--labels sampled" in str(refused.value)


def test_only_drawn_labels_describe_themselves_with_shares_and_seed() -> None:
    assert Labels("recorded", 0.2, 0.3, 4).describe() == {"mode": "recorded"}
    for mode in ("sampled", "distractors"):
        assert Labels(mode, 0.2, 0.3, 4).describe() == {"mode": mode, "must_share": 0.2, "nice_share": 0.3, "seed": 4}


@pytest.mark.parametrize(("must", "nice"), [(0.1, 0.63), (0.5, 0.35), (1.0, 0.0)])
def test_a_nice_share_that_nobody_gave_is_most_of_what_is_left(must: float, nice: float) -> None:
    assert choose_labels("sampled", [conversation(2)], must, None, 0) == Labels("sampled", must, nice, 0)


@pytest.mark.parametrize("shares", [(0.1, None), (None, 0.6)])
def test_shares_beside_recorded_labels_are_refused(shares: tuple[float | None, float | None]) -> None:
    with pytest.raises(UnusableInput, match="add --labels sampled"):
        choose_labels(None, [conversation(2, "a", NICE)], *shares, 0)
