"""Values from outside, at random, at every door of the library: ``python -m tests.base.value_fuzzer SEED COUNT``.

The process that runs this may die, because a value that Arrow does not bear ends it. So a test starts it as a child.
Before each case, the number of the case is written to standard output's file, which outlives the process. A case is
drawn from the seed and its number alone: ``python -m tests.base.value_fuzzer SEED 1 NUMBER`` draws it again.
"""

import datetime
import decimal
import json
import math
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import DRPCArgumentError, SpoutContractError, StateKeyError
from trident.base.json_values import from_json, read_json
from trident.base.spark_types import arrow_type, parse_schema, parse_type
from trident.base.value_conversion import NotAccepted, to_arrow, to_python
from trident.drpc.local import Arguments
from trident.operations.json_values import FromJson
from trident.reads.keys_from_json import key_of_text
from trident_spouts.files.value_conversion import ValueReader
from trident_spouts.rows import table_of

SCALARS = [
    "boolean", "tinyint", "smallint", "int", "long", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "decimal(1,0)", "decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(38,38)",
]  # fmt: skip
TEXTS = [
    "", "x", "NaN", "nan", "Infinity", "-inf", "-0", "0.0", "1e5", "1e-77", "1e-99999999", "1E+99999999", "0e-99999999",
    "1e400", "-1e-400", "1e39", "9" * 39, "9" * 5000, "0." + "0" * 60 + "1", "١٢", "²", "0x10", "1_000", " 1", "1 ",
    "\u0000", "\ud800", "a\udfffb", "\U0001f600", "\ufeff1", "null", "[1]", "[" * 3000, '{"a":' * 3000, '["x", 1]',
    '"\\ud800"', "0001-01-01", "9999-12-31", "10000-01-01", "2024-02-30", "20240101", "2024-W01-1", "AAAA", "A", "=",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2024-01-01T00:00:00.1234567891", "2024-01-01T00:00:00",
    "2024-01-01T00:00:00Z", "2024-01-01T24:00:00Z", "1969-12-31T23:59:59.999999+00:00:30",
]  # fmt: skip


_HALVES = re.compile("[\ud800-\udfff]")


class Shy:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("not for you")


