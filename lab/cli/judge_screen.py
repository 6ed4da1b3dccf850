"""Connect the judging screen (:class:`lab.cli.judge_desk.Desk`) to a terminal with prompt_toolkit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lab.cli.judge_desk import Desk

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

# prompt_toolkit's names of keys, and those of Desk.press.
KEY_NAMES = {
    **{name: name for name in ("up", "down", "left", "right", "pageup", "pagedown", "escape")},
    "c-m": "enter",
    "c-j": "enter",
    "c-h": "backspace",
}
# Seconds without further input after which Esc counts as a key, not as the start of an escape sequence.
ESC_WAIT = 0.1


def judge(desk: Desk, keyboard: Input | None = None, screen: Output | None = None) -> None:
    """Run the judging screen until the judge quits with q or Ctrl-C, or the terminal is closed.

    An exception of the desk, such as a full disk, ends the screen and is raised again after the terminal is restored.
    """
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.keys import Keys
    from prompt_toolkit.layout import FormattedTextControl, Layout, Window

    bindings = KeyBindings()

    def press(event: KeyPressEvent, key: str) -> None:
        try:
            desk.press(key)
        except Exception as error:  # the event loop would print it over the screen and continue
            event.app.exit(exception=error)
            return
        if desk.ended:
            event.app.exit()

    def bind(name: str, key: str) -> None:
        bindings.add(name, eager=name != "escape")(lambda event: press(event, key))

    for name, key in KEY_NAMES.items():
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
