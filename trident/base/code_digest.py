"""A digest of the code of a user's function. A later start uses it to see that the function has changed.

The digest is of the compiled instructions, without names of functions and locals, lines and docstrings: a function
that was moved, renamed or commented has the same digest. A second digest, of the plain values and the functions that
the code reads from elsewhere, follows the first (`trident.base.code_values`).
"""

import dis
import functools
import hashlib
import sys
from types import CodeType, FunctionType
from typing import Any

from trident.base.code_values import values_read

_METHODS = (
    *("execute", "isKeep", "init", "initColumn", "combine", "retract", "present", "__call__"),
    *("reduce", "aggregate", "complete"),
)
"""The methods by which the library calls objects of users' classes."""


def code_digest(target: object) -> str:
    """Return the digest of the code of a function, or of the methods of an object; "" if there is no code of a user.

    Compiled code differs between versions of Python, so a digest begins with the version. Compare by `same_code`: code
    that reads no values has only the first digest.

    >>> codes = "lambda n: n", "lambda m: m", "lambda n: -n"
    >>> one, same, other = (eval(code, {"__name__": "program"}) for code in codes)
    >>> code_digest(one) == code_digest(same), code_digest(one) == code_digest(other)
    (True, False)
    """
    functions = _functions(target)
    if not functions:
        return ""
    values = [value for function in functions for value in values_read(function, _instructions)]
    digest = f"{sys.implementation.cache_tag}:{_hashed([_instructions(each.__code__) for each in functions])}"
    return f"{digest}/{_hashed(values)}" if values else digest


def same_code(one: str, other: str) -> bool:
    """Return whether two digests may be of the same code: they are equal, or one is unknown or of another Python.

    If only one of them knows the values that the code reads, only the code is compared.

    >>> same_code("cpython-311:ab", "cpython-312:cd"), same_code("cpython-311:ab", "cpython-311:cd")
    (True, False)
    """
    if one.partition(":")[0] != other.partition(":")[0]:
        return True
    (code, _, values), (others_code, _, others) = one.partition("/"), other.partition("/")
    return code == others_code and (values == others or not values or not others)


def _hashed(parts: list[Any]) -> str:
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _functions(target: object) -> list[FunctionType]:
    target = _innermost(target)
    functions = [target]
    if not hasattr(target, "__code__") and not isinstance(target, type):
        functions = [getattr(type(target), name, None) for name in _METHODS]
    functions = [getattr(each, "__func__", each) for each in functions]  # of a bound method
    return [each for each in functions if isinstance(each, FunctionType) and not _of_the_library(each)]


def _innermost(target: object) -> object:
    """Return the function in a partial, or behind decorators (a `udf` of Spark is one)."""
    while True:
        if isinstance(target, functools.partial):
            target = target.func
        elif isinstance(target, FunctionType) and hasattr(target, "__wrapped__"):
            target = target.__wrapped__
        else:
            return target


def _of_the_library(function: object) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "trident"


def _instructions(code: CodeType) -> list[Any]:
    """Return the instructions of compiled code, nested functions included."""
    return [(each.opname, _operand(each)) for each in dis.get_instructions(code)]


def _operand(instruction: dis.Instruction) -> Any:
    if instruction.opcode in dis.hasconst:
        return _constant(instruction.argval)
    return instruction.argval if instruction.opcode in dis.hasname else instruction.arg


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _instructions(value)
    if isinstance(value, frozenset):  # its order differs between processes
        return sorted(map(repr, value))
    if isinstance(value, tuple):
        return [_constant(each) for each in value]
    return repr(value)
