"""The changes of transactions that the initial rows of a stream do not include.

The rows were read in parts by primary key, one after the other. So a transaction that one part includes is also in all
later parts. For a transaction that only the later parts include, the changes of rows in the earlier parts are new; all
others are in the rows already.
"""

import json
from collections.abc import Sequence
from itertools import takewhile

from trident.base.errors import SourceChangedError
from trident_spouts.jdbc.database import Database
from trident_spouts.jdbc.relation import literal
from trident_spouts.postgres_changes.pgoutput import ANEW, Transaction, without_rows
from trident_spouts.postgres_changes.plan import Key, Last, Plan, Shown
from trident_spouts.postgres_changes.source import ChangesSource, Table


class Unseen:
    """Finds and remembers the changes that are new, for one run."""

    def __init__(self, source: ChangesSource, database: Database) -> None:
        self._source, self._database = source, database
        self._parts: dict[tuple[Last, Key], Transaction] = {}

    def of(self, table: Table, plan: Plan, transactions: Sequence[Transaction]) -> list[Transaction]:
        """Return the transactions of a plan without the changes that the rows already include."""
        bounds = [_bound(plan.shown, each.id) for each in transactions]
        divided = [
            (each, bound)
            for each, bound in zip(transactions, bounds, strict=True)
            if isinstance(bound, tuple) and (each.id, bound) not in self._parts
        ]
        if divided:
            self._divide(table, divided)
        return [
            self._parts[each.id, bound] if isinstance(bound, tuple) else each
            for each, bound in zip(transactions, bounds, strict=True)
            if bound is not False
        ]

    def forget(self, to: int) -> None:
        """Drop the parts of transactions up to an LSN."""
        self._parts = {known: part for known, part in self._parts.items() if known[0].commit >= to}

    def _divide(self, table: Table, divided: Sequence[tuple[Transaction, Key]]) -> None:
        for _, bound in divided:
            check_key(self._source, table, bound)
        bounds = list(dict.fromkeys(bound for _, bound in divided))
        keys = [[bounds.index(bound), *key] for each, bound in divided for key in each.keys]
        query = _query(table, [[value for _, value in bound] for bound in bounds], keys)
        answers = iter([within for (within,) in self._database.read(lambda session: session.rows(query))])
        for each, bound in divided:
            self._parts[each.id, bound] = without_rows(each, [next(answers) for _ in each.keys])


def _bound(shown: Sequence[Shown], transaction: Last) -> Key | bool:
    """Return the greatest key of the rows without a transaction; True if no row includes it, False if all do."""
    if not shown or not shown[-1].shows(transaction):
        return True
    bound = None
    for part in takewhile(lambda part: not part.shows(transaction), shown):
        bound = part.upto
    return bound or False


def check_key(source: ChangesSource, table: Table, bound: Key) -> None:
    """Raise SourceChangedError if the table's primary key is not the one by which its rows were read."""
    then, now = [name for name, _ in bound], [column.name for column in table.key]
    if then != now:
        raise SourceChangedError(
            f"{source.name}: the first rows were read in parts by their primary key ({', '.join(then)}), and the "
            f"primary key is now {', '.join(now) or 'gone'}. To continue, {ANEW}"
        )


def _query(table: Table, bounds: list[list[str]], keys: list[list[object]]) -> str:
    """Return the SQL that compares each key with its bound, as the table's index does.

    `keys`: each key begins with the number of its bound.
    """

    def columns(first: int) -> list[str]:
        return [
            f"(value ->> {at})::{column.type} {column.collation}" for at, column in enumerate(table.key, start=first)
        ]

    names = [f"k{at}" for at in range(len(table.key))]
    named = ", ".join(f"{sql} as {name}" for sql, name in zip(columns(0), names, strict=True))
    return (
        f"with bounds as materialized (select place - 1 as number, {named} from {_elements(bounds)}) "
        f"select row({', '.join(columns(1))}) <= row({', '.join(names)}) from {_elements(keys)} "
        f"join bounds on number = (value ->> 0)::int order by place"
    )


def _elements(values: object) -> str:
    return f"json_array_elements({literal(json.dumps(values, ensure_ascii=False))}) with ordinality as e(value, place)"
