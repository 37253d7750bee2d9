"""The error for an option that a spout does not have, with the option that was meant."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trident.base.errors import ArgumentsError
from trident.base.names import did_you_mean

_Init = TypeVar("_Init", bound=Callable[..., None])


def known_options(elsewhere: Mapping[str, str]) -> Callable[[_Init], _Init]:
    """Return a decorator of a spout's ``__init__``: an unknown option is an ArgumentsError that names the one meant.

    `elsewhere` maps Spark's names of options to those of the spout.
    """

    def decorate(init: _Init) -> _Init:
        known = list(inspect.signature(init).parameters)[1:]

        @functools.wraps(init)
        def checked(self: Any, *args: Any, **options: Any) -> None:
            __tracebackhide__ = True
            for name in options:
                if name not in known:
                    meant = f"; did you mean {elsewhere[name]!r}?" if name in elsewhere else did_you_mean(name, known)
                    raise ArgumentsError(
                        f"{type(self).__name__}: there is no option {name!r}; it takes {', '.join(known)}{meant}"
                    )
            init(self, *args, **options)

        return checked  # type: ignore[return-value]

    return decorate
