"""Labels: recorded, sampled, and sampled with gold kept out of must_remember."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from lab.base.errors import UnusableInput
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
def test_sampled_labels_do_not_depend_on_order(mode: str) -> None:
    recording = conversation(300)
    shuffled = list(recording.memories)
    random.Random(1).shuffle(shuffled)
    gold = [memory.key for memory in recording.memories[:40]]
    labels = Labels(mode, 0.2, 0.5, 7)
    assert labels.of(replace(recording, memories=tuple(shuffled)), gold) == labels.of(recording, gold)


def test_sampled_labels_do_not_depend_on_other_memories() -> None:
    recording = conversation(300)
    labels = Labels("sampled", 0.2, 0.5, 7)
    whole = labels.of(recording, [])
    for some in (recording.memories[:17], recording.memories[200:], recording.memories[::3]):
        assert labels.of(replace(recording, memories=some), []) == {memory.key: whole[memory.key] for memory in some}


def test_sampled_labels_do_not_depend_on_gold() -> None:
    recording = conversation(300)
    labels = Labels("sampled", 0.2, 0.5, 7)
    assert labels.of(recording, [memory.key for memory in recording.memories]) == labels.of(recording, [])


def test_sampled_labels_depend_on_key_not_text() -> None:
    recording = conversation(50)
    other = replace(
        recording, memories=tuple(replace(memory, text="other", label=MUST) for memory in recording.memories)
    )
    labels = Labels("sampled", 0.3, 0.3, 2)
    assert labels.of(other, []) == labels.of(recording, [])


@pytest.mark.parametrize("mode", ["sampled", "distractors"])
def test_sampled_labels_of_seeds_and_conversations_are_independent(mode: str) -> None:
    recording, other = conversation(MANY), conversation(MANY, "d")

    def must(seed: int, of: Recording) -> set[int]:
        return {int(key.split("#")[1]) for key in keys_with(Labels(mode, 0.2, 0.5, seed).of(of, []), MUST)}

    # Two independent fifths overlap in a fifth of each: 240 of 1200, standard deviation 14.
    assert must(0, recording) == must(0, recording)
    assert len(must(0, recording) & must(1, recording)) == pytest.approx(240, abs=60)
    assert len(must(0, recording) & must(0, other)) == pytest.approx(240, abs=60)


@pytest.mark.parametrize("mode", ["sampled", "distractors"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sampled_labels_smaller_must_set_is_a_subset(mode: str, seed: int) -> None:
    recording = conversation(800)
    gold = [memory.key for memory in recording.memories[::5]]
    shares = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 0.79, 0.9, 1.0)
    pools = [keys_with(Labels(mode, share, 0.7 * (1 - share), seed).of(recording, gold), MUST) for share in shares]
    for smaller, larger in pairwise(pools):
        assert smaller <= larger
    assert len(pools[0]) == 0
    assert len(pools[2]) < len(pools[4]) < len(pools[6])


@pytest.mark.parametrize(("must", "nice"), [(0.1, 0.63), (0.45, 0.385), (0.0, 0.5), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_sampled_labels_shares_are_within_sampling_error(must: float, nice: float) -> None:
    counts = Counter(Labels("sampled", must, nice, 3).of(conversation(MANY), []).values())
    assert set(counts) <= {MUST, NICE, UNKNOWN}
    for label, share in ((MUST, must), (NICE, nice), (UNKNOWN, 1 - must - nice)):
        # Four standard deviations of a binomial count; zero for shares of 0 and 1.
        spread = 4 * (MANY * max(0.0, share * (1 - share))) ** 0.5
        assert counts[label] == pytest.approx(MANY * share, abs=spread + 1e-6)


@pytest.mark.parametrize("must", [0.0, 0.1, 0.5, 0.75])
def test_distractors_sample_must_from_other_memories(must: float) -> None:
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


def test_distractors_all_gold_have_no_must() -> None:
    recording = conversation(60)
    labels = Labels("distractors", 0.5, 0.25, 0).of(recording, [memory.key for memory in recording.memories])
    assert set(labels.values()) == {NICE, UNKNOWN}


def test_recorded_labels_missing_ones_are_unknown() -> None:
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
def test_labels_bad_shares_are_refused(must: float, nice: float) -> None:
    with pytest.raises(UnusableInput, match=r"must-share .* and nice-share .* sum to at most 1"):
        Labels("sampled", must, nice)


def test_labels_shares_may_sum_to_one_after_rounding() -> None:
    assert set(Labels("sampled", 0.1, 0.9).of(conversation(200), []).values()) == {MUST, NICE}
    assert Labels("sampled", 0.7, 0.1 + 0.2).nice_share == 0.1 + 0.2


def test_labels_unknown_mode_names_known_ones() -> None:
    with pytest.raises(
        UnusableInput, match="'graded'; known: recorded, sampled, distractors, heuristic-v1, independent"
    ):
        choose_labels("graded", [conversation(2)], 0.1, 0.6, 0)


def test_choose_labels_independent_means_sampled() -> None:
    recordings = [conversation(2)]
    assert choose_labels("independent", recordings, 0.1, 0.6, 4) == choose_labels("sampled", recordings, 0.1, 0.6, 4)
    assert choose_labels("independent", recordings, 0.1, 0.6, 4) == Labels("sampled", 0.1, 0.6, 4)


def test_choose_labels_default_is_recorded_if_all_have_labels() -> None:
    graded, bare = conversation(2, "a", NICE), conversation(2, "b")
    assert choose_labels(None, [graded, conversation(2, "b", MUST)], None, None, 0).mode == "recorded"
    assert choose_labels(None, [bare], 0.2, 0.5, 9) == Labels("sampled", 0.2, 0.5, 9)
    assert choose_labels("distractors", [graded], 0.1, 0.6, 0).mode == "distractors"


def test_choose_labels_recording_without_memories_is_ignored() -> None:
    """A recording without memories has no memory without a label."""
    recordings = [conversation(2, "a", NICE), conversation(0, "b")]
    assert choose_labels(None, recordings, None, None, 0).mode == "recorded"
    assert choose_labels("recorded", recordings, None, None, 0).mode == "recorded"


def test_choose_labels_recorded_without_labels_names_the_remedy() -> None:
    with pytest.raises(UnusableInput) as refused:
        choose_labels("recorded", [conversation(2)], 0.1, 0.6, 0)
    assert "memories without labels" in str(refused.value)
    assert "--labels sampled" in str(refused.value)


def test_labels_describe_only_sampled_ones_have_shares_and_seed() -> None:
    assert Labels("recorded", 0.2, 0.3, 4).describe() == {"mode": "recorded"}
    for mode in ("sampled", "distractors"):
        assert Labels(mode, 0.2, 0.3, 4).describe() == {"mode": mode, "must_share": 0.2, "nice_share": 0.3, "seed": 4}


@pytest.mark.parametrize(("must", "nice"), [(0.1, 0.63), (0.5, 0.35), (1.0, 0.0)])
def test_choose_labels_default_nice_share_is_most_of_the_rest(must: float, nice: float) -> None:
    assert choose_labels("sampled", [conversation(2)], must, None, 0) == Labels("sampled", must, nice, 0)


@pytest.mark.parametrize("shares", [(0.1, None), (None, 0.6)])
def test_choose_labels_shares_with_recorded_labels_are_refused(shares: tuple[float | None, float | None]) -> None:
    with pytest.raises(UnusableInput, match="add --labels sampled"):
        choose_labels(None, [conversation(2, "a", NICE)], *shares, 0)
