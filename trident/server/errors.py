"""Errors in the form in which a client gets them: a status, the error's type and message, and no traceback."""

from trident.base import errors


class RequestError(errors.TridentError):
    """A request cannot be answered. `status` is the HTTP status of the answer."""

    def __init__(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers or {}


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.DRPCNotFoundError, 404),
    (errors.StateKeyNotFoundError, 404),
    (errors.StateEndedError, 410),
    (errors.TxidNotKeptError, 404),
    (errors.TagNotFoundError, 404),
    (errors.TagExistsError, 409),
    (errors.DRPCArgumentError, 400),
    (errors.StateKeyError, 400),
    (errors.DRPCTimeoutError, 504),
    (errors.StateNotFoundError, 404),
    (errors.SqlTimeoutError, 504),
    (errors.SqlLimitError, 413),
    (errors.SqlError, 400),
    (errors.MissingPackageError, 501),
    (errors.SnapshotMovedError, 503),
    (errors.StateRecoveringError, 503),
    (errors.StateUnavailableError, 503),
    (errors.StateClosedError, 503),
    (errors.FencedError, 503),
    (errors.LogError, 503),
    (errors.UserFunctionError, 500),
)


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error: 4xx if the request is wrong, 503 if a retry may help, 500 otherwise.

    >>> status_of(errors.DRPCArgumentError("...")), status_of(errors.StateRecoveringError("...")), status_of(KeyError())
    (400, 503, 500)
    """
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def body_of(error: Exception, limited: bool = False, number: str = "") -> dict[str, dict[str, str]]:
    """Return the body of an error answer. It has the message of this library's errors, but not of any other error.

    `limited`: the client has limited rights, so it must not get messages about the server itself, with paths, lines and
    addresses. `number`: the number under which the server's log has the error.
    """
    log = f"; the server's log has the reason, under the number {number}" if number else ""
    if isinstance(error, RequestError):
        return {"error": {"type": error.kind, "message": str(error)}}
    if isinstance(error, errors.TridentError):
        hidden = limited and status_of(error) >= 500
        message = f"the server could not answer{log or '; try again'}" if hidden else str(error)
        return {"error": {"type": type(error).__name__, "message": message}}
    # The text of an unknown error may contain anything, such as values or paths.
    return {"error": {"type": "InternalError", "message": f"the server failed{log}"}}
