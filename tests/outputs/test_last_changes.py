"""The tuples of a batch that decide about their keys."""

from random import Random

import pyarrow as pa
import pytest

from trident.outputs.last_changes import last_of_keys

KINDS = ("insert", "update_preimage", "update_postimage", "delete")


def chosen(tables: list[pa.Table], change: str | None = "kind", consolidated: bool = False) -> list[int]:
    return [
        row for table in last_of_keys(lambda: tables, ["k"], change, consolidated) for row in table["row"].to_pylist()
    ]


def table(keys: list[int | None], kinds: list[str], first: int = 0) -> pa.Table:
    rows = list(range(first, first + len(keys)))
    return pa.table({"k": pa.array(keys, pa.int64()), "kind": pa.array(kinds, pa.string()), "row": rows})


def test_the_last_tuple_of_each_key_stays_in_its_place() -> None:
    kinds = ["insert", "update_preimage", "update_postimage", "insert", "delete", "insert"]
    whole = table([1, 1, 1, 2, 2, None], kinds)
    for tables in ([whole], [whole.slice(0, 2), whole.slice(2, 2), whole.slice(4)], [whole.slice(0, 0), whole]):
        assert chosen(tables) == [2, 4, 5]
    assert chosen([whole.slice(0, 0)]) == []
    assert chosen([]) == []


def test_a_row_that_is_added_decides_if_rows_exchange_their_keys() -> None:
    """Row 1 became row 2, and its former place was taken away afterwards."""
    exchanged = table([2, 1, 1, 2], ["insert", "delete", "insert", "delete"])
    assert chosen([exchanged], consolidated=True) == [0, 2]
    assert chosen([exchanged]) == [2, 3]
    assert chosen([exchanged.slice(0, 1), exchanged.slice(1)], consolidated=True) == [0, 2]


@pytest.mark.parametrize("consolidated", [False, True])
def test_against_a_model(consolidated: bool) -> None:
    chance = Random(7)
    for _ in range(50):
        rows = [(chance.randint(0, 5), chance.choice(KINDS)) for _ in range(chance.randint(0, 20))]
        last: dict[int, int] = {}
        for number, (key, kind) in enumerate(rows):
            beaten = consolidated and key in last and rows[last[key]][1] in ("insert", "update_postimage")
            if not beaten or kind in ("insert", "update_postimage"):
                last[key] = number
        whole = table([key for key, _ in rows], [kind for _, kind in rows])
        cut = chance.randint(0, len(rows))
        assert chosen([whole.slice(0, cut), whole.slice(cut)], consolidated=consolidated) == sorted(last.values())
