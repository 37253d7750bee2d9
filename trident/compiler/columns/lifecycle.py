"""Operations with a beginning and an end: a copy for each partition of a batch, told where it runs and when it ends."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from trident.base.errors import FailedException
from trident.compiler.columns.failures import Where
from trident.compiler.columns.kernels import Work
from trident.operations.context import OperationContext, has_life


def wants_life(works: Sequence[Work]) -> bool:
    """Whether any of these operations has a prepare or a cleanup."""
    return any(work.operation is not None and has_life(work.operation.target) for work in works)


@contextmanager
def prepared(works: Sequence[Work], context: OperationContext) -> Iterator[tuple[Work, ...]]:
    """The works with copies of such operations, prepared, and cleaned up at the end however it comes."""
    ready: list[Work] = []
    begun: list[tuple[Where, Any]] = []
    try:
        for work in works:
            operation = work.operation
            if operation is not None and has_life(operation.target):
                target = copy.deepcopy(operation.target)
                begun.append((work.where, target))
                _call(work.where, target, "prepare", context)
                work = replace(work, operation=replace(operation, target=target))
            ready.append(work)
        yield tuple(ready)
    except BaseException as error:
        for where, target in reversed(begun):
            try:
                _call(where, target, "cleanup")
            except Exception as second:
                error.add_note(f"and after that: {second}")
        raise
    for where, target in reversed(begun):
        _call(where, target, "cleanup")


def _call(where: Where, target: Any, name: str, *args: Any) -> None:
    method = getattr(target, name, None)
    if not callable(method):
        return
    try:
        method(*args)
    except FailedException:
        raise
    except (Exception, SystemExit) as cause:
        raise where.error(f"raised {type(cause).__name__}: {cause} in {name}()", cause) from cause
