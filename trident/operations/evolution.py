"""Evolution: the declaration of a former shape of a state, and the conversion of its values to the present shape."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from trident.base.errors import TypeDeclarationError
from trident.base.names import brief
from trident.base.spark_types import arrow_type, parse_schema, parse_type
from trident.base.verb_call import Step

_USAGE = "Evolution(was, value=, by=, add=)"


@dataclass(frozen=True, eq=False)
class Evolution:
    """A former shape of a state's values, and their conversion to the present shape.

    The first batch that a start commits over a state of this shape writes all its values in the present shape. Until
    then the stored state is unchanged, and the former program can be started again. Meaning: the schema evolution and
    the state migration of Flink's state serializers. Trident has none.

    Parameters
    ----------
    was : str
        The former type of the stored values, ``"long"`` or ``"n long, total long"``, as the error of a refused start
        and ``explain(checkpointLocation=...)`` name it.
    value : callable, optional
        A function from a stored value to the new one, called once for each key; None removes the key. A struct comes
        as a Row, and an aggregator's value as its accumulator. Omitted: a type may become wider (int to long, float to
        double, a decimal with more digits), and a struct may get more fields. The function must not depend on anything
        but its argument: until the first commit, queries call it too.
    by : str, optional
        The former aggregator, ``"Count"``, if it was another one. Fields that several aggregators get in addition need
        no `by`.
    add : mapping, optional
        The values of new fields: a value, or a function of the stored value. A field of a further aggregator may be
        omitted: it begins with the aggregator's zero.

    Examples
    --------
    >>> from trident import Count, Evolution, Sum, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> sales = TridentTopology().newStream("sales", FixedBatchSpout("shop string, price long", []))
    >>> how = {"n": Count(), "total": Sum("price")}
    >>> was = Evolution(was="n long", add={"total": lambda old: 10 * old.n})
    >>> sales.groupBy("shop").persistentAggregate(MemoryMapState.opaque(), how, name="sales", evolve=was)
    TridentState('sales': shop string, n bigint, total bigint; opaque)
    """

    was: str
    value: Callable[[Any], Any] | None = None
    by: str | None = None
    add: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.was, str) or not self.was.strip():
            raise TypeError(f"was={brief(self.was)}: expected the former type of the values, such as 'long'; {_USAGE}")
        if self.value is not None and not callable(self.value):
            raise TypeError(f"value={brief(self.value)}: expected a function from a stored value to the new one")
        if self.by is not None and not isinstance(self.by, str):
            raise TypeError(f"by={brief(self.by)}: expected the name of the former aggregator, such as 'Count'")
        if not isinstance(self.add, Mapping) or not all(isinstance(name, str) for name in self.add):
            raise TypeError(f"add={brief(self.add)}: expected a mapping from new fields to their values")
        if self.value is not None and self.add:
            raise ValueError("value= returns the whole new value, so add= has no effect: pass only one of them")

    def former_type(self, step: Step) -> pa.DataType:
        """Return the type `was`. Raises TypeDeclarationError if it is neither a type nor a list of fields."""
        try:
            return arrow_type(parse_type(self.was))
        except TypeDeclarationError:
            try:
                return arrow_type(parse_schema(self.was))
            except TypeDeclarationError as error:
                raise step.error(TypeDeclarationError, f"evolve: was={self.was!r}: {error}") from None


def read_evolutions(evolve: object, step: Step) -> tuple[Evolution, ...]:
    """Return the argument `evolve` of a verb as a tuple.

    Raises TopologyError if it contains anything but Evolutions.
    """
    several = evolve if isinstance(evolve, list | tuple) else () if evolve is None else (evolve,)
    for each in several:
        if not isinstance(each, Evolution):
            raise step.wrong(f"evolve={brief(each)}: expected an {_USAGE}, or a list of them")
    return tuple(several)
