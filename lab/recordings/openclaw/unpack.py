"""Decompress the zstd data of OpenClaw (single events and transcripts), with limits on the size of the result."""

from __future__ import annotations

# OpenClaw compresses events of at most 4 MiB. Reading a transcript takes about three times its size in memory.
EVENT_LIMIT = 16 << 20
TRANSCRIPT_LIMIT = 256 << 20


class CannotUnpack(ValueError):
    """The data is not a zstd frame, is truncated, or exceeds the size limit."""


def unpack(data: bytes, limit: int) -> bytes:
    """Return the decompressed data. Raises :class:`CannotUnpack`, also for more than ``limit`` bytes."""
    import pyarrow as pa

    parts = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while part := stream.read(min(1 << 20, limit + 1 - len(parts))):
                parts += part
                if len(parts) > limit:
                    most = f"{limit >> 20} MiB" if limit % (1 << 20) == 0 else f"{limit} bytes"
                    raise CannotUnpack(f"decompresses to more than {most}")
    except OSError as error:
        raise CannotUnpack(f"cannot be decompressed ({str(error).rstrip('.')})") from None
    if data and not parts:
        raise CannotUnpack("cannot be decompressed (no output)")
    return bytes(parts)


def unpack_event(data: bytes, size: object) -> bytes:
    """Return the decompressed event. Raises :class:`CannotUnpack` if it does not have exactly ``size`` bytes."""
    if not isinstance(size, int) or not 1 <= size <= EVENT_LIMIT:
        raise CannotUnpack(f"has an invalid size: {size!r} bytes")
    content = unpack(data, size)
    if len(content) != size:
        raise CannotUnpack(f"decompresses to {len(content)} bytes instead of {size}")
    return content
