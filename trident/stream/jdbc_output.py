"""The verb that writes a stream into a table of a database."""

from typing import cast

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from trident.base.change_kinds import CHANGE
from trident.base.errors import TopologyError
from trident.base.names import FieldsLike
from trident.base.verb_call import Step
from trident.operations.upserts import Storable
from trident.plan import nodes
from trident.plan.change_order import consolidated
from trident.plan.jdbc_target import JdbcTarget
from trident.stream.base import StreamBase, StreamT
from trident.stream.keyed_outputs import row_key
from trident.stream.outputs import check_output, output_name
from trident.stream.value_checks import add_check


class JdbcOutputVerbs(StreamBase[StreamT]):
    """The verb that writes every batch into a database table."""

    __slots__ = ()

    def writeJdbc(self, url: str, table: str, *, key: FieldsLike | None = None, name: str | None = None) -> StreamT:
        """Write every tuple into a table of PostgreSQL, exactly once, and return this stream.

        Each batch is one transaction of the database, after every state of the batch group holds the batch. The
        transaction also records the batch's txid, in the table ``_trident_outputs`` of the same schema. If a batch is
        handed over again after a crash, its txid is already recorded there, and it is skipped. A driver that was
        replaced cannot write, because the record names the later driver. The driver writes: all tuples of a batch pass
        through it. Meaning: ``DataStreamWriter.foreachBatch`` with a JDBC sink, in one transaction with its progress.

        Without `key`, each tuple is a new row. With `key`, the last tuple of each key in a batch replaces the row of
        this key or inserts it. A stream of changes needs a `key`; its deletions delete rows, and which change of a key
        is the last one is decided as in `toTable`.

        Parameters
        ----------
        url : str
            ``postgresql://user@host:5432/database``, also as ``jdbc:postgresql://``; or ``env:NAME`` or ``file:path``
            that holds it. The server must be the primary.
        table : str
            The table, ``"orders"`` or ``"shop.orders"``, spelled as in the database. It must exist, with a column for
            each field; other columns keep their values, or get their defaults.
        key : str or list of str, optional
            The fields that identify a row. The table needs a primary key or unique index of exactly these columns. A
            null in one of the fields fails the batch before it is frozen.
        name : str, optional
            The output's identity over restarts; ``<stream>.writeJdbc`` if omitted.

        Raises
        ------
        OutputRefusedError
            When the topology starts: a column is missing or has another type, the key has no unique index, the user
            lacks a permission. When it runs: a constraint of the table refuses a row. The batch stays frozen.
        OutputUnavailableError
            When the topology runs: the server does not answer. The commit is repeated for `commitRetrySecs`.
        OutputConflictError
            When the topology starts: the record of the output belongs to another log, is ahead of this log, or lacks
            batches that the output wrote (a database that was restored from an older copy).
        MissingPackageError
            The package psycopg is not installed.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> orders = TridentTopology().newStream("orders", FixedBatchSpout("id long, price double", [[(1, 2.5)]]))
        >>> orders.writeJdbc("postgresql://me@localhost/shop", "orders", key="id")
        Stream(orders/0:newStream(FixedBatchSpout): id bigint, price double)
        """
        step = self._step("writeJdbc")
        check_output(self, step)
        _check_call(url, table, step)
        keys = row_key(self, key, "writeJdbc", step)
        target = JdbcTarget(url, table, keys, self._changes, consolidated(self._node))
        name = output_name(self, "writeJdbc", name, step)
        node = _with_storable(self, keys, step)
        self._register.add(self._label, nodes.WriteJdbc(node, name, target, **step.gives(self.schema)))
        return cast("StreamT", self)


def _with_storable(stream: StreamBase[StreamT], keys: tuple[str, ...], step: Step) -> nodes.Node:
    """Add the step that fails a batch, before it is frozen, if no table could store one of its tuples. Return it.

    It looks for nulls in the key fields, for U+0000 in texts, and for times that PostgreSQL would misread.
    """
    checked = [field.name for field in stream.schema.fields if _has_checked(field.dataType)]
    names = (*keys, *(name for name in checked if name not in (*keys, CHANGE)))
    return add_check(stream, names, Storable(names, len(keys)), step)


def _has_checked(kind: DataType) -> bool:
    """Return whether a value of this type can contain a string or a time, nested values included."""
    if isinstance(kind, ArrayType):
        return _has_checked(kind.elementType)
    if isinstance(kind, MapType):
        return _has_checked(kind.keyType) or _has_checked(kind.valueType)
    if isinstance(kind, StructType):
        return any(_has_checked(field.dataType) for field in kind.fields)
    return isinstance(kind, StringType | DateType | TimestampType | TimestampNTZType)


def _check_call(url: object, table: object, step: Step) -> None:
    # Imported only here, because these packages take long to load.
    from trident.base.postgres_address import check_postgres_url
    from trident_spouts.jdbc.relation import table_sql

    try:
        check_postgres_url(url)
        table_sql(table, "writeJdbc")
    except (TypeError, ValueError, TopologyError) as error:
        raise step.wrong(str(error)) from None
