"""The verb applyAssembly: steps that are written once and applied to several streams."""

from collections.abc import Callable
from typing import Any, Protocol

from trident.base.argument_checks import check_whole_number
from trident.base.errors import TopologyError
from trident.base.names import brief
from trident.operations.callables import bind
from trident.stream.arguments import operation_site
from trident.stream.base import StreamBase, StreamT
from trident.stream.extremes import ExtremeVerbs


class Assembly(Protocol):
    """Several steps as one object, to add to a stream with `Stream.applyAssembly`.

    Meaning: ``org.apache.storm.trident.operation.Assembly``.

    >>> class Loud:
    ...     def apply(self, stream):
    ...         return stream.map("word", str.upper, "word string")
    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox"]]))
    >>> words.applyAssembly(Loud()).take(1)
    [Row(word='OX')]
    """

    def apply(self, stream: Any) -> Any:
        """Return `stream` with the assembly's steps added."""
        ...


class AssemblyVerbs(StreamBase[StreamT]):
    """The verb that adds the steps of an assembly."""

    __slots__ = ()

    def applyAssembly(self, assembly: Assembly | Callable[[StreamT], StreamT]) -> StreamT:
        """Add the steps of an assembly: an object with ``apply(stream)``, or a callable of a stream.

        Meaning: ``org.apache.storm.trident.Stream.applyAssembly``.

        >>> from trident import FirstN, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "cow", "ewe"]]))
        >>> words.applyAssembly(FirstN(2, "word")).take(5)
        [Row(word='cow'), Row(word='ewe')]
        >>> words.applyAssembly(lambda stream: stream.filter("word", str.islower)).fields
        ('word',)
        """
        step = self._step("applyAssembly").with_function(operation_site(assembly))
        apply: Any = getattr(assembly, "apply", assembly)
        if isinstance(assembly, type) and callable(getattr(assembly, "apply", None)):
            raise step.wrong(f"{assembly.__name__} is a class; give an instance of it, {assembly.__name__}()")
        if not callable(apply):
            raise step.wrong(f"{brief(assembly)} is not an assembly; give an object with apply(stream), or a callable")
        bind(apply, 1, "it is called with one stream", step)
        stream: StreamT = apply(self)
        if not isinstance(stream, StreamBase):
            hint = "; return the stream" if stream is None else ""
            raise step.wrong(f"it returned {brief(stream)}, expected a stream{hint}")
        if stream._register is not self._register:
            raise step.wrong(f"it returned {stream!r}, a stream of another topology")
        return stream


class FirstN:
    """An assembly that keeps `n` tuples of each batch.

    Without `sortField` the first `n` tuples stay. With `sortField` those with the least values of that field stay
    (``reverse=True``: the greatest), sorted. Nulls come last, and NaN is greater than every number. Among equal values
    the earlier tuples stay.

    Meaning: ``org.apache.storm.trident.operation.builtin.FirstN``, which fails at a null.

    >>> from trident import FirstN, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> batch = [("ox", 3), ("cow", None), ("ewe", 7)]
    >>> herds = TridentTopology().newStream("herds", FixedBatchSpout("name string, n long", [batch]))
    >>> herds.applyAssembly(FirstN(2, "n", reverse=True)).take(5)
    [Row(name='ewe', n=7), Row(name='ox', n=3)]
    """

    def __init__(self, n: int, sortField: str | None = None, reverse: bool = False) -> None:
        check_whole_number("n", n, error=lambda problem: TopologyError(f"FirstN: {problem}"))
        if reverse and sortField is None:
            raise TopologyError("FirstN: reverse=True needs a sortField; write FirstN(n, 'field', True)")
        self.n, self.sortField, self.reverse = n, sortField, reverse

    def apply(self, stream: ExtremeVerbs[StreamT]) -> StreamT:
        """Return `stream` with at most `n` tuples of each batch."""
        return stream._first(self.n, self.sortField, self.reverse)

    def __repr__(self) -> str:
        return f"FirstN({self.n}, {self.sortField!r}, {self.reverse})"
