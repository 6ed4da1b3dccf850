"""What the draw of ``lab init`` is, and which difference it could show (IN-12, IN-13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lab.base.formatting import counted

if TYPE_CHECKING:
    from lab.replay.pool import Drawn


def draw_record(drawn: Drawn, share: float) -> dict[str, Any]:
    """Return the draw as plain values, with the minimum detectable effects before anything is judged.

    ``all`` assumes that every turn needs a memory, ``some`` that the first ``share`` of them does.
    """
    from lab.compare.statistics import power_of

    return drawn.as_json() | {
        "power": {
            "all": power_of(drawn.sizes()).as_json(),
            "some": power_of(drawn.sizes(share)).as_json(),
        }
    }


def draw_sentences(record: Any) -> Iterator[str]:
    """Yield how the turns were chosen and which difference they could show, in words."""
    if not isinstance(record, dict):
        return
    chosen = [name for name, (count, _) in record["conversations"].items() if count]
    yield (
        f"drawn to judge: {record['turns']} of {counted(record['eligible'], 'eligible user turn')}, from "
        f"{len(chosen)} of {counted(len(record['conversations']), 'conversation')}: one turn of each conversation in "
        f"every round, in the order of a hash (seed {record['seed']})"
    )
    reasons = [f"{count} {why}" for why, count in record["not_eligible"].items() if count]
    if reasons:
        yield f"user turns that were not eligible: {', '.join(reasons)}"
    most = record["power"]["all"]
    if not most["detectable"]:
        # Fewer turns show no more.
        yield (
            f"{counted(most['conversations'], 'conversation')} cannot show any difference, even if all of these turns "
            "need a memory; a test needs at least 6"
        )
        return
    for name, case in (("all", "if all of them need a memory"), ("some", "if only a third of them does")):
        power = record["power"][name]
        if not power["detectable"]:
            yield (
                f"{case}: {counted(power['conversations'], 'conversation')} cannot show any difference; a test needs "
                "at least 6"
            )
            continue
        effects = ", ".join(
            f"±{least:.2f} if {share} change" if least <= 1 else f"none if {share} change"
            for share, least in power["detectable"].items()
        )
        yield f"{case}: the smallest difference in hit rate that they show (80 % power): {effects}"
