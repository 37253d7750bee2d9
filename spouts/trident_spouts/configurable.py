"""The decorator of spouts whose options can be changed from outside the program."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from trident.base.option_names import known_options

_C = TypeVar("_C", bound=type)

_CALL = "_call"


def configurable(spout: _C) -> _C:
    """Make the spouts of a class remember the call that created them, so that `with_options` can repeat it.

    Arguments that do not fit are refused as `known_options` says. The call must be repeatable: no argument may be an
    iterator that the call consumes.
    """
    init = known_options({})(spout.__init__)  # type: ignore[misc]  # of a class, not of an object
    signature = inspect.signature(init)

    @functools.wraps(init)
    def remembering(self: object, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        if type(self).__init__ is not remembering:  # a subclass has its own arguments
            return
        _, *given = signature.bind(self, *arguments, **named).arguments.items()
        object.__setattr__(self, _CALL, dict(given))

    spout.__init__ = remembering  # type: ignore[misc]
    return spout


def call_of(spout: object) -> Mapping[str, Any] | None:
    """Return the arguments of the call that made a spout, by name; None if its class does not remember calls."""
    return getattr(spout, _CALL, None)
