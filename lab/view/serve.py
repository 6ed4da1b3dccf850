"""The one place that opens a port: loopback only, until it is interrupted."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from lab.errors import CannotMeasure, UnusableInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
# Seconds that an answer under way is given when the server is ended.
GRACE = 2


def listen(port: int) -> socket.socket:
    """A socket that listens on the loopback address; port 0 is any that is free.

    :class:`UnusableInput` where another program has it, or it may not be opened.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            # A port that was closed a moment ago can be opened again; elsewhere the option means to share it.
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((LOOPBACK, port))
        found.listen(128)
    except OSError as error:
        found.close()
        why = (error.strerror or str(error)).lower()
        raise UnusableInput(
            f"port {port} cannot be opened ({why}); --port names another, --port 0 any free one"
        ) from None
    return found


def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Answer until interrupted, and until what was under way has ended.

    The interrupt may come back as a :class:`KeyboardInterrupt`, or be spent by then: that depends on whether the loop
    was waiting when it came.
    """
    import uvicorn

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[sock])
    if not server.started:
        raise CannotMeasure("the server could not be started")
