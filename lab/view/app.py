"""The web application: routes, access control and security headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from lab.errors import LabError
from lab.report.figures import TIERS
from lab.view.pages import NotFound, Viewer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD")
# Load only our own style and script, forbid framing, and send no referrer.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
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

    static = {name: _static(name) for name in ("view.css", "view.js")}
    app = Starlette(
        routes=[
            Route("/", page(viewer.conversations)),
            Route("/turns", page(viewer.turns)),
            Route("/turn", page(viewer.turn)),
            *(Route(f"/{name}", lambda _, answer=answer: answer) for name, answer in static.items()),
        ],
        exception_handlers={
            NotFound: error_page("Not found", 404),
            LabError: error_page("This page cannot be shown", 500),
            HTTPException: unknown_page,
        },
    )
    return Guard(app, port)


class Guard:
    """ASGI middleware that accepts only GET and HEAD for a local host name, and adds :data:`HEADERS`.

    The check of the host name prevents DNS rebinding: a foreign page can point its own name at this machine, but its
    requests carry that name.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
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
                headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        hosts = [value for name, value in scope["headers"] if name == b"host"]
        app: ASGIApp = self._app
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            app = PlainTextResponse("Use the address that lab view printed.\n", 421)
        elif scope["method"] not in METHODS:
            app = PlainTextResponse("These pages are read-only.\n", 405, {"allow": ", ".join(METHODS)})
        await app(scope, receive, guarded)


def _html(text: str, status: int = 200) -> Response:
    # A recording may contain lone surrogates, which become question marks.
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def _static(name: str) -> Response:
    content = files("lab.view").joinpath("static", name).read_text("utf-8")
    if name.endswith(".js"):
        return Response(content, media_type="text/javascript")
    chips = "".join(f".tier-{tier} {{ border-left-color: {colour}; }}\n" for tier, colour in TIERS.items())
    return Response(content + chips, media_type="text/css")
