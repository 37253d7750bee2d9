"""Operations with a lifecycle. Each partition has a copy, prepared before its tuples and cleaned up after them."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from trident.base.generator_checks import check_ran
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.kernels import Work
from trident.operations.context import OperationContext, has_lifecycle


def needs_lifecycle(works: Sequence[Work]) -> bool:
    """Return whether the operation of any of these works has a `prepare` or a `cleanup`."""
    return any(work.operation is not None and has_lifecycle(work.operation.target) for work in works)


@contextmanager
def prepared(works: Sequence[Work], context: OperationContext) -> Iterator[tuple[Work, ...]]:
    """Yield the works, with prepared copies of operations that have a lifecycle. Clean up the copies at the end.

    The cleanup runs whether the works succeed or fail. Works without a lifecycle are yielded as they are.
    """
    ready: list[Work] = []
    open_copies: list[tuple[Where, Any]] = []
    try:
        for work in works:
            operation = work.operation
            if operation is not None and has_lifecycle(operation.target):
                target = copy.deepcopy(operation.target)
                open_copies.append((work.where, target))
                _call(work.where, target, "prepare", context.at(work.where.step))
                work = replace(work, operation=replace(operation, target=target))
            ready.append(work)
        yield tuple(ready)
    except BaseException as error:
        for where, target in reversed(open_copies):
            try:
                _call(where, target, "cleanup")
            except Exception as second:
                error.add_note(f"and after that: {second}")
        raise
    for where, target in reversed(open_copies):
        _call(where, target, "cleanup")


def _call(where: Where, target: Any, name: str, *args: Any) -> None:
    method = getattr(target, name, None)
    if not callable(method):
        return
    with where.calling(f"{name}()"):
        check_ran(method(*args), f"do the work in {name} itself")
