"""Judge in a browser: the judging screen (:class:`lab.cli.judge_desk.Desk`) as a page with buttons and the same keys.

Only a browser that came by the printed address may read or judge: the address holds a secret that becomes a cookie,
because everybody with an account on the machine can reach its loopback address.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hmac import compare_digest
from threading import RLock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from lab.base.errors import LabError
from lab.cli.judge_desk import BEFORE, CAPTURE_HELP, HELP, KEPT, LETTERS, NAMES, Desk, day
from lab.golden.judging import GRADES
from lab.golden.model import TYPES
from lab.view.app import Guard, static_routes
from lab.view.pages import environment

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

# Keys of the desk that a form or a script may press. Typed text comes as a field of its own.
KEYS = frozenset((*LETTERS, *GRADES, "N", "enter", "escape", "left", "right", "up", "down"))
MOST_FOUND = 50
# Bytes of a form.
MOST = 100_000


class JudgePage:
    """The page of a desk. Thread-safe: requests are handled one after another."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._lock = desk, RLock()

    def page(self, query: Mapping[str, str]) -> str:
        """Return the page of the turn that the address names, or of the current one, with the memories searched for."""
        with self._lock:
            if query.get("turn"):
                self._desk.go_to(query["turn"])
            return self._render(query.get("find", "").strip())

    def act(self, form: Mapping[str, str]) -> str:
        """Do what a form says and return the address of the page that shows the result.

        ``turn`` and ``memory`` name what the judge was looking at, so that an outdated page judges what it showed.
        ``key`` is a key of the desk; or ``note``, ``reason`` or ``add``, with the text in ``typed``.
        """
        with self._lock:
            desk = self._desk
            if form.get("turn") and form["turn"] != desk.turn.key:
                desk.go_to(form["turn"])
            key, memory = form.get("key", ""), form.get("memory", "")
            if desk.mode != "type":
                desk.mode = "list"
            if memory in desk.sheet.items:
                desk.cursor = desk.sheet.items.index(memory)
            if key in ("note", "reason"):
                self._enter("n" if key == "note" else "N", form.get("typed", ""))
            elif key == "add":
                self._add(memory)
            elif key in KEYS:
                desk.press(key)
            return f"/?turn={quote(desk.turn.key, safe='')}"

    def _enter(self, key: str, text: str) -> None:
        desk = self._desk
        desk.mode = "list"
        desk.press(key)
        if desk.mode in ("note", "reason"):
            desk.typed = " ".join(text.split())
            desk.press("enter")

    def _add(self, memory: str) -> None:
        desk = self._desk
        places = [place for place, other in enumerate(desk.visible) if other.key == memory]
        desk.mode = "list"
        desk.press("/")
        if places and desk.mode == "search":
            desk.cursor = places[0]
            desk.press("enter")

    def _render(self, find: str) -> str:
        desk = self._desk
        sheet, turn, recording = desk.sheet, desk.turn, desk.recording
        known = {memory.key: memory for memory in recording.memories}
        found = []
        if find and not desk.captures:
            words = find.casefold().split()
            found = [memory for memory in desk.visible if all(word in memory.text.casefold() for word in words)]
        items = [
            {
                "memory": known[key],
                "about": desk.about(known[key]),
                "mark": sheet.marks.get(key),
                "note": sheet.notes.get(key, ""),
                "is_here": place == desk.cursor,
                "is_foreign": known[key].scope not in (turn.scope, "global"),
            }
            for place, key in enumerate(sheet.items)
        ]
        model: dict[str, Any] = {
            "turn": turn,
            "sheet": sheet,
            "items": items,
            "said": recording.turns[max(0, turn.seq - BEFORE) : turn.seq + 1],
            "day": day(turn.time_ms),
            "progress": desk.judging.progress(),
            "out": desk.judging.out,
            "position": desk.position + 1,
            "message": desk.message,
            "grades": KEPT if desk.captures else NAMES,
            "types": [(letter, name, TYPES[name]) for letter, name in zip(LETTERS, desk.types, strict=False)]
            if desk.mode == "type"
            else [],
            "captures": desk.captures,
            "help": (CAPTURE_HELP if desk.captures else HELP).strip(),
            "find": find,
            "found": [memory for memory in found if memory.key not in sheet.items][:MOST_FOUND],
            "matches": len(found),
        }
        return environment().get_template("judge.html.j2").render(model)


def make_app(page: JudgePage, port: int, secret: str) -> ASGIApp:
    """Return the application that serves the page on ``127.0.0.1:port`` to clients that know the secret."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
    from starlette.routing import Route

    cookie = f"lab-judge-{port}"

    def is_known(request: Request) -> bool:
        return compare_digest(request.cookies.get(cookie, "").encode(), secret.encode())

    def refused() -> Response:
        return PlainTextResponse("Use the address that lab golden judge printed.\n", 403)

    def html(text: str) -> Response:
        # Without a referrer at all, a browser would send a form with the origin "null".
        return HTMLResponse(text.encode("utf-8", "replace"), headers={"referrer-policy": "same-origin"})

    def show(request: Request) -> Response:
        if compare_digest(request.query_params.get("key", "").encode(), secret.encode()):
            # Without the secret in the address, which a judge may copy to show a turn.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, secret, httponly=True, samesite="strict")
            return answer
        return html(page.page(request.query_params)) if is_known(request) else refused()

    async def press(request: Request) -> Response:
        origin = request.headers.get("origin")
        if not is_known(request) or origin != f"http://{request.headers['host']}":
            return refused()
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST:
                return PlainTextResponse("Too long.\n", 413)
        form = {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        return RedirectResponse(page.act(form), 303)

    def failed(_: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", 500)

    def not_saved(_: Request, error: Exception) -> Response:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        return PlainTextResponse(f"The decision is not saved: {reason}. The next one saves both.\n", 500)

    app = Starlette(
        routes=[
            Route("/", show),
            Route("/press", press, methods=["POST"]),
            *static_routes("view.css", "judge.js"),
        ],
        exception_handlers={LabError: failed, OSError: not_saved},
    )
    return Guard(app, port, ("GET", "HEAD", "POST"))


def new_secret() -> str:
    """Return a secret for an address."""
    return secrets.token_urlsafe(24)
