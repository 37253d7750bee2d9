"""The plan of a batch: the ranges of the order column that it reads, and the data for the next plan."""

from typing import Any, NamedTuple

from trident_spouts.jdbc.pages import Page
from trident_spouts.jdbc.position_proof import Proof, proof_from

_LEAST_PAGE = 10_000
"""The least number of rows in a partition: for fewer rows, a connection and a Spark task cost more than the reading."""


class Plan(NamedTuple):
    """The plan of a batch. The log stores it as a JSON object; the next batch begins after its last value."""

    table: int | None
    """The number of the table, which changes if the table is re-created; None for a query."""
    after: str | None
    """The value after which the batch begins; None at the beginning of the table."""
    pages: tuple[Page, ...]
    proof: Proof
    """The evidence that the next plan compares with the table."""
    left: tuple[Page, ...] | None = None
    """The pages of a snapshot that later batches read; None if the table is read incrementally."""
    read: int = 0
    """The number of rows that a snapshot's batches have read, including this batch."""

    @property
    def to(self) -> str | None:
        """The value of the order column at which the batch ends."""
        return self.pages[-1].to if self.pages else self.after

    def logged(self, order: str) -> dict[str, Any]:
        """Return the plan as JSON. `order` is the name of the order column."""
        stored: dict[str, Any] = {"orderBy": order, "table": self.table, "from": self.after}
        stored |= {"pages": [page[1:] for page in self.pages], "proof": self.proof.logged()}
        if self.left is not None:
            stored |= {"left": [page[1:] for page in self.left], "read": self.read}
        return stored


def plan_from(stored: dict[str, Any]) -> Plan:
    """Return the plan in a record of the log. Raises KeyError, TypeError or ValueError if the record is not a plan."""
    after, pages = stored["from"], _pages(stored["from"], stored["pages"])
    to = pages[-1].to if pages else after
    left = _pages(to, stored["left"]) if "left" in stored else None
    return Plan(stored["table"], after, pages, proof_from(stored["proof"]), left, stored.get("read", 0))


def page_rows(limit: int, partitions: int) -> int:
    """Return the rows of a page if a batch holds up to `limit` rows.

    >>> page_rows(200_000, 8), page_rows(20_000, 8), page_rows(5, 8)
    (25000, 10000, 5)
    """
    return min(limit, max(_LEAST_PAGE, -(-limit // partitions)))


def _pages(after: str | None, stored: list[Any]) -> tuple[Page, ...]:
    """Return the pages stored in a plan.

    They are stored without their first values, because each page begins after the last value of the previous page.
    """
    pages: list[Page] = []
    for to, rows, digest in stored:
        pages.append(Page(pages[-1].to if pages else after, to, rows, digest))
    return tuple(pages)
