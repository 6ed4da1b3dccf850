"""The application: addresses, what may be asked of them and by whom, and what a browser may do with an answer."""

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
from lab.view.pages import NotThere, Viewer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD")
# Nothing but what lies beside the page, no script but the one file; nobody may frame it, nor learn where a link led.
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
    """The pages of a viewer, for whoever asks ``127.0.0.1:port`` or ``localhost:port`` by that name."""

    def page(of: Callable[[Mapping[str, str]], str]) -> Callable[[Request], Response]:
        # Not a coroutine, so that a thread does the work and others are served meanwhile.
        def answer(request: Request) -> Response:
            return _html(of(request.query_params))

        return answer

    def wrong(title: str, status: int) -> Callable[[Request, Exception], Response]:
        def answer(_: Request, error: Exception) -> Response:
            return _html(viewer.problem(title, str(error)), status)

        return answer

    def unknown(request: Request, error: Exception) -> Response:
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
            NotThere: wrong("Nothing to show here", 404),
            LabError: wrong("This cannot be shown", 500),
            HTTPException: unknown,
        },
    )
    return Guard(app, port)


class Guard:
    """Stands before the application: reads only, by our own name only, and every answer with :data:`HEADERS`.

    A page from elsewhere may point a name of its own at this machine (DNS rebinding); it still has to send that name.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}".encode() for name in names} | (
            {name.encode() for name in names} if port == 80 else set()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        hosts = [value for name, value in scope["headers"] if name == b"host"]
        app: ASGIApp = self._app
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            app = PlainTextResponse("This page answers to its own address alone.\n", 421)
        elif scope["method"] not in METHODS:
            app = PlainTextResponse("This page is for reading.\n", 405, {"allow": ", ".join(METHODS)})
        await app(scope, receive, guarded)


def _html(text: str, status: int = 200) -> Response:
    # Half a character, which a text of a recording may hold, becomes a question mark.
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def _static(name: str) -> Response:
    content = files("lab.view").joinpath("static", name).read_text("utf-8")
    if name.endswith(".js"):
        return Response(content, media_type="text/javascript")
    chips = "".join(f".tier-{tier} {{ border-left-color: {colour}; }}\n" for tier, colour in TIERS.items())
    return Response(content + chips, media_type="text/css")
