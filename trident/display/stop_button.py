"""The button that stops a run, in a notebook. It needs the package ipywidgets."""

from collections.abc import Callable
from typing import Any

MISSING = 'no Stop button without ipywidgets (pip install "trident-pyspark[notebook]"); running.stop() stops the run'


class StopButton:
    """A button below a notebook's cell. Pressing it asks the run to stop, and returns at once.

    Parameters
    ----------
    widgets : the module ipywidgets.
    ask : asks the run to stop, and does not wait for it.
    """

    def __init__(self, widgets: Any, ask: Callable[[], None]) -> None:
        from IPython.display import display

        self._ask = ask
        self._button = widgets.Button(description="Stop", icon="stop", tooltip="Stop the topology in good order")
        self._button.on_click(self._pressed)
        # A cell that waits for the run (`awaitTermination`) keeps the kernel's main thread busy, so front ends send
        # presses to a second thread of the kernel, a subshell. But ipykernel 7.4 hands presses to the thread that last
        # sent something to the button. That is the main thread, unless the record of it is removed.
        vars(self._button.comm).pop("_reply_subshell_id", None)
        shown = {**self._button._repr_mimebundle_(), "text/plain": "running.stop() stops the topology"}
        self._handle: Any = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def _pressed(self, button: Any) -> None:
        # Shown at once: a commit under way is finished before the run ends.
        button.disabled, button.description = True, "Stopping"
        self._ask()

    def remove(self) -> None:
        """Remove the button, because the run has ended."""
        # Replaced first: a saved notebook must not refer to a button that does not exist when it is opened again.
        self._handle.update({"text/plain": "", "text/html": ""}, raw=True)
        self._button.close()


def stop_button(ask: Callable[[], None]) -> StopButton | None:
    """Show a button that calls `ask`; return None if ipywidgets is not installed."""
    try:
        import ipywidgets
    except ImportError:
        return None
    return StopButton(ipywidgets, ask)
