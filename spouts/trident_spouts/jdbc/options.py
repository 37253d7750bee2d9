"""Options that all database spouts share: checks, a table's fields, and hidden passwords."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from trident.base.errors import TopologyError
from trident.base.secret_references import SOURCES
from trident.base.short_texts import typed_brief
from trident_spouts.jdbc.address import Address
from trident_spouts.jdbc.columns import fields_of
from trident_spouts.jdbc.database import Database
from trident_spouts.jdbc.relation import Source, look_up


def check_texts(owner: str, needed: Mapping[str, str], **texts: object) -> None:
    """Raise TopologyError for an argument that is not a text. `needed` describes those that cannot be None."""
    for name, text in texts.items():
        if not (isinstance(text, str) and text) and not (text is None and name not in needed):
            came = f"({type(text).__name__})" if name == "password" else typed_brief(text)
            raise TopologyError(f"{owner}: {name}={came}: expected {needed.get(name, 'a text')}")


def asked_fields(address: Address, patience: float, source: Source) -> StructType:
    """Return the fields of a table or query as the database describes it, by one query.

    Raises TypeDeclarationError if no field holds the values of a column exactly, and SourceUnreadableError if the
    database cannot be read.
    """
    database = Database(address, patience)
    try:
        relation = database.read(lambda session: look_up(session, source))
    finally:
        database.close()
    return fields_of(relation, source)


def shown_password(password: str | None) -> str | None:
    """Return the argument `password` for display: where the password is kept, but not the password."""
    return password if password is None or password.startswith(SOURCES) else "***"
