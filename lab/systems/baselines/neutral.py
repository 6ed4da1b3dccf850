"""Neutral text of an exact number of tokens for the placebo: common knowledge, nothing personal (HB-16)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lab.base.draw import draw
from lab.base.token_estimate import tokens

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
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle]) <= size else (low, middle - 1)
    return text[:low]


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
