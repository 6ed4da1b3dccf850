"""Open a port on the loopback address and serve the application. No other module opens a port."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from lab.base.errors import CannotMeasure, UnusableInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
# Seconds that responses in progress are given when the server stops.
GRACE = 2


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address; 0 means any free port.

    Raises :class:`UnusableInput` if the port is in use or not permitted.
    """
    # With the protocol named, asyncio sends each answer at once instead of waiting for the one before to be confirmed.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            # Allows a port that was closed just before. On Windows the option would allow sharing the port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        reason = (error.strerror or str(error)).lower()
        raise UnusableInput(
            f"port {port} cannot be opened ({reason}); choose another --port, or --port 0 for any free one"
        ) from None
    return sock


def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Serve until interrupted, then finish the responses in progress.

    Depending on when the interrupt arrives, uvicorn raises :class:`KeyboardInterrupt` again or returns.
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
