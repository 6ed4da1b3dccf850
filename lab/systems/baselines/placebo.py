"""``placebo``: neutral text of a given length in place of memories, so that tokens alone are not praised (HB-16).

Configuration: ``{"tokens": 256}``, or ``{"like": {"lab": {"arm": "hybrid"}, …}}`` for as many tokens as another arm
injects at the same turn. The text is common knowledge and nothing personal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from lab.base.draw import draw
from lab.base.errors import UnusableInput
from lab.base.shape import with_keys
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Turn
from lab.retrieval.retrievers import Retrieval
from lab.systems.baselines.long_context import budget_of
from lab.systems.contract import (
    NOTHING,
    Arm,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    MemorySystem,
    Prepares,
    Recall,
    Rephrases,
    Searches,
    SharedRetrieval,
    Writes,
)
from lab.systems.kit import Kit, Workshop
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec

ENGLISH = (
    "A triangle has three sides and three corners.",
    "Most leaves are green because of the chlorophyll in them.",
    "The Moon goes round the Earth once in about four weeks.",
    "Ice is lighter than water, so it floats.",
    "A year has twelve months, and the shortest of them is February.",
    "Sound needs something to travel through, such as air or water.",
    "Bees carry pollen from one flower to the next.",
    "Rivers run from higher ground to lower ground.",
    "Salt can be won from the sea by letting the water dry up.",
    "A compass needle turns until it points to the north.",
    "Clouds are made of tiny drops of water or of ice.",
    "Glass is made by melting sand in great heat.",
    "The shadows of trees are longest in the morning and in the evening.",
    "Owls hunt at night and rest by day.",
    "Iron rusts where water and air can reach it.",
    "A square is a rectangle whose sides are all equal.",
    "Bread rises because yeast fills the dough with bubbles.",
    "Wool grows again after a sheep has been shorn.",
    "The tide comes in and goes out about twice a day.",
    "Light crosses a room faster than anybody can notice.",
    "Paper was once made from rags, and now mostly from wood.",
    "Snails carry their house on their back.",
    "Water boils at a lower temperature on a high mountain.",
    "A bridge must carry its own weight before it can carry a load.",
    "Some birds fly south before the winter and come back in spring.",
    "Clay gets hard and stays hard once it has been fired.",
    "The trunk of a tree grows one ring thicker every year.",
    "Wind is air that moves from one place to another.",
    "A dozen are twelve, and a score are twenty.",
    "Cotton grows on bushes and is spun into thread.",
    "Stars can be seen by day only from far above the ground.",
    "An echo is a sound that comes back from a wall or a cliff.",
    "Wheat is sown in autumn or in spring and cut in summer.",
    "Oil floats on water because it weighs less.",
    "Every map leaves out more than it shows.",
    "A candle goes out when the air around it is used up.",
    "Ants follow a trail that other ants have laid.",
    "Copper is soft enough to be drawn into a wire.",
    "Fog is a cloud that touches the ground.",
    "The longest day of the year comes at the beginning of summer.",
)
CHINESE = (
    "三角形有三條邊和三個角。",
    "樹葉多半是綠色的，因為裡面有葉綠素。",
    "月亮大約每四個星期繞地球一圈。",
    "冰比水輕，所以會浮在水面上。",
    "一年有十二個月，最短的是二月。",
    "聲音要靠空氣或水才能傳開。",
    "蜜蜂把花粉從一朵花帶到另一朵花。",
    "河水從高處流向低處。",
    "海水曬乾以後會留下鹽。",
    "指南針的針會轉向北方。",
    "雲是由很小的水滴或冰晶組成的。",
    "沙子在高溫下熔化，可以做成玻璃。",
    "早上和傍晚的樹影最長。",
    "貓頭鷹晚上覓食，白天休息。",
    "鐵碰到水和空氣就會生鏽。",
    "正方形是四邊相等的長方形。",
    "酵母讓麵團裡充滿氣泡，麵包就發起來了。",
    "羊毛剪了以後還會再長。",
    "潮水每天大約漲退兩次。",
    "從前的紙用破布做，現在多半用木材做。",
    "蝸牛背著自己的殼走路。",
    "高山上的水不到一百度就開了。",
    "有些鳥在冬天以前飛到南方，春天再飛回來。",
    "泥土燒過以後會變硬。",
    "樹幹每年長出一圈年輪。",
    "風是流動的空氣。",
    "油比水輕，所以浮在水面上。",
    "霧是貼近地面的雲。",
    "螞蟻沿著同伴留下的氣味走。",
    "一年裡白天最長的日子在夏天開始的時候。",
)


def neutral(size: int, seed: int, key: str, *, chinese: bool = False) -> str:
    """Return a text of ``size`` tokens, or one less where no text has that many; blank for 0.

    It starts at a sentence drawn from ``seed`` and ``key``, goes on in a fixed order, starts over at the end, and is
    cut where the tokens are used up.
    """
    if size <= 0:
        return ""
    sentences = CHINESE if chinese else ENGLISH
    start = int(draw(seed, key) * len(sentences))
    text = _joined(sentences[start:] + sentences[:start], size, "" if chinese else " ")
    return text[: bisect_right(range(1, len(text) + 1), size, key=lambda length: tokens(text[:length]))]


@lru_cache(maxsize=256)
def _joined(sentences: Sequence[str], size: int, between: str) -> str:
    """Return the sentences, over and over, until they have more than ``size`` tokens."""
    text = once = between.join(sentences)
    while tokens(text) <= size:
        text += between + once
    return text


def is_chinese(text: str) -> bool:
    """Return whether most letters of a text are Chinese, so that neutral text in Chinese is nearer to its memories."""
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum("\u3400" <= letter <= "\u9fff" for letter in letters) > len(letters)


TOKENS, ITEMS, DEPTH = 256, 6, 50


def make(spec: ArmSpec) -> PlaceboArm:
    """Make the arm. Raise :class:`UnusableInput` for an unknown key, or both ``tokens`` and ``like``."""
    config = with_keys({} if spec.config is None else spec.config, ("lab", "tokens", "like"), spec.where)
    most = spec.max_items or ITEMS
    if "like" not in config:
        return PlaceboArm(spec.name, budget_of(config, TOKENS, spec.where), spec.seed, most)
    if "tokens" in config:
        raise UnusableInput(f"{spec.where}: tokens and like exclude each other; like takes the tokens of its arm")
    like = config["like"]
    system = like.get("lab", {}).get("arm") if isinstance(like, Mapping) and isinstance(like.get("lab"), Mapping) else 0
    if not isinstance(system, str):
        raise UnusableInput(f'{spec.where}: like: expected the configuration of an arm with {{"lab": {{"arm": NAME}}}}')
    inner = make_arm(replace(spec, system=system, config=like, where=f"{spec.where}: like", raw=like))
    return LikeArm(spec.name, 0, spec.seed, most, inner)


@dataclass(frozen=True, slots=True)
class PlaceboArm:
    """Neutral text of ``tokens`` tokens, or of as many as the arm ``like`` injects at the turn."""

    name: str
    tokens: int = TOKENS
    seed: int = 0
    max_items: int = ITEMS
    like: Arm | None = None
    claims: ClassVar[tuple[str, ...]] = ("neutral",)

    def describe(self) -> ArmInfo:
        """Return name and configuration; with ``like``, also what the other arm needs."""
        info = ArmInfo(self.name, "placebo", self.max_items, DEPTH, {"tokens": self.tokens}, at_most=0, seed=self.seed)
        if self.like is None:
            return replace(info, stateful=False)
        like = self.like.describe()
        lab = like.config.get("lab")
        config: dict[str, Any] = {
            **like.config,
            "lab": {**(lab if isinstance(lab, Mapping) else {}), "arm": like.system},
        }
        return replace(like, name=self.name, system="placebo", config={"like": config}, at_most=0, seed=self.seed)

    def with_tokens(self, tokens: int) -> PlaceboArm:
        """Return the arm with a text of another length."""
        return PlaceboArm(self.name, tokens, self.seed, self.max_items)

    def open(self, kit: Kit) -> Placebo:
        """Open the system, and that of the other arm."""
        return Placebo(self, kit)


class LikeArm(PlaceboArm):
    """Neutral text like another arm's, with everything that the other arm has prepared for it."""

    # A recall of this arm is one of the other arm as a whole.
    shares: ClassVar[bool] = False

    @property
    def retrieval(self) -> Any:
        """The search settings of the other arm, or the default ones."""
        return self.like.retrieval if isinstance(self.like, Searches) else Retrieval()

    def query_for(self, prompt: str) -> str:
        """Return the text that the other arm embeds in place of a prompt, if any."""
        return self.like.query_for(prompt) if isinstance(self.like, Rephrases) else ""

    def prepare(self, workshop: Workshop) -> bytes | None:
        """Return what the other arm prepares, if anything."""
        return self.like.prepare(workshop) if isinstance(self.like, Prepares) else None


