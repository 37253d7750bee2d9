"""The error for arguments that a spout, a state, a window or an aggregator does not take, with those that it takes."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from trident.base.errors import ArgumentsError
from trident.base.names import did_you_mean
from trident.base.short_texts import brief

_Call = TypeVar("_Call", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)

_CHECKED = "_checks_arguments"
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def known_options(elsewhere: Mapping[str, str]) -> Callable[[_Call], _Call]:
    """Return a decorator of a method: an unknown keyword raises an ArgumentsError that names the intended one.

    So do a missing argument, and one without a name that needs it. `elsewhere` maps the names that others use to the
    method's own, or to a sentence that names the replacement, in which ``{value}`` stands for the given value. A
    method that is already decorated is not changed.
    """

    def decorate(call: _Call) -> _Call:
        if hasattr(call, _CHECKED):
            return call
        known = list(_options(call))
        parameters = list(inspect.signature(call).parameters.values())[1:]

        @functools.wraps(call)
        def checked(owner: Any, *args: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            for name in options:
                if name not in known:
                    hint = _hint(name, known).replace("{value}", brief(options[name]))
                    raise ArgumentsError(f"{_called(owner, call)}: there is no option {name!r}{hint}")
            if problem := _misfit(parameters, args, options):
                raise ArgumentsError(f"{_called(owner, call)}: {problem}; it takes {', '.join(known) or 'none'}")
            return call(owner, *args, **options)

        setattr(checked, _CHECKED, True)
        return checked  # type: ignore[return-value]

    def _hint(name: str, known: list[str]) -> str:
        takes = f"; it takes {', '.join(known)}"
        if name not in elsewhere:
            return takes + did_you_mean(name, known)
        meant = elsewhere[name]
        if meant in known:
            return f"{takes}; did you mean {meant!r}?"
        meant = elsewhere.get(meant, meant)  # the replacement may be an option of another spout or state
        return takes if meant.isidentifier() else f": {meant}"

    return decorate


def known_fields(elsewhere: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Return a decorator of a dataclass: an unknown keyword is refused as `known_options` says."""

    def decorate(owner: _Class) -> _Class:
        owner.__init__ = known_options(elsewhere)(owner.__init__)  # type: ignore[misc]
        return owner

    return decorate


def known_options_of(elsewhere: Mapping[str, str], *methods: str) -> Callable[[_Class], _Class]:
    """Return a decorator that makes the class methods of a class refuse unknown keywords, as `known_options` says."""

    def decorate(owner: _Class) -> _Class:
        for name in methods:
            setattr(owner, name, classmethod(known_options(elsewhere)(vars(owner)[name].__func__)))
        return owner

    return decorate


def _misfit(parameters: Sequence[inspect.Parameter], args: Sequence[object], options: Mapping[str, object]) -> str:
    """Return why a call does not fit the parameters of its method; "" if it fits, or if a keyword is the problem."""
    placed = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(args) > len(placed) and all(each.kind is not each.VAR_POSITIONAL for each in parameters):
        rule = f"only {', '.join(placed)} may come without a name" if placed else "write each argument with its name"
        return f"argument {len(placed) + 1}, {brief(args[len(placed)])}, has no name: {rule}"
    given = {*placed[: len(args)], *options}
    required = [each for each in parameters if each.default is each.empty and each.kind not in _MANY]
    missing = [each.name for each in required if each.name not in given]
    return f"an argument is missing: {', '.join(missing)}" if missing else ""


def _options(call: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of a method's parameters, except the first; also those of ``**options: Unpack[...]``."""
    for parameter in list(inspect.signature(call).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            for options in get_args(parameter.annotation):
                yield from options.__annotations__
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            yield parameter.name


def _called(owner: Any, call: Callable[..., Any]) -> str:
    return f"{owner.__name__}.{call.__name__}" if isinstance(owner, type) else type(owner).__name__
