"""Errors of other programs, such as Spark or a user's module, as one line without secrets."""

from trident.base.errors import TridentError
from trident.base.redis_address import redacted


def said(error: Exception) -> str:
    """Return an error's message, or the last line of a traceback in it, preceded by the class of a foreign error.

    >>> said(RuntimeError("no master at redis://me:secret@host"))
    'RuntimeError: no master at redis://me:***@host'
    """
    text = str(error).strip()
    if not isinstance(error, TridentError):
        text = text.splitlines()[-1] if "Traceback" in text else text.partition("\n")[0]
    words = " ".join(redacted(word) for word in text.split())[:500]
    return words if isinstance(error, TridentError) else f"{type(error).__name__}: {words}"
