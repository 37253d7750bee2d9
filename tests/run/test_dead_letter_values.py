"""A dead letter comes back with the values that it had, whatever these are."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from trident import DeadLetter, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import TestOutput
from trident.testing.local import start_local

UTC = datetime.UTC
VALUES: dict[str, list[Any]] = {
    "string": ["", "\0", "é", "😀", "\u2028", '"\\', "null", None],
    "bigint": [2**63 - 1, -(2**63), 2**53 + 1, None],
    "double": [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, None],
    "float": [math.nan, -math.inf, 0.5, None],
    "binary": [b"", bytes(range(256)), None],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001"), None],
    "date": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1582, 10, 10), None],
    "timestamp": [
        datetime.datetime(1, 1, 1, tzinfo=UTC),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        None,
    ],
    "timestamp_ntz": [datetime.datetime(1, 1, 1), datetime.datetime(2024, 3, 31, 2, 30, 0, 1), None],
    "boolean": [True, False, None],
    "array<string>": [[], ["a", None, "\0"], None],
    "struct<a: bigint, b: array<struct<c: double>>>": [
        {"a": 2**60 + 1, "b": [None, {"c": math.nan}]},
        {"a": None, "b": None},
        None,
    ],
    "map<string, bigint>": [{}, {"": None, "é": 2**53 + 1}, None],
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_replayed_letter_has_the_values_that_it_had(kind: str) -> None:
    def rows(broken: bool) -> list[str]:
        left = {"broken": broken}

        def check(number: int) -> int:
            if left["broken"]:
                raise ValueError("not yet")
            return number

        topology, output = TridentTopology(), TestOutput()
        batch = list(enumerate(VALUES[kind]))
        stream = topology.newStream("rows", FixedBatchSpout(f"n bigint, v {kind}", [batch])).replayable()
        stream.each("n", check, "checked bigint", onError=DeadLetter(attempts=0)).foreachArrow(output)
        topology.deadLetterState(MemoryMapState.opaque())
        with start_local(topology) as running:
            running.processAllAvailable(timeout=30)
            if broken:
                assert output.rows == []
                left["broken"] = False
                assert running.replayDeadLetters("rows") == len(batch)
                running.processAllAvailable(timeout=30)
        return sorted(map(repr, output.rows))

    assert rows(broken=True) == rows(broken=False)
