"""Digests of the functions and objects of users in steps: of code and closed-over variables, of class and attributes.

The digest distinguishes two steps of one program that differ only in such a value, and does so again at a later start
of the same program. So it depends on nothing that differs between two processes: no address, no order of a set. Plain
data is digested by value. Anything else is digested by its type alone, because a connection, a lock or a logger differs
at each start; the digest of a value that holds such a part ends in "?".
"""

import datetime
import decimal
import fractions
import functools
import hashlib
import json
import numbers
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from pyspark.sql.types import DataType

from trident.operations.functions import Filter, Function

_ITEMS, _DEPTH = 4000, 40
"""The most parts of a value that are read, and their greatest depth. Of other parts, only the type is digested."""

_VERBS = ("isKeep", "batchRetrieve", "updateState", "init")
"""Methods by which an object is recognized as the operation of a step: a filter, query, updater or aggregator."""

_PLAIN = (
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    bytearray,
    re.Pattern,
    tuple,
    list,
    set,
    frozenset,
    dict,
    type,
    Enum,
)
_BY_REPR = (
    *(numbers.Number, range, slice, PurePath, uuid.UUID, decimal.Decimal, fractions.Fraction),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, DataType),
)


def traits(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the traits that identify a user's function or object, each with its digest.

    The traits have names such as "code", "k, which it closes over" and "the attribute k".
    """
    match value:
        case functools.partial():
            yield from traits(value.func)
            yield from ((f"argument {at + 1}", digest(each)) for at, each in enumerate(value.args))
            yield from ((f"the argument {name}", digest(each)) for name, each in value.keywords.items())
        case MethodType():
            yield from traits(value.__func__)
            yield from _attribute_traits(value.__self__)
        case FunctionType():
            yield "name", digest(_module_and_name(value))
            yield "code", digest(value.__code__)
            yield from ((f"{name}, which it closes over", digest(cell)) for name, cell in _cells(value).items())
            yield from ((f"the default of {name}", digest(each)) for name, each in _defaults(value).items())
            yield from ((f"the attribute {name}", digest(each)) for name, each in vars(value).items())
        case _ if isinstance(value, _PLAIN) or _name(value) is not None or _of_spark(value):
            yield "value", digest(value)
        case _:
            yield "class", digest(type(value))
            yield from _attribute_traits(value)


def digest(value: Any) -> str:
    """Return the digest of a value. It ends in "?" if for some part of the value only the type was digested."""
    reader = _Reader()
    text = json.dumps(reader.read(value))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest() + "?" * reader.partial


class _Reader:
    """The conversion of one value into JSON that can be digested."""

    def __init__(self) -> None:
        self.partial = False
        self._left = _ITEMS
        self._within: list[int] = []

    def read(self, value: Any) -> Any:
        self._left -= 1
        if id(value) in self._within:
            return ["again", self._within.index(id(value))]
        if self._left < 0 or len(self._within) > _DEPTH:
            return self._type_of(value)
        self._within.append(id(value))
        try:
            return [_qualified(type(value)), self._read(value)]
        finally:
            self._within.pop()

    def _read(self, value: Any) -> Any:
        match value:
            case Enum():
                return value.name
            case None | bool() | int() | float() | str():
                return repr(value)
            case bytes() | bytearray():
                return value.hex()
            case re.Pattern():
                return [repr(value.pattern), value.flags]
            case tuple() | list():
                return self._each(value)
            case set() | frozenset():
                return sorted(map(json.dumps, self._each(value)))
            case dict():
                return sorted(map(json.dumps, self._each(value.items())))
        return repr(value) if isinstance(value, _BY_REPR) else self._read_code(value)

    def _read_code(self, value: Any) -> Any:
        match value:
            case type():
                return self._class(value)
            case ModuleType():
                return value.__name__
            case CodeType():
                return self._code(value)
            case CellType():
                return self._cell(value)
            case FunctionType():
                parts = (value.__code__, _cells(value), _defaults(value), vars(value))
                return [*_module_and_name(value), *map(self.read, parts)]
            case MethodType():
                return [self.read(value.__func__), _qualified(type(value.__self__)), self._attributes(value.__self__)]
            case functools.partial():
                return [self.read(value.func), self.read(value.args), self.read(value.keywords)]
        return self._read_object(value)

    def _read_object(self, value: Any) -> Any:
        match value:
            case _ if is_dataclass(value):
                return [self.read(type(value)), self.read({f.name: getattr(value, f.name) for f in fields(value)})]
            case _ if (name := _name(value)) is not None:  # built in, or made by a library: str.split, numpy.add
                within = getattr(value, "__self__", getattr(value, "__objclass__", None))
                inside = (within, getattr(value, "__wrapped__", None))
                return [_module_and_name(value)[0], name, *map(self.read, inside)]
            case _ if _is_operation(value):
                return [self.read(type(value)), self._attributes(value)]
            case _ if type(value).__name__ == "Column" and _of_spark(value):
                self.partial = True  # the text of a Column only names a function within it
                return str(value)
        return self._type_of(value)

    def _type_of(self, value: Any) -> str:
        self.partial = True
        return _qualified(type(value))

    def _each(self, values: Iterable[Any]) -> list[Any]:
        read = []
        for each in values:
            if self._left < 0:
                self.partial = True
                break
            read.append(self.read(each))
        return read

    def _attributes(self, value: Any) -> Any:
        return self.read(_attributes(value))

    def _class(self, value: type) -> Any:
        """Return a class's name, and its methods if the class was made in a function: they may close over variables."""
        own = vars(value).items() if "<locals>" in value.__qualname__ else ()
        return [_qualified(value), {name: self.read(each) for name, each in own if isinstance(each, FunctionType)}]

    def _code(self, code: CodeType) -> Any:
        names = [code.co_names, code.co_freevars, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        return [code.co_code.hex(), names, self._each(code.co_consts)]

    def _cell(self, cell: CellType) -> Any:
        try:
            return self.read(cell.cell_contents)
        except ValueError:  # nothing was assigned yet
            return None


def _is_operation(value: Any) -> bool:
    """Return whether this object is the operation of a step.

    The attributes of an operation are digested, like the variables that a function closes over.
    """
    kind = type(value)
    if _of_spark(value):
        return False
    return callable(value) or isinstance(value, Function | Filter) or any(hasattr(kind, verb) for verb in _VERBS)


def _name(value: Any) -> str | None:
    """Return the name of a callable; None if it has no name or is a proxy, whose attributes are remote."""
    if not callable(value) or _of_spark(value):
        return None
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else None


def _of_spark(value: Any) -> bool:
    """Return whether this object is Spark's own and not a udf. Such an object differs after each restart."""
    return type(value).__module__.partition(".")[0] in ("pyspark", "py4j") and not _is_udf(value)


def _is_udf(value: Any) -> bool:
    return type(value).__name__ == "UserDefinedFunction" and hasattr(value, "func")


def _attribute_traits(value: Any) -> Iterator[tuple[str, str]]:
    return ((f"the attribute {name}", digest(each)) for name, each in _attributes(value).items())


def _attributes(value: Any) -> dict[str, Any]:
    if _is_udf(value):  # a udf also holds what Spark made of its function at the first call
        return {"func": value.func}
    slots = [name for each in type(value).__mro__ for name in _names(vars(each).get("__slots__", ()))]
    slotted = {name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}
    return slotted | getattr(value, "__dict__", {})


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _cells(function: FunctionType) -> dict[str, CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _defaults(function: FunctionType) -> dict[str, Any]:
    positional, code = function.__defaults__ or (), function.__code__
    names = code.co_varnames[code.co_argcount - len(positional) : code.co_argcount]
    return dict(zip(names, positional, strict=True)) | (function.__kwdefaults__ or {})


def _qualified(each: type) -> str:
    return ".".join(_module_and_name(each))


def _module_and_name(value: Any) -> tuple[str, str]:
    """Return the module and name of a class or function.

    For an object of this library it is the package instead of the module, because another version may move the object.
    """
    module = str(getattr(value, "__module__", ""))
    package = module.partition(".")[0]
    ours = package in ("trident", "trident_state", "trident_spouts")
    return package if ours else module, getattr(value, "__qualname__", "")
