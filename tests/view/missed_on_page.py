"""What a page of a turn says of the relevant memories that an arm did not inject."""

from __future__ import annotations

import re
from html import unescape


def missed_on_page(page: str, arm: str) -> dict[str, tuple[str, str]]:
    """Return the cause and the reason that a page gives by memory, for memories that have a cause."""
    side = page.partition(f'aria-label="{arm}"')[2].partition("</section>")[0]
    shown = {}
    for item in side.partition("Relevant, not injected")[2].partition("</ul>")[0].split("<li>")[1:]:
        key = re.search(r'<bdi class="key">(.*?)</bdi>', item)
        cause, reason = re.search(r'cause">(.*?)<', item), re.search(r'why"><bdi>(.*?)</bdi>', item)
        assert key
        if cause:
            assert reason
            shown[unescape(key[1])] = (cause[1], unescape(reason[1]))
    return shown
