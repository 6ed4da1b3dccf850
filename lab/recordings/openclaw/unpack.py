"""Unpack what OpenClaw compresses with zstd: single events, and whole transcripts. What is unpacked is bounded."""

from __future__ import annotations

# OpenClaw packs events of at most 4 MiB; a transcript holds many, and reading it takes some three times its size.
EVENT_LIMIT = 16 << 20
TRANSCRIPT_LIMIT = 256 << 20


class CannotUnpack(ValueError):
    """The bytes are no zstd frame, end too early, or hold more than they may."""


def unpack(data: bytes, limit: int) -> bytes:
    """Return the unpacked bytes. Raises :class:`CannotUnpack`, also where they are more than ``limit``."""
    import pyarrow as pa

    parts = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while part := stream.read(min(1 << 20, limit + 1 - len(parts))):
                parts += part
                if len(parts) > limit:
                    most = f"{limit >> 20} MiB" if limit % (1 << 20) == 0 else f"{limit} bytes"
                    raise CannotUnpack(f"holds more than {most}")
    except OSError as error:
        raise CannotUnpack(f"does not unpack ({str(error).rstrip('.')})") from None
    if data and not parts:
        raise CannotUnpack("does not unpack (nothing came out)")
    return bytes(parts)


def unpack_event(data: bytes, size: object) -> bytes:
    """Return an event that was packed from ``size`` bytes. Raises :class:`CannotUnpack` where the size is another."""
    if not isinstance(size, int) or not 1 <= size <= EVENT_LIMIT:
        raise CannotUnpack(f"has a size that cannot be: {size!r} bytes")
    found = unpack(data, size)
    if len(found) != size:
        raise CannotUnpack(f"unpacks to {len(found)} bytes instead of {size}")
    return found
