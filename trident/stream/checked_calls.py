"""A verb that is called with arguments which it does not take says so as every other wrong call does."""

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any

from trident.base.errors import ArgumentsError
from trident.base.names import did_you_mean
from trident.base.step import Step, caller

_ON_ERROR = (
    "; each, filter, map, flatMap and peek take onError. What may fail goes into one of these before, and here come "
    "tuples that cannot fail"
)


class Told:
    """What has verbs: Python's own TypeError for arguments that do not fit becomes an ArgumentsError, with the step."""

    __slots__ = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, verb in list(vars(cls).items()):
            if isinstance(verb, FunctionType) and not name.startswith("_"):
                setattr(cls, name, told(verb))


def told(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The verb, telling of arguments that it does not take."""

    @functools.wraps(verb)
    def called(*args: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True  # in notebooks and tests: the reader looks for the verb
        try:
            return verb(*args, **keywords)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # it is of the verb's inside, and not of the call
            wrong = error
        check_arguments(verb, args, keywords)
        raise wrong

    return called


def check_arguments(verb: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Raise ArgumentsError where these do not fit the verb; the first of them is what it is a verb of."""
    signature, name = inspect.signature(verb), verb.__name__
    own = list(signature.parameters.values())[1:]
    taken = [each.name for each in own if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    strange = [word for word in keywords if word not in taken]
    any_word = any(each.kind is each.VAR_KEYWORD for each in own)
    if strange and not any_word:
        hint = _ON_ERROR if strange[0] == "onError" else did_you_mean(strange[0], taken)
        told = f"{name} takes {', '.join(taken)}" if taken else f"{name} takes no keywords"
        raise _step(args[0], name).error(ArgumentsError, f"there is no argument {strange[0]!r}; {told}{hint}")
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        usage = f"{name}({', '.join(map(_shown, own))})"
        raise _step(args[0], name).error(ArgumentsError, f"{error}; write {usage}") from None


def _shown(parameter: inspect.Parameter) -> str:
    """A parameter without its annotation: ``name``, ``name=None``, ``*streams``."""
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    return str(parameter.replace(annotation=inspect.Parameter.empty, default=default))


def _step(subject: Any, verb: str) -> Step:
    stream = getattr(subject, "_stream", subject)
    register, label = getattr(stream, "_register", None), getattr(stream, "_label", None)
    return Step(verb if register is None or label is None else register.label(label, verb), caller(verb))
