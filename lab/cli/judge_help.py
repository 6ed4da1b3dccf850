"""What the grades of the judging screen and page are called, and the help of both."""

from __future__ import annotations

from lab.golden.judging import FORBIDDEN

NAMES = {"0": "no", "1": "helps", "2": "needed", FORBIDDEN: "forbidden"}
KEPT = {"0": "do not keep", "1": "useful", "2": "keep", FORBIDDEN: "never store"}
CAPTURE_HELP = """
Which of these lines of the turn should an assistant remember?

0  no: small talk, a question, a quotation, output of a tool, already said
1  useful       2  keep: the assistant does harm without it, or must ask again
f  never store: a password, a key, a token
n  note on the selected line            N  note on the turn
r  grade the rest 0                     x  nothing to keep: grade all 0
Enter  finish this turn                 s  skip this turn
u  undo the last decision               up down, j k  move in the list
left right  another turn                PgUp PgDn  scroll the conversation
space  page through a long line
q  quit; run the command again to continue

Every decision is saved at once.
"""
HELP = """
0  not relevant    1  helps    2  needed: wrong or unsafe without it
f  forbidden: it would mislead (superseded, similar, of another project)
n  note on the selected memory          N  note on what the turn needs
/  search all memories visible at the turn; Enter adds one to the list
r  grade the rest 0                     x  the turn needs nothing: grade all 0
Enter  finish this turn; memories without a grade stay unjudged
s  skip this turn                       u  undo the last decision
up down, j k  move in the list          left right  another turn
space  page through a long memory       PgUp PgDn  scroll the conversation
q  quit; run the command again to continue

Every decision is saved at once. Judge as a demanding user would: usually 0 to
4 memories are relevant. A superseded memory never is. A memory of the same
session is relevant only if the agent could have lost it. A star marks a memory
with a note.
"""
