"""A test whether an error comes from a service that did not answer, so that a retry may succeed."""

from trident.base.errors import TridentError, UserFunctionError

_AWAY = ("ConnectionError", "TimeoutError")
"""The class names of errors of a service that does not answer. Clients of services define their own classes with
these names."""


def is_away(error: BaseException) -> bool:
    """Return whether a user's function failed because a service did not answer.

    >>> is_away(UserFunctionError("f raised ValueError")), is_away(ConnectionError("of no function"))
    (False, False)
    """
    if not isinstance(error, UserFunctionError):
        return False
    cause = error.__cause__
    while cause is not None:
        if not isinstance(cause, TridentError) and any(kind.__name__ in _AWAY for kind in type(cause).__mro__):
            return True
        cause = cause.__cause__
    return error.away
