"""Return annotations of callables: the result types, and whether one call gives many results."""

import collections.abc as abc
import datetime
import decimal
import functools
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import Column
from pyspark.sql import types as spark

_SCALARS: dict[Any, Callable[[], spark.DataType]] = {
    str: spark.StringType,
    int: spark.LongType,
    float: spark.DoubleType,
    bool: spark.BooleanType,
    bytes: spark.BinaryType,
    bytearray: spark.BinaryType,
    datetime.date: spark.DateType,
    datetime.datetime: spark.TimestampType,
    decimal.Decimal: lambda: spark.DecimalType(38, 18),
}

LAZY = (abc.Iterator, abc.Iterable, abc.Generator)
_EAGER = (list, set, frozenset, abc.Sequence, abc.Collection, abc.Set)
_ARRAYS = (list, abc.Sequence)


@dataclass(frozen=True, slots=True)
class Returns:
    """A callable's return annotation.

    `hint` is the annotation of one result. `lazy` is true for an Iterator, an Iterable or a Generator: one call gives
    many results, and `hint` is the annotation of one element. `nothing` is true for None, `column` for a Column.
    `pandas` is the pandas class that a function of pandas objects returns; then there is no `hint`. `problem` is the
    reason why the annotation cannot be read.
    """

    hint: Any = inspect.Signature.empty
    lazy: bool = False
    nothing: bool = False
    column: bool = False
    pandas: Literal["", "Series", "DataFrame"] = ""
    problem: str = ""

    @property
    def known(self) -> bool:
        """Return whether the annotation determines types."""
        return self.hint is not inspect.Signature.empty and not self.nothing

    @property
    def eager(self) -> bool:
        """Return whether one result is itself a list, a set or a similar collection."""
        return _origin(self.hint) in _EAGER or _variadic(self.hint)

    @property
    def element(self) -> "Returns":
        """The annotation of one element if a result is a list, a set or a similar collection."""
        inner = typing.get_args(self.hint)
        return Returns(inner[0] if inner else inspect.Signature.empty)

    def types(self, count: int) -> tuple[spark.DataType, ...] | None:
        """Return the types of `count` output fields; None if the annotation does not declare them.

        A tuple annotation declares several fields, any other type one field.
        """
        if not self.known:
            return None
        types = several_of(self.hint)
        if types is not None:
            return tuple(types) if None not in types and len(types) == count else None  # type: ignore[arg-type]
        kind = type_of(self.hint)
        return (kind,) if kind is not None and count == 1 else None

    @property
    def arity(self) -> int | None:
        """The number of values in one result; None if the annotation does not declare it."""
        if not self.known or self.hint is Any or _variadic(self.hint):
            return None
        types = several_of(self.hint)
        if types is not None:
            return len(types)
        return None if self.hint is tuple else 1


def read_returns(target: Callable[..., Any]) -> Returns:
    """Read a callable's return annotation, which may be a string."""
    if isinstance(target, type):
        return Returns(target) if target in _SCALARS else Returns()
    function = annotated_function(target)
    if function is None:
        return Returns()
    written = getattr(function, "__annotations__", {}).get("return", inspect.Signature.empty)
    if written is inspect.Signature.empty:
        return Returns()
    if isinstance(written, str):
        try:
            written = resolve_annotation(function, written)
        except Exception as error:
            # Evaluating the text may raise any error, because it may hold any expression. A Column is recognized by
            # name.
            name = written.rpartition(".")[2].strip()
            return Returns(column=True) if name == "Column" else Returns(problem=f"{written!r}: {error}")
    return _read(written)


def may_be_none(target: Callable[..., Any]) -> bool:
    """Return whether a callable's return annotation allows None, such as ``int | None``."""
    function = annotated_function(target)
    written = getattr(function, "__annotations__", {}).get("return")
    if isinstance(written, str):
        try:
            written = resolve_annotation(function, written)
        except Exception:  # the text may hold any expression
            return "None" in written or "Optional" in written
    if typing.get_origin(written) is typing.Annotated:
        written = typing.get_args(written)[0]
    return types.NoneType in typing.get_args(written)


def type_of(hint: Any) -> spark.DataType | None:
    """Return the Spark type for an annotation; None if there is no such type.

    >>> type_of(dict[str, list[int] | None]).simpleString()
    'map<string,array<bigint>>'
    """
    hint = _without_none(hint)
    if isinstance(hint, spark.DataType):
        return hint
    try:
        if hint in _SCALARS:
            return _SCALARS[hint]()
    except TypeError:  # an unhashable hint, such as a Literal of lists
        return None
    origin, inner = _origin(hint), typing.get_args(hint)
    if origin in _ARRAYS and len(inner) == 1:
        element = type_of(inner[0])
        return None if element is None else spark.ArrayType(element)
    if origin in (dict, abc.Mapping) and len(inner) == 2:
        key, value = type_of(inner[0]), type_of(inner[1])
        return None if key is None or value is None else spark.MapType(key, value)
    return None


def several_of(hint: Any) -> tuple[spark.DataType | None, ...] | None:
    """Return the types in ``tuple[A, B]`` or a NamedTuple; None if the hint is neither."""
    hint = _without_none(hint)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints = typing.get_type_hints(hint)
        return tuple(type_of(hints.get(name)) for name in hint._fields)
    if typing.get_origin(hint) is tuple and not _variadic(hint):
        return tuple(type_of(inner) for inner in typing.get_args(hint))
    return None


def annotated_function(target: Any) -> Any:
    """Return the function that carries a callable's annotations; None if there is none."""
    while isinstance(target, functools.partial):  # some objects, such as a Column, have attributes of any name
        target = target.func
    if inspect.isroutine(target):
        return inspect.unwrap(getattr(target, "__func__", target))
    method = getattr(type(target), "__call__", None)  # noqa: B004
    return inspect.unwrap(method) if inspect.isfunction(method) else None


def resolve_annotation(function: Any, written: str) -> Any:
    """Return the object that a textual annotation names."""
    # get_type_hints resolves all annotations of a function and fails at the first unknown name, so it gets a stand-in
    # function with this annotation only.
    holder = types.FunctionType((lambda: None).__code__, getattr(function, "__globals__", {}))
    holder.__annotations__ = {"return": written}
    enclosed = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    return typing.get_type_hints(holder, localns=dict(enclosed) or None)["return"]


def _read(hint: Any) -> Returns:
    if hint is None or hint is type(None):
        return Returns(nothing=True)
    if isinstance(hint, type) and issubclass(hint, Column):
        return Returns(column=True)
    if _origin(hint) in LAZY:
        inner = typing.get_args(hint)
        return Returns(inner[0] if inner else inspect.Signature.empty, lazy=True)
    return Returns(_without_none(hint))


def _origin(hint: Any) -> Any:
    return typing.get_origin(hint) or hint


def _variadic(hint: Any) -> bool:
    """Return whether the hint is ``tuple[T, ...]``."""
    inner = typing.get_args(hint)
    return typing.get_origin(hint) is tuple and len(inner) == 2 and inner[1] is ...


def _without_none(hint: Any) -> Any:
    """Return T for ``T | None``, ``Optional[T]`` and ``Annotated[T, ...]``, and any other hint unchanged."""
    if typing.get_origin(hint) is typing.Annotated:
        return _without_none(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [inner for inner in typing.get_args(hint) if inner is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint
