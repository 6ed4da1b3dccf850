"""Patterns of what a host puts before or after a person's words, or among several messages (OC-H1, OC-H4)."""

from __future__ import annotations

import re

END_OF_LINE = r"[ \t]*(?=\n|\Z)"
CURRENT = "[Current message - respond to this]"
_MESSAGE_ID = r"\[(?:[A-Za-z]{1,20} )?(?:message|event|thread)[ _]id: [^\[\]\n]{1,300}\]"
_ATTACHED = (
    r"\[(?:media attached(?: \d+/\d+)?|media unavailable|Slack files?|Mattermost files?|attached|Attachment|Image|Video"
    r"|Audio|Sticker|File|GIF|Document|Voice note|matrix|Recent image|Forwarded image|image attachment|Image attachment"
    r"|User sent media without caption|Gateway offloaded)(?:(?:: |, | )[^\n]{0,2000})?\](?: \([^()\n]{1,60}\))?"
)
_DELIVERY = r"Delivery: (?:to send a message|Final assistant text|No visible reply)\b[^\n]*"
_HINT = r"To send an image back, (?:prefer|use) the message tool\b[^\n]*"
# Pieces of one line. Whether a piece shows that a person sent the message is the third value.
LEADING: tuple[tuple[str, re.Pattern[str], bool], ...] = tuple(
    (kind, re.compile(pattern), sender)
    for kind, pattern, sender in (
        (
            "note on an attachment",
            rf"\[media attached(?: \d+/\d+)?: [^\[\]\n]{{1,2000}}\]|{_ATTACHED}{END_OF_LINE}",
            True,
        ),
        ("note on an attachment", r"<media:[\w-]{1,30}>(?: \(\d+ [a-z ]{1,40}\))?", True),
        ("note on an attachment", rf"<contacts?(?:: [^<>\n]{{1,300}})?>{END_OF_LINE}", True),
        ("note on an attachment", _HINT, True),
        ("note on an attachment", r"\[Voice(?: message| \d+)\][ \t]+", True),
        ("message id", _MESSAGE_ID + END_OF_LINE, True),
        ("group history", re.escape(CURRENT) + END_OF_LINE, True),
        ("reply or quote", r"Current message:[ \t]*\n(?=\[Replying to|#)", True),
        ("forward", rf"\[Forwarded (?:from|message from) [^\[\]\n]{{1,300}}\]{END_OF_LINE}", True),
        ("forward", rf"\[Forwarded message\]{END_OF_LINE}", True),
        ("mark of the queue", r"\[Queued user message that arrived while the previous turn was still active\]", False),
        ("mark of the queue", r"Queued #\d+ context:[ \t]*\n", False),
        ("note of the host", r"\[Retry after the previous model attempt failed or timed out\]", False),
        ("note of the host", rf"\[Working directory: [^\[\]\n]{{1,400}}\]{END_OF_LINE}", False),
        ("note of the host", r"\[(?:ui-context|proposal-resolved)\][^\n]*", False),
        ("note of the host", r"Note: The previous agent run was aborted by the user\.[^\n]*", False),
        ("note of the host", r"User note for this reset turn \([^()\n]{1,120}\):[ \t]*\n", False),
        ("note of the host", _DELIVERY, False),
        ("note of the host", r"Active goal: [^\n]{0,400} \u2014 advance; keep active until [^\n]*", False),
    )
)
TRAILING: tuple[tuple[str, re.Pattern[str], bool], ...] = tuple(
    (kind, re.compile(pattern), sender)
    for kind, pattern, sender in (
        ("message id", _MESSAGE_ID, True),
        ("sender", r"\[from: (?P<sender>[^\[\]\n]{1,200})\]", True),
        ("note on an attachment", _ATTACHED, True),
        ("note on an attachment", r"<media:[\w-]{1,30}>(?: \(\d+ [a-z ]{1,40}\))?", True),
        ("note on an attachment", _HINT, True),
        ("note of the host", r"\[Forum parent: #[^\[\]\n]{1,200}\]", False),
        ("note of the host", _DELIVERY, False),
        (
            "note of the host",
            r"\[System: (?:Your reply will|The content may include|If user_id is|The bot encountered)\b[^\n]*\]",
            False,
        ),
    )
)
# What models made of media, beside what a person wrote and said; and messages that the host collected.
SECTION = re.compile(
    r"^(?:\[(?:Audio|Image|Video)(?: \d+/\d+)?\]\n)?(User text|Transcript|Description):\n", re.MULTILINE
)
SECTIONS_BEGIN = re.compile(
    r"\[(?:Audio|Image|Video)(?: \d+/\d+)?\]\n(?:User text|Transcript|Description):\n"
    r"|User text:\n[^\n]{0,4000}\n(?:[^\n]{1,4000}\n){0,20}\n?\[(?:Audio|Image|Video)(?: \d+/\d+)?\]\n"
)
TRANSCRIPT = re.compile(r'\[Audio transcript \(machine-generated, untrusted\)\]:[ \t]*("(?:[^"\\\n]|\\.)*")')
QUEUED = re.compile(r"\[Queued (?:announce )?messages while agent was busy\][ \t]*(?:\n|\Z)")
QUEUE_ITEM = re.compile(r"^---\nQueued #\d+([^\n]*)(?:\n|\Z)", re.MULTILINE)
OVERFLOW = re.compile(r"\[Queue overflow\] Dropped \d+ [^\n]{0,80}(?:\nSummary:(?:\n- [^\n]*)*)?")
