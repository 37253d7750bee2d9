"""Verbs of your own: a function from a stream to a stream that is called like a built-in."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from trident.base.errors import TopologyError
from trident.base.names import brief
from trident.base.step import caller, within
from trident.stream.checked_calls import check_arguments
from trident.stream.stream import Stream

_F = TypeVar("_F", bound=Callable[..., Any])

_MARK = "_trident_verb"


def verb(function: _F) -> _F:
    """Make a verb of every stream out of a function whose first argument is a stream.

    The verb has the function's name, arguments and docstring; its steps carry the verb's name in errors, `explain` and
    pictures, and errors point at the line that called the verb. The function itself stays what it is. A name that a
    stream has already is refused, unless it is the same function once more, as when a notebook's cell runs again.

    Raises
    ------
    TopologyError
        Where it is no function, takes no stream, or its name is taken.

    Examples
    --------
    >>> from trident import TridentTopology, verb
    >>> from trident.spouts import FixedBatchSpout
    >>> @verb
    ... def longerThan(stream, field: str, length: int):
    ...     "Keep the tuples whose text has more than `length` characters."
    ...     return stream.filter(field, lambda text: len(text) > length)
    >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "horse"]]))
    >>> words.longerThan("word", 3)
    Stream(words/1:longerThan.filter(<lambda>): word string)
    >>> words.longerThan("word", 3).take(2)
    [Row(word='horse')]
    """
    name = getattr(function, "__name__", "")
    if not callable(function) or isinstance(function, type) or not name.isidentifier():
        raise TopologyError(f"verb makes a verb of a named function, not of {brief(function)}")
    if name.startswith("_"):
        raise TopologyError(f"{name!r} begins with '_': nobody would find it as a verb")
    there = getattr(Stream, name, None)
    if there is not None and _origin(there) != _origin(function):
        whose = f"{_origin(there)} has made it" if hasattr(there, _MARK) else "it is built in"
        raise TopologyError(f"a stream has a verb {name!r} already ({whose}); give {brief(function)} another name")

    @functools.wraps(function)
    def method(self: Stream, *args: Any, **keywords: Any) -> Any:
        check_arguments(function, (self, *args), keywords)
        with within(caller(name)):
            return function(self, *args, **keywords)

    setattr(method, _MARK, True)
    setattr(Stream, name, method)
    return function


def _origin(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"
