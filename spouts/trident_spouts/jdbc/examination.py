"""The checks of a database source for `trident doctor`: those of a first plan."""

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
    """Yield the faults of a database, then the error of `look`, which opens the source like a plan."""
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
