"""The source of a run: its settings, and its description in the database."""

import hashlib
from typing import NamedTuple

from pyspark.sql.types import StructType

from trident.base.errors import TopologyError
from trident_spouts.jdbc.address import Address
from trident_spouts.jdbc.column_origin import Origin, origin_of
from trident_spouts.jdbc.columns import RowFormat, row_format
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.growing_column import in_utc
from trident_spouts.jdbc.losses import OnDataLoss
from trident_spouts.jdbc.order_column import OrderColumn, order_column
from trident_spouts.jdbc.relation import Relation, Source, look_up
from trident_spouts.jdbc.table_identity import TableIdentity, place_of

LATEST = "latest"


class JdbcSource(NamedTuple):
    """The settings of a JdbcSpout that a run needs; see its parameters."""

    address: Address
    source: Source
    schema: StructType
    order: str
    snapshot: bool
    opaque: bool
    starting: str | None
    lag: float
    on_data_loss: OnDataLoss
    limit: int
    partitions: int
    patience: float

    @property
    def query_digest(self) -> str | None:
        """A digest of the query's text without spaces and line ends; None if a table is read."""
        query = self.source.query
        return None if query is None else hashlib.sha256(" ".join(query.split()).encode()).hexdigest()[:16]


class Opened(NamedTuple):
    """The database's description of the source at one moment."""

    relation: Relation
    format: RowFormat
    column: OrderColumn
    origin: Origin
    query_digest: str | None

    def place(self, session: Session) -> TableIdentity:
        """Return the identity of the table. This transaction must have read the source before."""
        return place_of(session, self.origin, self.query_digest)


def opened(session: Session, source: JdbcSource) -> Opened:
    """Return the description. Raises TypeDeclarationError if the type of a column does not fit its field."""
    relation = look_up(session, source.source)
    column = order_column(relation, source.source, source.order, texts=source.snapshot)
    form = row_format(relation, source.source, source.schema)
    origin = origin_of(session, relation, source.source, source.order)
    column = column._replace(digits=origin.digits, utc=in_utc(origin))
    return Opened(relation, form, column, origin, source.query_digest)


def check_starting(column: OrderColumn, starting: str | None) -> None:
    """Raise TopologyError if a stream cannot begin after the value `starting`, because the column has another type."""
    if starting in (None, LATEST):
        return
    try:
        fits = column.type.read(str(starting))
        zoned = getattr(fits, "tzinfo", None) is not None
        if zoned == (column.type_name == "timestamp with time zone"):
            return
    except (ValueError, ArithmeticError):
        pass
    raise TopologyError(
        f"JdbcSpout: {column.source.name}: startingFrom={starting}: expected a value of type {column.type_name}, "
        f"the type of {column.name!r}"
    )
