"""The web application: routes, access control and security headers; no other module opens a port."""

from __future__ import annotations

import os
import re
import socket
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.regex import regex
from lab.report.charts import TIERS
from lab.view.address import NotFound
from lab.view.pages import Viewer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD")
NONE = "'none'"
SCRIPT = regex(r"<script>(.*?)</script>", re.DOTALL)
# Load only our own style and script, forbid framing, and send no referrer.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def make_app(viewer: Viewer, port: int) -> ASGIApp:
    """Return the application that serves a viewer's pages on ``127.0.0.1:port`` and ``localhost:port``."""

    def page(render: Callable[[Mapping[str, str]], str]) -> Callable[[Request], Response]:
        # Not a coroutine: Starlette runs it in a thread and serves other requests meanwhile.
        def answer(request: Request) -> Response:
            return _html(render(request.query_params))

        return answer

    def error_page(title: str, status: int) -> Callable[[Request, Exception], Response]:
        def answer(_: Request, error: Exception) -> Response:
            return _html(viewer.problem(title, str(error)), status)

        return answer

    def unknown_page(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return _html(viewer.problem("No such page", f"There is nothing at {request.url.path}"), status)

    def rows(render: Callable[..., str]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            return _html(render(request.query_params, rows_only=True))

        return answer

    lists = {"conversations": viewer.conversations, "probes": viewer.probes, "turns": viewer.turns}
    app = Starlette(
        routes=[
            Route("/", page(viewer.home)),
            *(Route(f"/{name}", page(render)) for name, render in lists.items()),
            *(Route(f"/rows/{name}", rows(render)) for name, render in lists.items()),
            Route("/turn", page(viewer.turn)),
            Route("/compare", page(viewer.compare)),
            Route("/version", lambda _: JSONResponse(viewer.version())),
            Route("/report", lambda _: _report(viewer)),
            *static_routes("view.css", "view.js"),
        ],
        exception_handlers={
            NotFound: error_page("Not found", 404),
            LabError: error_page("This page cannot be shown", 500),
            HTTPException: unknown_page,
        },
    )
    return Guard(app, port)


def static_routes(*names: str) -> list[Route]:
    """Return the routes of our own style and scripts."""
    answers = {name: _static(name) for name in names}
    return [Route(f"/{name}", lambda _, answer=answer: answer) for name, answer in answers.items()]


class Guard:
    """ASGI middleware that accepts only some methods for a local host name, and adds :data:`HEADERS`.

    The check of the host name prevents DNS rebinding: a foreign page can point its own name at this machine, but its
    requests carry that name.
    """

    def __init__(self, app: ASGIApp, port: int, methods: tuple[str, ...] = METHODS) -> None:
        self._app, self._methods = app, methods
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}".encode() for name in names} | (
            {name.encode() for name in names} if port == 80 else set()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", ())
                known = {name.lower() for name, _ in given}
                headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*given, *(header for header in headers if header[0] not in known)]
            await send(message)

        hosts = [value for name, value in scope["headers"] if name == b"host"]
        app: ASGIApp = self._app
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            app = PlainTextResponse("Use the address that lab view printed.\n", 421)
        elif scope["method"] not in self._methods:
            app = PlainTextResponse("These pages are read-only.\n", 405, {"allow": ", ".join(self._methods)})
        await app(scope, receive, guarded)


def _report(viewer: Viewer) -> Response:
    """Return the report of the first run, whose inlined scripts alone may run.

    A report with texts is shown only where the viewer may show them.
    """
    content = viewer.report()
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in SCRIPT.findall(content))
    policy = (
        f"default-src 'none'; script-src {hashes or NONE}; style-src 'unsafe-inline'; img-src data:; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(content, headers={"content-security-policy": policy})


def _sha256(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _html(text: str, status: int = 200) -> Response:
    # A recording may contain lone surrogates, which become question marks.
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def _static(name: str) -> Response:
    content = files("lab.view").joinpath("static", name).read_text("utf-8")
    if name.endswith(".js"):
        return Response(content, media_type="text/javascript")
    chips = "".join(f".tier-{tier} {{ border-left-color: {colour}; }}\n" for tier, colour in TIERS.items())
    return Response(content + chips, media_type="text/css")


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
