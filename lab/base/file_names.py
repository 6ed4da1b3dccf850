"""File names of ids from outside, on every file system: one rule for receipts, conversions and nightly runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from lab.base.files import digest

# Bytes of a file name before its ending; most file systems allow 255 in all.
MAX_NAME = 180
# Names of devices of Windows, with any ending.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*", re.IGNORECASE)


def file_name(identity: str) -> str:
    """Return an id, such as that of a conversation, as a file name without ending.

    Letters and digits of any script, blanks, ``-`` and ``_`` stay; all else is percent-escaped, so that two ids never
    share a name, and so is the first letter of a device of Windows. A name too long for a file system is cut and ends
    in a hash of the id.
    """
    name = "".join(
        character
        if character.isalnum() or character in " -_"
        else quote(character.encode("utf-8", "surrogatepass"), safe="")
        for character in identity
    ).replace(".", "%2E")
    if len(name.encode()) > MAX_NAME:
        name = f"{name[:40]}-{digest(identity)[:24]}"
    elif _DEVICE.fullmatch(identity):
        name = f"%{ord(identity[0]):02X}{name[1:]}"
    return name.replace(" ", "%20") if name.strip(" ") != name else name


def file_names(identities: Iterable[str]) -> dict[str, str]:
    """Return a file name for each id, also for file systems that ignore case; ids that share one get a number."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for identity in identities:
        plain = name = file_name(identity)
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.casefold())
        names[identity] = name
    return names
