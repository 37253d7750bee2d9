"""The change of stored values to a new shape: what is filled in, what is computed, and what is refused."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trident import Average, Count, Evolution, Max, Sum, TridentTopology
from trident.errors import StateValueError, TopologyError, TypeDeclarationError, UserFunctionError
from trident.plan.evolutions import Former, formers_of
from trident.plan.wider_types import is_wider
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState


def former(how: Any, evolve: Any, fields: str = "word string, n long") -> Former:
    stream = TridentTopology().newStream("words", FixedBatchSpout(fields, []))
    output = () if isinstance(how, dict) else ("value",)
    inputs = () if isinstance(how, dict) else ("n",)
    state = stream.groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), *inputs, how, *output, name="s", evolve=evolve
    )
    (only,) = formers_of(state._node)
    return only


def table(evolve: Any, fields: str = "word string, n long, city string") -> Former:
    stream = TridentTopology().newStream("words", FixedBatchSpout(fields, []))
    (only,) = formers_of(stream.toTable("word", name="t", evolve=evolve)._node)
    return only


def test_one_aggregate_more_begins_with_its_zero_or_by_a_function() -> None:
    more = {"n": Count(), "sum": Sum("n"), "most": Max("n"), "mean": Average("n")}
    known = former(more, Evolution("n long"))
    assert known.fingerprint == "(word string) -> struct<n: int64> by {n: Count}" and known.known
    values = known.changed(pa.array([{"n": 3}, None, {"n": 4}]))
    assert values.to_pylist()[0] == {"n": 3, "sum": 0, "most": None, "mean": {"total": 0, "count": 0}}
    assert values.to_pylist()[1] is None
    computed = former({"n": Count(), "sum": Sum("n")}, Evolution("struct<n: long>", add={"sum": lambda old: 2 * old.n}))
    assert computed.changed(pa.array([{"n": 3}])).to_pylist() == [{"n": 3, "sum": 6}]


def test_a_struct_gets_a_field_and_wider_ones() -> None:
    known = table(Evolution("n int", add={"city": "Rome"}))
    assert known.meaning == "LastOfKey"
    old = pa.array([{"n": 1}, {"n": None}, {"n": 2}], pa.struct({"n": pa.int32()}))
    assert known.changed(old.slice(1)).to_pylist() == [{"n": None, "city": "Rome"}, {"n": 2, "city": "Rome"}]
    null = table(Evolution("n long", add={"city": None}))
    assert null.changed(pa.array([{"n": 1}])).to_pylist() == [{"n": 1, "city": None}]


def test_a_function_gets_the_stored_value_and_gives_the_new_one() -> None:
    known = former(Max(), Evolution("struct<best: int>", lambda old: old.best or None, by="Mine"))
    old = pa.array([{"best": 5}, {"best": 0}], pa.struct({"best": pa.int32()}))
    assert known.changed(old).to_pylist() == [5, None]
    assert known.fingerprint == "(word string) -> struct<best: int32> by Mine" and not known.known


def test_a_wider_type_keeps_every_value() -> None:
    assert former(Sum(), Evolution("int")).changed(pa.array([2**31 - 1], pa.int32())).to_pylist() == [2**31 - 1]
    wide = former(Sum(), Evolution("decimal(20,2)"), "word string, n decimal(20,4)")
    assert wide.changed(pa.array([Decimal("1.25")], pa.decimal128(20, 2))).to_pylist() == [Decimal("1.25")]


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.int32()),
        (pa.float64(), pa.int64()),
        (pa.decimal128(10, 3), pa.decimal128(10, 2)),
        (pa.decimal128(18, 0), pa.int64()),
        (pa.string(), pa.int64()),
        (pa.struct({"a": pa.int64()}), pa.struct({"b": pa.int32()})),
        (pa.map_(pa.int64(), pa.int64()), pa.map_(pa.int32(), pa.int64())),
    ],
)
def test_a_type_that_loses_something_is_no_wider_type(wide: pa.DataType, narrow: pa.DataType) -> None:
    assert not is_wider(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (pa.float32(), pa.int16()),
        (pa.float64(), pa.float32()),
        (pa.decimal128(19, 0), pa.int64()),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.struct({"a": pa.int64()}), pa.struct({"a": pa.int32()})),
        (pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_a_cast_to_a_wider_type_is_exact(wide: pa.DataType, narrow: pa.DataType) -> None:
    assert is_wider(wide, narrow)
    assert pa.array([], narrow).cast(wide).type == wide


REFUSED = {
    r"the value cannot become 'bigint' from 'double' without a loss": lambda: former(Sum(), Evolution("double")),
    r"the field 'city' is new in .*: give the value that it has": lambda: table(Evolution("n long")),
    r"the field 'age' of .* is not in .*, so its values would be lost": lambda: table(
        Evolution("n long, age int", add={"city": ""})
    ),
    r"add= names 'town', which is not a new field": lambda: table(Evolution("n long", add={"city": "", "town": ""})),
    r"add= gives field 'city' the value 3 \(int\): expected string": lambda: table(
        Evolution("n long", add={"city": 3})
    ),
    r"'bigint' by Sum is the present shape of the state": lambda: former(Sum(), Evolution("long", lambda old: old)),
    r"two Evolutions have the same former shape, 'int' by Sum": lambda: former(
        Sum(), [Evolution("int"), Evolution("int", by="Sum")]
    ),
    r"evolve='long': expected an Evolution\(": lambda: former(Sum(), "long"),
    r"add= adds fields to a struct, but the values change from 'int' to 'bigint'": lambda: former(
        Sum(), Evolution("int", add={"a": 1})
    ),
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_cannot_become_the_present_shape_is_refused_when_the_stream_is_built(told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        REFUSED[told]()


def test_a_former_type_that_is_no_type_is_refused() -> None:
    with pytest.raises(TypeDeclarationError, match=r"persistentAggregate.*evolve: was='n lnog': "):
        former(Sum(), Evolution("n lnog"))
    with pytest.raises(TypeError, match=r"was='': expected the former type"):
        Evolution("")
    with pytest.raises(ValueError, match="pass only one of them"):
        Evolution("n long", lambda old: old, add={"m": 1})


def test_a_function_that_fails_is_named_with_the_value_that_it_got() -> None:
    fails = former(Sum(), Evolution("string", lambda old: int(old)))
    with pytest.raises(UserFunctionError, match=r"words/1:persistentAggregate.*<lambda>.*'two' \(str\)\. The stored"):
        fails.changed(pa.array(["1", "two"]))
    wrong = former(Sum(), Evolution("string", lambda old: old))
    with pytest.raises(StateValueError, match=r"returned 'x' \(str\) for the stored 'x' \(str\), expected bigint"):
        wrong.changed(pa.array(["x"]))
