"""The ways to discard or restore the log and the states of a topology, as text for error messages."""


def reset_with(arguments: str | None = None) -> str:
    """Return the call and the command that discard log and states. `arguments` are those of the call, as text.

    >>> reset_with("'wc', checkpointLocation='wc.ckpt'")
    "topology.reset('wc', checkpointLocation='wc.ckpt') or the command trident reset"
    """
    call = "topology.reset" if arguments is None else f"topology.reset({arguments})"
    return f"{call} or the command trident reset"


RESET = reset_with("name, checkpointLocation")
"""The text for messages that do not know the name and the location of the topology."""

RESTORE = "Restore the state from a copy, or drop it (dropState)"
"""The advice of an error about damaged bytes in the store of a state."""
