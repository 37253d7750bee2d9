"""The method by which a user's spout distinguishes an empty source from a source whose rows will come later."""

from typing import Any

from trident.base.errors import SpoutContractError
from trident.base.short_texts import typed_brief
from trident_spouts.user_calls import call


class MayWait:
    """The base of all contracts for users' spouts: its method distinguishes an empty source from a slow source."""

    def waitsFor(self) -> str | None:
        """Return the reason why the last call could not return rows yet; None if the source is empty.

        Called after a call that returned no rows. A run with ``availableNow`` or ``processAllAvailable`` ends only if
        the source is empty. If it has not answered yet, or a limit is reached, return a short text about that, such as
        "the export is being made"; the run then calls again, and shows the text in its status. If the source is out of
        reach, raise an error in the call itself.
        """
        return None


def waits_of(spout: Any) -> str | None:
    """Return why a user's spout waits.

    Raises SpoutContractError if its `waitsFor` returns anything but None or a text.
    """
    if not callable(getattr(spout, "waitsFor", None)):  # a class with the contract's methods but not its base class
        return None
    reason = call(spout, "waitsFor")
    if reason is None or (isinstance(reason, str) and reason):
        return reason
    raise SpoutContractError(
        f"{type(spout).__name__}.waitsFor returned {typed_brief(reason)}: expected None if the source is empty, or a "
        f"text that says why the spout does not emit its rows yet"
    )
