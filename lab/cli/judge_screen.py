"""The judge's desk on a terminal: keys come in, the screen goes out. prompt_toolkit knows the terminals."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lab.cli.judge_desk import Desk

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

# Names of prompt_toolkit, and ours.
NAMED = {
    **{name: name for name in ("up", "down", "left", "right", "pageup", "pagedown", "escape")},
    "c-m": "enter",
    "c-j": "enter",
    "c-h": "backspace",
}
# Seconds after which an Esc that nothing followed is one.
ESC_WAIT = 0.1


def judge(desk: Desk, keyboard: Input | None = None, screen: Output | None = None) -> None:
    """Let a judge work at the desk until the judge leaves: with q, Ctrl-C, or a terminal that is closed.

    What the desk raises, a disk that is full for instance, ends it and is raised again on a terminal that is restored.
    """
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.keys import Keys
    from prompt_toolkit.layout import FormattedTextControl, Layout, Window

    bindings = KeyBindings()

    def press(event: KeyPressEvent, key: str) -> None:
        try:
            desk.press(key)
        except Exception as error:  # an event loop would print it over the screen, and go on
            event.app.exit(exception=error)
            return
        if desk.ended:
            event.app.exit()

    def bind(name: str, key: str) -> None:
        bindings.add(name, eager=name != "escape")(lambda event: press(event, key))

    for name, key in NAMED.items():
        bind(name, key)

    @bindings.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        press(event, event.data)

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        press(event, f"text:{event.data}")

    @bindings.add("c-c", eager=True)
    @bindings.add("c-d", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit()

    def lines() -> StyleAndTextTuples:
        size = app.output.get_size()
        return [(style, f"{text}\n") for style, text in desk.lines(size.columns, size.rows)]

    app: Application[Any] = Application(
        Layout(Window(FormattedTextControl(lines, focusable=True, show_cursor=False), always_hide_cursor=True)),
        key_bindings=bindings,
        full_screen=True,
        input=keyboard,
        output=screen,
    )
    app.ttimeoutlen = ESC_WAIT
    app.timeoutlen = ESC_WAIT
    with suppress(EOFError):
        app.run()
