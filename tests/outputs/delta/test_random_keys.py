"""Random changes by keys of hard types: the table holds the rows of a model, over checkpoints and compactions."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.outputs.delta.outlets import outlet, rows
from tests.support.soak import Soak
from trident.base.spark_types import arrow_schema, parse_schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS = ("a", "b" * 40, "b" * 39 + "c", "é" * 20, "\U0010ffff" * 9, "%", "'", "NULL", "null", "x" * 2000, "\0", "")
_HARD: dict[str, tuple[Any, ...]] = {
    "string": _TEXTS,
    "binary": (b"", b"\0", b"\xff", b"\xff" * 40, b"a"),
    "double": (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -1.5, 1e308),
    "float": (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5),
    "long": (2**63 - 1, -(2**63), 0, 2**53, 2**53 + 1),
    "boolean": (True, False),
    "decimal(20,10)": (Decimal(0), Decimal("1.0000000001"), Decimal("-7.5"), Decimal("9" * 10)),
    "date": (date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(1970, 1, 1)),
    "timestamp": (datetime(1, 1, 1, tzinfo=UTC), *(_EPOCH + timedelta(microseconds=at) for at in (-1, 0, 1, 10**9))),
}
_KINDS = ("insert", "insert", "update_postimage", "update_preimage", "delete")


def _same(value: Any) -> Any:
    """Return a value that is equal for values that are one key."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def agree(place: Path, chance: Random) -> None:
    """Write random batches, and compare the table with a model after each."""
    types = chance.sample(sorted(_HARD), chance.choice((1, 1, 2)))
    names = tuple(f"k{at}" for at in range(len(types)))
    partitions = ("k0",) if types[0] in ("string", "long", "boolean", "date") and chance.random() < 0.4 else ()
    fields = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    fields += ", v long, _change_type string"
    schema = arrow_schema(parse_schema(fields))
    made, model, number = outlet(place, fields, key=names, changes=True, partitions=partitions), dict[Any, int](), 0
    for txid in range(1, chance.randint(3, 9)):
        batch = list[dict[str, Any]]()
        for _ in range(chance.randint(1, 12)):
            key = tuple(chance.choice(_HARD[kind]) for kind in types)
            if partitions and key[0] in ("", "x" * 2000):
                continue  # no such text names a folder
            number, kind = number + 1, chance.choice(_KINDS)
            batch.append({**dict(zip(names, key, strict=True)), "v": number, "_change_type": kind})
            model.pop(tuple(map(_same, key)), None)
            if kind in ("insert", "update_postimage"):
                model[tuple(map(_same, key))] = number
        made.take(pa.Table.from_pylist(batch, schema=schema), txid)
        if chance.random() < 0.2:
            DeltaTable(str(place)).optimize.compact()
        if chance.random() < 0.2:
            DeltaTable(str(place)).create_checkpoint()
        held = rows(place, *names, "v")
        assert len(held) == len(model), (types, partitions)
        assert {tuple(map(_same, row[:-1])): row[-1] for row in held} == model, (types, partitions)


def test_some_random_changes(tmp_path: Path) -> None:
    for seed in range(6):
        agree(tmp_path / str(seed), Random(seed))


@pytest.mark.soak
def test_many_random_changes(tmp_path: Path, soak: Soak) -> None:
    for number, chance in enumerate(soak.draws(6)):
        agree(tmp_path / str(number), chance)
