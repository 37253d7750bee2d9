"""The folders of a partitioned Parquet output: which rows of a table go into which."""

import datetime
import random

import numpy as np
import pyarrow as pa
import pytest

from trident.base.folder_names import escaped
from trident.compiler.parquet_files import split
from trident.compiler.row_order import noted

VALUES = {
    "text": (pa.string(), [None, "", "x", "y/z", "é", "a=b"]),
    "number": (pa.int64(), [None, 1, 2, -3]),
    "flag": (pa.bool_(), [None, True, False]),
    "day": (pa.date32(), [None, datetime.date(2020, 1, 1), datetime.date(1, 1, 1)]),
}


def row_by_row(table: pa.Table, partitions: list[str]) -> dict[str, list[int]]:
    """Return the places of each folder's rows, folders in the order of their first rows."""
    places: dict[str, list[int]] = {}
    for at, row in enumerate(table.select(partitions).to_pylist()):
        names = [f"{name}={_shown(value)}" for name, value in row.items()]
        places.setdefault("/".join(names), []).append(at)
    return places


def _shown(value: object) -> str:
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return escaped(text) or "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize("seed", range(20))
def test_each_row_goes_into_the_folder_of_its_values(seed: int) -> None:
    draw = random.Random(seed)
    for rows in (0, 1, 2, 60):
        columns = {name: pa.array(draw.choices(values, k=rows), kind) for name, (kind, values) in VALUES.items()}
        table = pa.table({**columns, "n": pa.array(range(rows), pa.int64())})
        cut = draw.randint(0, rows)
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])  # of two chunks
        partitions = draw.sample(list(VALUES), draw.randint(1, len(VALUES)))
        expected = row_by_row(table, partitions)
        found = dict(split(table, partitions))
        assert list(found) == list(expected)
        for folder, places in expected.items():
            want = noted(table.take(places), np.array(places))
            assert found[folder].equals(want, check_metadata=True), folder


def test_rows_without_partitions_stay_together() -> None:
    table = pa.table({"n": [1, 2]})
    assert list(split(table, [])) == [("", table)]
    assert list(split(table.slice(0, 0), [])) == list(split(table.slice(0, 0), ["n"])) == []
