"""The examination of a database that a spout reads, for `trident doctor`: what a first plan would find out."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from trident.base.errors import TridentError
from trident.base.finding import Finding, Now
from trident.base.postgres_examination import Question, examine_database
from trident_spouts.jdbc.address import Address
from trident_spouts.jdbc.database import Database, Session


def examine_source(
    address: Address, look: Callable[[Session], Any], now: Now, *questions: Question
) -> Iterator[Finding]:
    """Yield the faults of a database, then the error that `look` raises, which opens the source as a plan does."""
    about = f"{address.owner} at {address.shown}"
    found = list(examine_database(about, address.url, address.user, address.password, "jdbc", now, *questions))
    yield from found
    if any(finding.grave for finding in found):
        return
    try:
        with closing(Database(address, 0.0)) as database:
            database.read(look)
    except TridentError as error:
        todo = "Follow the message: it names the table, column, right or setting, and the statement that changes it"
        yield Finding(about, str(error), "the first batch cannot be planned", todo)
