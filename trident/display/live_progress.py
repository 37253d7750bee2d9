"""The progress of a run in a notebook's cell: a button that stops it, bars, and a table that stays up to date."""

import html
from typing import Any, Protocol

from trident.display.display import Watched, html_of, status_of, text_of
from trident.display.live_output import LiveOutput, MimeTexts, in_notebook
from trident.display.stop_button import MISSING, stop_button
from trident.picture.draw import as_html


class Stoppable(Watched, Protocol):
    """A running topology, as a display with a button sees it."""

    def stop_soon(self) -> None: ...


def show_progress(running: Stoppable, every: float) -> LiveOutput:
    """Show the progress of a run until it ends, in a notebook with a button that stops it."""
    button, note = None, ""
    if in_notebook() and running.isActive:
        button = stop_button(running.stop_soon)
        note = "" if button else f"<div><i>{html.escape(MISSING)}</i></div>"

    def render() -> MimeTexts:
        shown = html_of(running) + (note if running.isActive else "")
        return {"text/plain": text_of(running), "text/html": shown}

    return LiveOutput(
        lambda: running.isActive,
        lambda: _mark(running),
        render,
        every,
        ended=button.remove if button else lambda: None,
    )


def show_run(running: Stoppable, picture: str) -> None:
    """Show a run that is the value of a cell: its progress, kept up to date, and the picture (SVG) of its topology."""
    if not in_notebook():
        print(repr(running))
        return
    from IPython.display import display

    show_progress(running, every=0.5)
    texts = {"text/plain": running.name, "text/html": as_html(picture), "image/svg+xml": picture}
    display(texts, raw=True)  # type: ignore[no-untyped-call]


def _mark(running: Watched) -> tuple[Any, ...]:
    """Return a value that changes whenever the display has to be updated."""
    events, lines = running.recentProgress, list(running.debugOutput)
    newest = [(event["group"], event["txid"], event["attempt"], event["timestamp"]) for event in events[-1:]]
    return (*newest, len(lines), *lines[-1:], status_of(running), *running.readSoFar.items())