def deep(levels: int) -> list[Any]:
    """Return a list within lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


UTC, FAR = datetime.UTC, datetime.timezone(datetime.timedelta(hours=14))
ODD: list[Callable[[], Any]] = [
    lambda: None, lambda: True, lambda: object(), Shy, lambda: deep(5000), lambda: {1, 2}, lambda: float("nan"),
    lambda: math.inf, lambda: -0.0, lambda: 5e-324, lambda: 10**5000, lambda: -(2**63), lambda: 2**64, lambda: 1j,
    lambda: numpy.datetime64("2024-01-01T00:00:00.1", "ns"), lambda: numpy.float32(0.1), lambda: numpy.longdouble(1),
    lambda: numpy.array(5), lambda: numpy.array([1, 2]), lambda: numpy.uint64(2**64 - 1), lambda: numpy.void(b"ab"),
    lambda: decimal.Decimal("sNaN"), lambda: decimal.Decimal("-Infinity"), lambda: decimal.Decimal((1, (0,) * 99, -99)),
    lambda: datetime.datetime.min.replace(tzinfo=FAR), lambda: datetime.datetime.max, lambda: datetime.date.min,
    lambda: datetime.datetime(2024, 1, 1, tzinfo=UTC), lambda: datetime.timedelta(1), lambda: memoryview(b"ab"),
    lambda: bytearray(b"\xff"), lambda: {"a": 1, "A": 2}, lambda: {None: 1}, lambda: {"\ud800": "\ud800"}, lambda: (),
]  # fmt: skip


def a_kind(draw: random.Random, depth: int = 2) -> str:
    """Draw a type."""
    shape = draw.choice(["scalar"] * 6 + ["array", "map", "struct"]) if depth else "scalar"
    if shape == "array":
        return f"array<{a_kind(draw, depth - 1)}>"
    if shape == "map":
        return f"map<{a_kind(draw, 0)},{a_kind(draw, depth - 1)}>"
    if shape == "struct":
        return f"struct<x:{a_kind(draw, depth - 1)},y:{a_kind(draw, depth - 1)}>"
    return draw.choice(SCALARS)


def a_number(draw: random.Random) -> str:
    """Draw a number as text, often at the limit of a type."""
    digits = str(draw.getrandbits(draw.choice([1, 8, 31, 63, 64, 126, 130])))
    fraction = "." + "".join(draw.choices("0123456789", k=draw.randint(1, 45))) if draw.random() < 0.5 else ""
    limit = draw.choice([3, 20, 45, 80, 320, 10**8])
    exponent = f"e{draw.randint(-limit, limit)}" if draw.random() < 0.4 else ""
    return draw.choice(["", "-"]) + digits + fraction + exponent


def _can_be_key(value: Any) -> bool:
    try:
        hash(value)
    except (TypeError, ValueError):
        return False
    return True


def a_value(draw: random.Random, kind: pa.DataType) -> Any:
    """Draw a value, as a function or a program might give it for this type; often one that does not fit."""
    if draw.random() < 0.15:
        return draw.choice(ODD)()
    if kinds.is_list(kind):
        return [a_value(draw, kind.value_type) for _ in range(draw.randint(0, 3))]
    if kinds.is_struct(kind):
        return {kind.field(at).name: a_value(draw, kind.field(at).type) for at in range(kind.num_fields)}
    if kinds.is_map(kind):
        items = [(a_value(draw, kind.key_type), a_value(draw, kind.item_type)) for _ in range(draw.randint(0, 3))]
        return {key: item for key, item in items if _can_be_key(key)}
    text = a_number(draw) if draw.random() < 0.6 else draw.choice(TEXTS)
    form = draw.choice(["text", "bytes", "decimal", "int", "float", "time"])
    try:
        if form == "bytes":
            return text.encode()
        if form == "decimal":
            return decimal.Decimal(text)
        if form == "int":
            return int(text.split(".")[0].split("e")[0])
        if form == "float":
            return float(text)
        if form == "time":
            micros = draw.randint(-62_135_596_800_000_000, 253_402_300_799_999_999)
            moment = datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=micros)
            return draw.choice([moment, moment.replace(tzinfo=None), moment.date(), moment.astimezone(UTC)])
    except (ValueError, ArithmeticError):
        pass
    return text


def same(value: Any, back: Any, kind: pa.DataType) -> bool:
    """Return whether a column of this type gave back the value that it took, to the last digit."""
    if value is None or back is None:
        return value is back
    if isinstance(value, numpy.generic):
        value = value.item()
    if kinds.is_list(kind):
        return len(value) == len(back) and all(same(a, b, kind.value_type) for a, b in zip(value, back, strict=True))
    if kinds.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        given = value if isinstance(value, dict) else dict(zip(names, value, strict=True))
        return all(same(given.get(name), back[name], kind.field(at).type) for at, name in enumerate(names))
    if kinds.is_map(kind):
        pairs = zip(value.items(), back.items(), strict=True)
        return all(same(a, b, kind.key_type) and same(v, w, kind.item_type) for (a, v), (b, w) in pairs)
    if kinds.is_floating(kind):
        with numpy.errstate(over="ignore"):
            nearest = float(numpy.float32(value)) if kinds.is_float32(kind) else float(value)
        return nearest == back or (nearest != nearest and back != back)
    if kinds.is_decimal(kind):
        return decimal.Decimal(value) == back
    if kinds.is_binary(kind):
        return bytes(value) == back
    return bool(value == back) and (kinds.is_boolean(kind) == isinstance(value, bool))


# --- doors --------------------------------------------------------------------------------------------------------


def by_column(draw: random.Random, declared: str, kind: pa.DataType) -> object:
    """A user's function returns a value."""
    value = a_value(draw, kind)
    (back,) = to_python(to_arrow([value], kind))
    assert same(value, back, kind), f"{value!r} became {back!r}"
    return back


def by_row(draw: random.Random, declared: str, kind: pa.DataType) -> object:
    """A spout gives a row."""
    value = a_value(draw, kind)
    return to_python(table_of([(value,)], parse_schema(f"v {declared}"), "here").column(0))


def by_argument(draw: random.Random, declared: str, kind: pa.DataType) -> object:
    """A program calls a DRPC function."""
    return _called(declared, a_value(draw, kind))


def _called(declared: str, value: Any) -> object:
    arguments = Arguments("f", parse_schema(f"v {declared}"))
    bound = arguments.bind([value], {})
    try:
        return arguments.columns([bound])
    except Exception as error:
        raise AssertionError("an argument that was taken cannot be sent on") from error


