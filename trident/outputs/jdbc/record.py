"""The record of an output in the database: a row of the table _trident_outputs, in the schema of the target table."""

import logging
from typing import Any

from trident.base.attempt import Lease
from trident.base.errors import OutputConflictError, OutputRefusedError
from trident.outputs.jdbc.table import Table
from trident.outputs.writer_record import WriterRecord
from trident_spouts.jdbc.relation import literal

_log = logging.getLogger("trident.outputs")

NAME = "_trident_outputs"
_FORMAT = 1
_OID = " oid "
"""Before the number of the table, in the field `target`."""


class JdbcRecord:
    """Reads and writes the record of one output, within a transaction of the caller."""

    def __init__(self, output: str, table: Table, step: str) -> None:
        self._output, self._step = output, step
        self.table = f'{table.schema}."{NAME}"'
        self.place = f"the row {output!r} of {self.table}"

    def prepare(self, connection: Any) -> None:
        """Create the table of records if it is missing. Other drivers that start wait until the transaction ends.

        Raises OutputRefusedError if the table would not survive a crash.
        """
        connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (self.table,))
        found = connection.execute(
            "select relpersistence::text from pg_class where oid = to_regclass(%s)", (self.table,)
        ).fetchone()
        if found is None:
            connection.execute(self.ddl)
        elif found[0] != "p":
            raise OutputRefusedError(
                f"{self._step}: {self.table} is unlogged: a crash of the server would empty it, and the rows of the "
                f"batches would stay without their record; ALTER TABLE {self.table} SET LOGGED"
            )

    @property
    def ddl(self) -> str:
        """The SQL that creates the table."""
        return (
            f"create table if not exists {self.table} (output text primary key, format integer not null, "
            f"target text not null, txid bigint not null, digest text not null, log text not null, "
            f"epoch bigint not null, token text not null, written timestamptz not null)"
        )

    def read(self, connection: Any, table: Table) -> WriterRecord | None:
        """Return the record, and lock it until the transaction ends; None if there is none.

        Raises OutputConflictError if the output wrote into a table other than `table`.
        """
        query = f"select format, target, txid, digest, log, epoch, token from {self.table} where output = %s for update"
        row = connection.execute(query, (self._output,)).fetchone()
        if row is None:
            return None
        form, target, txid, digest, log, epoch, token = row
        if form != _FORMAT:
            raise OutputConflictError(
                f"{self._step}: {self.place} has the format {form}, and this version of the library reads only the "
                f"format {_FORMAT}: give the output another name="
            )
        self._check_target(*_target_from(target), table, txid)
        return WriterRecord(txid, digest, log, Lease(epoch, token))

    def outputs(self, connection: Any, table: Table) -> dict[str, int]:
        """Return the last batch of each output into the table, of any topology, by "topology/output"."""
        query = f"select output, txid from {self.table} where target = %s"
        return dict(connection.execute(query, (f"{table.name}{_OID}{table.oid}",)).fetchall())

    def _check_target(self, name: str, oid: int | None, table: Table, txid: int) -> None:
        """Raise OutputConflictError for another table, and warn of a table that was recreated after batch `txid`."""
        if name != table.name:
            raise OutputConflictError(
                f"{self._step}: {self.place} belongs to an output into {name}, and this one writes into {table.name}: "
                f"give the output another name=, so that it begins there after the last committed batch; or, if the "
                f"table was renamed, UPDATE {self.table} SET target = {literal(table.name)} WHERE output = "
                f"{literal(self._output)}"
            )
        if txid and oid not in (None, table.oid):
            _log.warning(
                "%s: the table %s was recreated after batch %d was written there: the rows up to this batch are in it "
                "only if they were copied",
                self._step, name, txid,
            )  # fmt: skip

    def write(self, connection: Any, record: WriterRecord, table: Table) -> None:
        """Put a record in place of the former one."""
        lease, target = record.lease, f"{table.name}{_OID}{table.oid}"
        values = (self._output, _FORMAT, target, record.txid, record.digest, record.log, lease.epoch, lease.token)
        connection.execute(
            f"insert into {self.table} values (%s, %s, %s, %s, %s, %s, %s, %s, now()) on conflict (output) do update "
            f"set target = excluded.target, txid = excluded.txid, digest = excluded.digest, log = excluded.log, "
            f"epoch = excluded.epoch, token = excluded.token, written = excluded.written",
            values,
        )


def _target_from(target: str) -> tuple[str, int | None]:
    """Return the name of a table and its number; None if a user has set the name alone."""
    name, _, oid = target.rpartition(_OID)
    return (name, int(oid)) if oid.isdigit() else (target, None)
