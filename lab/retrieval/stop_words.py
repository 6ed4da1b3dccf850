"""English words that the seed profile's text lane leaves out: function words alone, none that carries a topic.

A list of the project's own, because LanceDB's default list for its ICU tokenizer joins the stop words of every
language, and so drops English words such as "die", "will" (a testament, too) or "bin". Negations stay: "not" turns a
rule round.
"""

_WORDS = (
    "a an the i me my mine myself we us our ours ourselves you your yours yourself he him his himself "
    "she her hers herself it its itself they them their theirs themselves this that these those here "
    "there am is are was were be been being have has had having do does did doing done can could may "
    "might must shall should would and or but if because as while than then so though although of at "
    "by for with about into through to from in out on off over under up down between who whom whose "
    "which what when where why how all any both each few more most other some such own same very too "
    "just also only again once s t d ll m o re ve y "
)
ENGLISH: tuple[str, ...] = tuple(_WORDS.split())