def a_json(draw: random.Random, kind: pa.DataType) -> Any:
    """Draw a value as a request's body brings it."""
    if draw.random() < 0.15:
        return draw.choice([None, True, [], {}, [[1]], {"x": 1}, {"[" * 5000: 1}, {"1": 1, "1.0": 2, "1.00": 3}, 1e308])
    if kinds.is_list(kind):
        return [a_json(draw, kind.value_type) for _ in range(draw.randint(0, 3))]
    if kinds.is_struct(kind):
        return {kind.field(at).name: a_json(draw, kind.field(at).type) for at in range(kind.num_fields)}
    if kinds.is_map(kind):
        return {a_text(draw): a_json(draw, kind.item_type) for _ in range(draw.randint(0, 3))}
    text = a_text(draw)
    if draw.random() < 0.5:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text


def a_text(draw: random.Random) -> str:
    """Draw a text that may be meant as a number, a time or JSON."""
    return a_number(draw) if draw.random() < 0.5 else draw.choice(TEXTS)


def by_body(draw: random.Random, declared: str, kind: pa.DataType) -> object:
    """A client sends an argument over HTTP."""
    return _called(declared, from_json(a_json(draw, kind), kind))


def by_key(draw: random.Random, declared: str, kind: pa.DataType) -> object:
    """A client or a shell asks for a key of a state."""
    fields = pa.schema({"v": kind, **({"w": pa.int64()} if draw.random() < 0.3 else {})})
    text = a_text(draw) if len(fields) == 1 else f"[{a_text(draw)}, {draw.choice(['7', a_text(draw)])}]"
    key = key_of_text(text, fields, "counts")
    parts = (key,) if len(fields) == 1 else key
    backs = [to_python(to_arrow([part], field.type))[0] for part, field in zip(parts, fields, strict=True)]
    if len(fields) == 1 and kinds.is_decimal(kind) and backs[0] is not None:
        written = read_json(text)
        assert written == backs[0] or decimal.Decimal(str(written)) == backs[0], f"{text!r} became {backs[0]!r}"
    return backs


def by_member(draw: random.Random, declared: str, kind: pa.DataType) -> object:
    """A message holds JSON."""
    text = json.dumps({"v": a_json(draw, kind)}) if draw.random() < 0.5 else f'{{"v": {a_text(draw)}}}'
    return to_arrow(list(FromJson(f"v {declared}")(text)), kind)


def by_cell(draw: random.Random, declared: str, kind: pa.DataType) -> object:
    """A file holds texts."""
    reader = ValueReader(lenient=draw.random() < 0.5, zone=draw.choice([None, "UTC"]))
    return to_arrow([reader.from_text(a_text(draw), kind)], kind) if not kinds.is_nested(kind) else None


DOORS: dict[Callable[[random.Random, str, pa.DataType], object], tuple[type[Exception], ...]] = {
    by_column: (NotAccepted,),
    by_row: (SpoutContractError,),
    by_argument: (DRPCArgumentError,),
    by_body: (ValueError, DRPCArgumentError),
    by_key: (StateKeyError, NotAccepted),
    by_member: (ValueError,),
    by_cell: (ValueError, decimal.InvalidOperation),
}
"""The doors, each with the errors that its callers expect."""


def case(seed: int, number: int) -> str:
    """Take one value through one door. Return "taken" or "refused"; any other error is a fault."""
    draw = random.Random(f"{seed}/{number}")
    door, refusals = draw.choice(list(DOORS.items()))
    declared = a_kind(draw)
    at = f"case {number}: {door.__name__} as {declared}"
    try:
        door(draw, declared, arrow_type(parse_type(declared)))
    except refusals as error:
        assert not _HALVES.search(str(error)), f"{at}: nobody can send or log the message {str(error)!r}"
        assert not isinstance(error, UnicodeError), f"{at}: the encoder's error came out"
        return "refused"
    except BaseException as error:
        raise AssertionError(f"{at}: {type(error).__name__}") from error
    return "taken"


def main(seed: int, count: int, first: int = 0) -> None:
    """Draw `count` cases. The last line of the output is the case that the process is at, or what came of all."""
    came = {"taken": 0, "refused": 0}
    for number in range(first, first + count):
        if number % 100 == 0 or count < 100:
            print(f"from case {number}", flush=True)
        came[case(seed, number)] += 1
    print(json.dumps(came), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
