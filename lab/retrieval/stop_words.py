"""English stop words of the seed profile's text lane: function words only, none that carries a topic.

LanceDB's default list for its ICU tokenizer joins the stop words of all languages and so drops English words such as
"die", "will" (also a testament) or "bin". Negations are kept, because "not" reverses a rule.
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
