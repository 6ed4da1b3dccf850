"""Addresses of endpoints: which may be used, and which keep keys and texts private.

They are judged where nothing is sent, so that this imports no client.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from lab.base.errors import UnusableInput

KEY = "LAB_EMBEDDER_KEY"


def base_url(address: str, what: str) -> str:
    """Return the base URL of an API, reduced to scheme, host, port and path. Raises :class:`UnusableInput`."""
    try:
        parts: SplitResult = urlsplit(address)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise UnusableInput(f"{what}: the address after '@' is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise UnusableInput(f"{what}: the address after '@' must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise UnusableInput(
            f"{what}: the URL contains a user name or password; put the key into {KEY}, which is never stored"
        )
    if parts.fragment or "#" in address:
        raise UnusableInput(f"{what}: the URL has a part after '#'; leave it out")
    if not host or not host.isascii() or not re.fullmatch(r"[!-~]*", parts.path):
        raise UnusableInput(f"{what}: the URL has no host, or invalid characters")
    host_part = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/embeddings").rstrip("/")
    return f"{parts.scheme}://{host_part}{f':{port}' if port else ''}{path}"


def stays_private(url: str) -> bool:
    """Return whether keys and texts sent to an address stay private: over TLS, or within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
