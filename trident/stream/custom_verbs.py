"""The decorator `verb`, which turns a user's function of a stream into a verb of every stream."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from trident.base.errors import TopologyError
from trident.base.names import brief
from trident.base.verb_call import caller, within
from trident.stream.checked_calls import check_arguments
from trident.stream.stream import Stream

_F = TypeVar("_F", bound=Callable[..., Any])

_MARK = "_trident_verb"


def verb(function: _F) -> _F:
    """Make `function`, whose first argument is a stream, a verb of every stream.

    The verb has the function's name, arguments and docstring. Its steps carry the verb's name in errors, `explain` and
    pictures, and errors point at the line that called the verb. The function itself does not change. A name that
    streams already have is refused, unless the same function is registered again, as when a notebook cell runs twice.

    Raises
    ------
    TopologyError
        If the argument is not a named function, or the name is taken.

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
        raise TopologyError(f"verb needs a named function, not {brief(function)}")
    if name.startswith("_"):
        raise TopologyError(f"{name!r} begins with '_', but the name of a verb must be public")
    existing = getattr(Stream, name, None)
    if existing is not None and _origin(existing) != _origin(function):
        whose = f"made by {_origin(existing)}" if hasattr(existing, _MARK) else "it is built in"
        raise TopologyError(f"a stream already has a verb {name!r} ({whose}); give {brief(function)} another name")

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
