"""Published rankings of LoCoMo's sessions, with a published value for each question, score alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from lab.measures.trec import evaluate


def test_published_locomo_rankings_score_as_published(shared: Callable[..., Path]) -> None:
    """Compares every question. Without evidence the authors print 1, unlike TREC."""
    asked = json.loads(shared("data", "published_runs", "locomo_session_top10_minilm_dev.json").read_text("utf-8"))
    golds = {
        str(at): {f"session_{number}": 1 for item in one["evidence"] for number in re.findall(r"D(\d+)[:;]", item)}
        for at, one in enumerate(asked)
    }
    (values,) = evaluate({str(at): one["retrieved_ids"] for at, one in enumerate(asked)}, golds, ["R@10"]).values()
    printed = [one["recall"] for one in asked]
    assert [value if gold else 1.0 for value, gold in zip(values.tolist(), golds.values(), strict=True)] == printed
    assert len(printed) == 859
