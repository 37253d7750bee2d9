"""A process that ends at a crash point, played by an exception in the test's process."""

from collections.abc import Callable

from trident.base import crash_points
from trident.errors import TridentError


class Killed(BaseException):
    """The process ends here."""


def killed(point: str, work: Callable[[], object]) -> None:
    """Do the work until it reaches the crash point, where the process ends. Fails if the work does not reach it."""

    def listen(reached: str) -> None:
        if reached == point:
            raise Killed

    crash_points.listen(listen)
    try:
        work()
    except Killed:
        return
    except TridentError as error:  # the point is in a thread of a run
        assert isinstance(error.__cause__, Killed)
        return
    finally:
        crash_points.listen(None)
    raise AssertionError(f"the work did not reach {point}")
