"""The fields and the ``repr`` of immutable descriptions, such as spouts. The ``repr`` is the call that makes one."""

import inspect
from enum import Enum

from pyspark.sql.types import StructType

from trident.base.spark_types import ddl


class Written(str):
    """A text that `described` shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def keep(owner: object, **fields: object) -> None:
    """Set the fields of a frozen dataclass, from the ``__init__`` that the class defines."""
    for name, value in fields.items():
        object.__setattr__(owner, name, value)


def described(owner: object, **shown: object) -> str:
    """Return the call that creates `owner`, with the arguments that differ from their defaults.

    The parameters and their defaults are those of its class. The value of an argument is the attribute with its name.
    If the form of that attribute differs from the form of the argument, or the attribute must stay hidden, `shown` has
    the value instead.
    """
    arguments, by_name = [], False
    for name, parameter in inspect.signature(type(owner)).parameters.items():
        value = _argument(shown[name] if name in shown else getattr(owner, name))
        by_name = by_name or parameter.kind is parameter.KEYWORD_ONLY
        if value == parameter.default:
            by_name = True  # after an omitted argument, the next one needs its name
        else:
            arguments.append(f"{name}={value!r}" if by_name else repr(value))
    return f"{type(owner).__name__}({', '.join(arguments)})"


def _argument(value: object) -> object:
    if isinstance(value, StructType):
        return ddl(value)
    return value.value if isinstance(value, Enum) else value