class Placebo(MemorySystem):
    """A system that injects no memory, whatever it is given."""

    def __init__(self, arm: PlaceboArm, kit: Kit) -> None:
        self._arm = arm
        self._like = arm.like.open(kit) if arm.like is not None else None
        # The other arm's search is not shared, because this system answers recalls as a whole.
        opened: object = self._like
        shares = isinstance(opened, SharedRetrieval) and opened.retrieval_key is not None
        self._sharing = opened if isinstance(opened, SharedRetrieval) and shares else None
        self._retriever = self._sharing.open_retriever() if self._sharing is not None else None

    def remember(self, memories: Sequence[Memory]) -> None:
        """Pass memories on to the other arm."""
        if self._retriever is not None:
            self._retriever.observe(memories)
        if self._like is not None:
            self._like.remember(memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Pass deletions on to the other arm."""
        if self._retriever is not None:
            self._retriever.forget(keys)
        if self._like is not None:
            self._like.forget(keys)

    def observe(self, turn: Turn) -> Writes:
        """Pass the turn on to the other arm, whose captures count as this arm's."""
        return self._like.observe(turn) if self._like is not None else NOTHING

    def recall(self, ask: Ask) -> Recall:
        """Inject neutral text: in Chinese for a Chinese prompt, else in English."""
        other = self._other(ask)
        size = self._arm.tokens if other is None else tokens(other.context)
        text = neutral(size, self._arm.seed, ask.turn, chinese=is_chinese(ask.text))
        recall = Recall((), 0, text, {"policy": "placebo", "tokens": tokens(text)}, status="ok" if text else "skipped")
        if other is None:
            return recall
        status = other.status if other.status in ("skipped", "degraded") else recall.status
        return replace(recall, status=status, timings=other.timings, writes=other.writes)

    def close(self) -> None:
        """Close the other arm."""
        if self._retriever is not None:
            self._retriever.close()
        if self._like is not None:
            self._like.close()

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Say that the text is neutral."""
        reason = "the arm injects neutral text and no memory"
        return Explained.of("neutral text", dict.fromkeys(relevant, ("nothing", reason)))

    def _other(self, ask: Ask) -> Recall | None:
        if self._like is None:
            return None
        if self._sharing is not None and self._retriever is not None:
            return self._sharing.select(ask, self._retriever.retrieve(ask))
        return self._like.recall(ask)
