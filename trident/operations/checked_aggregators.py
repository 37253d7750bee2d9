"""Calls of user aggregators, with checks for two common mistakes.

The first is a method without ``return``: an accumulator of None means that a key has no value, so a ``combine`` that
returns None would silently delete the value. The second is an ``init`` that returns the same list in each call: a
change in place for one group would appear in all other groups, and in the next batch.
"""

import dis
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from trident.base.callsite import site_of
from trident.base.errors import TopologyError
from trident.base.short_texts import short_repr
from trident.base.verb_call import Step
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregators import CombinerAggregator, ReducerAggregator
from trident.operations.annotations import may_be_none

_WAY_OUT = "return the value, or annotate it as '-> ... | None' if it may be null"


class WrongValueError(TypeError):
    """A method of an aggregator returned an invalid value. The message begins with a verb."""


class GaveNothingError(WrongValueError):
    """A method of an aggregator returned None for values that are not None."""


class SharedValueError(WrongValueError):
    """Two calls of an aggregator's init returned the same mutable object, such as a list."""


class SeparateValues:
    """An aggregator's `init`. Raises SharedValueError if two calls return the same mutable object, such as a list.

    >>> init = SeparateValues(lambda: [0])
    >>> init(), init()
    ([0], [0])
    """

    __slots__ = ("_init", "_last")

    def __init__(self, init: Callable[..., Any]) -> None:
        self._init = init
        self._last: Any = None

    def __call__(self, *arguments: Any) -> Any:
        value = self._init(*arguments)
        if value is self._last and type(value).__hash__ is None:
            kind = type(value).__name__
            raise SharedValueError(
                f"returned the same {kind} from two calls of init, so the groups would share their values: create a "
                f"new {kind} in each call"
            )
        self._last = value  # keeping a reference prevents a new object from getting the same id
        return value


def check_returns(method: Callable[..., Any], step: Step) -> None:
    """Raise TopologyError if no path through a method returns a value."""
    if _returns_nothing(method):
        problem = f"{site_of(method)} has no return, so its result is always None: write return before the value"
        raise step.error(TopologyError, problem)


def init_value(aggregator: CombinerAggregator, tuple: Any) -> Any:
    """Call a combiner's `init`. Raises GaveNothingError if it returns None for a tuple without nulls."""
    value = aggregator.init(tuple)
    if value is None and all(each is not None for each in tuple) and not _may_be_none(aggregator, "init"):
        raise GaveNothingError(f"returned None from init for {short_repr(tuple)} ({_WAY_OUT})")
    return value


def combine_values(aggregator: CombinerAggregator, a: Any, b: Any) -> Any:
    """Call a combiner's `combine`. Raises GaveNothingError if it returns None for two values."""
    value = aggregator.combine(a, b)
    if value is None and a is not None and b is not None and not _may_be_none(aggregator, "combine"):
        raise GaveNothingError(f"returned None from combine for {short_repr(a)} and {short_repr(b)} ({_WAY_OUT})")
    return value


def reduce_value(aggregator: ReducerAggregator, curr: Any, tuple: Any) -> Any:
    """Call a reducer's `reduce`. Raises GaveNothingError if it returns None for a value and a tuple without nulls."""
    value = aggregator.reduce(curr, tuple)
    if value is not None or curr is None or any(each is None for each in tuple) or _may_be_none(aggregator, "reduce"):
        return value
    raise GaveNothingError(f"returned None from reduce for {short_repr(curr)} and {short_repr(tuple)} ({_WAY_OUT})")


def checked_init(aggregator: CombinerAggregator) -> Callable[[Any], Any]:
    """Return a combiner's `init` with the check of `init_value`, for a loop."""
    return aggregator.init if isinstance(aggregator, BuiltinAggregator) else partial(init_value, aggregator)


def checked_combine(aggregator: CombinerAggregator) -> Callable[[Any, Any], Any]:
    """Return a combiner's `combine` with the check of `combine_values`, for a loop."""
    return aggregator.combine if isinstance(aggregator, BuiltinAggregator) else partial(combine_values, aggregator)


def _may_be_none(aggregator: object, method: str) -> bool:
    return isinstance(aggregator, BuiltinAggregator) or may_be_none(getattr(aggregator, method))


def _returns_nothing(method: Callable[..., Any]) -> bool:
    function = getattr(method, "__func__", method)
    if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
        return False
    steps = list(dis.get_instructions(function))
    ends = [at for at, step in enumerate(steps) if step.opname in ("RETURN_VALUE", "RETURN_CONST")]
    return bool(ends) and all(_is_none(steps, at) for at in ends)


def _is_none(steps: list[dis.Instruction], at: int) -> bool:
    """Return whether the return instruction at this index always returns None."""
    if steps[at].opname == "RETURN_CONST":
        return steps[at].argval is None
    before = steps[at - 1]
    return before.opname == "LOAD_CONST" and before.argval is None and not steps[at].is_jump_target
