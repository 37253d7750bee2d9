"""Errors for calls of verbs with missing or unknown arguments, in the same form as all other errors of verbs."""

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any

from trident.base.errors import ArgumentsError
from trident.base.names import did_you_mean
from trident.base.verb_call import Step, caller

_ON_ERROR = (
    "; each, filter, map, flatMap and peek take onError. Move the part that may fail into one of these, before this "
    "step"
)


class CheckedCalls:
    """The base of classes with verbs: a call with wrong arguments raises an ArgumentsError that names the step."""

    __slots__ = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, verb in list(vars(cls).items()):
            if isinstance(verb, FunctionType) and not name.startswith("_"):
                setattr(cls, name, checked(verb))


def checked(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb that raises ArgumentsError, not Python's own TypeError, for arguments that do not fit `verb`."""

    @functools.wraps(verb)
    def called(*args: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True  # notebooks and pytest hide this frame
        try:
            return verb(*args, **keywords)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # the error was raised inside the verb, not by this call's arguments
            wrong = error
        check_arguments(verb, args, keywords)
        raise wrong

    return called


def check_arguments(verb: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Raise ArgumentsError if the arguments do not fit the verb. `args[0]` is the object whose verb is called."""
    signature, name = inspect.signature(verb), verb.__name__
    own = list(signature.parameters.values())[1:]
    known = [item.name for item in own if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    unknown = [keyword for keyword in keywords if keyword not in known]
    takes_any = any(item.kind is item.VAR_KEYWORD for item in own)
    if unknown and not takes_any:
        hint = _ON_ERROR if unknown[0] == "onError" else did_you_mean(unknown[0], known)
        accepted = f"{name} takes {', '.join(known)}" if known else f"{name} takes no keyword arguments"
        raise _step(args[0], name).error(ArgumentsError, f"there is no argument {unknown[0]!r}; {accepted}{hint}")
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        usage = f"{name}({', '.join(map(_shown, own))})"
        raise _step(args[0], name).error(ArgumentsError, f"{error}; write {usage}") from None


def _shown(parameter: inspect.Parameter) -> str:
    """Return a parameter as the usage of a verb shows it, without annotation: ``name``, ``name=None``, ``*streams``."""
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    return str(parameter.replace(annotation=inspect.Parameter.empty, default=default))


def _step(subject: Any, verb: str) -> Step:
    stream = getattr(subject, "_stream", subject)
    register, label = getattr(stream, "_register", None), getattr(stream, "_label", None)
    return Step(verb if register is None or label is None else register.label(label, verb), caller(verb))
