"""Counters and warnings of user code in a step: gathered where the step runs, and sent with its measures."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from trident.base.short_texts import brief, shorten

MOST = 50
"""The most counters, and the most warnings, of a step in a batch. Further ones are added up as `OTHER`."""

OTHER = "other"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Notes:
    """The counters and warnings of one step.

    >>> notes = Notes()
    >>> notes.warn("no price", "tea")
    >>> notes.warn("no price", "milk")
    >>> (notes + notes).as_dict()
    {'warnings': {'no price': {'number': 4, 'example': "'tea'"}}}
    """

    counts: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    """For each warning the number of its occurrences, and the first example."""

    def count(self, name: str, by: int) -> None:
        """Add to a counter."""
        name = _kept(name, self.counts)
        self.counts[name] = self.counts.get(name, 0) + by

    def warn(self, text: str, example: object) -> None:
        """Count a warning, and keep its first example."""
        known = self.warnings.get(text)
        new = example is not None and (known is None or known[1] is None)
        self._add(text, 1, brief(example) if new else None)

    def _add(self, text: str, number: int, example: str | None) -> None:
        text = _kept(text, self.warnings)
        before, first = self.warnings.get(text, (0, example))
        self.warnings[text] = before + number, example if first is None else first

    def __bool__(self) -> bool:
        return bool(self.counts or self.warnings)

    def __add__(self, other: "Notes") -> "Notes":
        """Return the notes of both."""
        both = Notes(dict(self.counts), dict(self.warnings))
        for name, by in other.counts.items():
            both.count(name, by)
        for text, (number, example) in other.warnings.items():
            both._add(text, number, example)
        return both

    def as_dict(self) -> dict[str, Any]:
        """Return the notes as progress events show them."""
        warned = {text: {"number": number, "example": example} for text, (number, example) in self.warnings.items()}
        return ({"counts": dict(self.counts)} if self.counts else {}) | ({"warnings": warned} if warned else {})


def both(first: Notes | None, second: Notes | None) -> Notes | None:
    """Return the notes of two runs of a step; None if neither has any."""
    return first + second if first and second else first or second or None


_current: ContextVar[Notes | None] = ContextVar("trident_notes", default=None)
"""The notes of the step that runs in this thread."""


@contextmanager
def noting(notes: Notes | None) -> Iterator[None]:
    """Gather the notes of user code in this block."""
    token = _current.set(notes)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def noting_if_it_ends() -> Iterator[None]:
    """Discard the notes of user code in this block if the block raises."""
    notes = _current.get()
    before = None if notes is None else (dict(notes.counts), dict(notes.warnings))
    try:
        yield
    except BaseException:
        if notes is not None and before is not None:
            notes.counts, notes.warnings = before
        raise


def addToCounter(name: str, by: int = 1) -> None:
    """Add to a counter of the step that runs. Call it in a function of a stream, on any engine.

    The counts of the committed attempt of each batch are in its progress event, ``steps[...]["counts"]``, and in the
    metric ``trident_user_counts_total``. Attempts that failed, and partitions that Spark computes again, add nothing.
    A step has at most 50 counters in a batch; further names are added up as "other". Called outside of a step, as in
    `prepare` or in the code of a driver, it only writes to the log. Meaning: ``TopologyContext.registerCounter``.

    Raises
    ------
    TypeError
        `name` is not a text, or `by` is not a whole number of at least 0.

    >>> from trident import TridentTopology, addToCounter
    >>> from trident.spouts import FixedBatchSpout
    >>> def positive(n):
    ...     if n <= 0:
    ...         addToCounter("not positive")
    ...     return n > 0
    >>> topology = TridentTopology()
    >>> _ = topology.newStream("n", FixedBatchSpout("n long", [[1, 0, -2]])).filter("n", positive).peek(lambda t: None)
    >>> with topology.start(engine="embedded", name="counted") as running:
    ...     running.processAllAvailable()
    ...     print(running.lastProgress["steps"][0]["counts"])
    {'not positive': 2}
    """
    if not isinstance(name, str) or not isinstance(by, int) or by < 0:  # a counter of Prometheus only grows
        raise TypeError(f"addToCounter({brief(name)}, {brief(by)}): expected a name and a whole number of at least 0")
    if (notes := _current.get()) is None:
        logger.warning("addToCounter(%r, %d) outside of a step: it is not counted", name, by)
    else:
        notes.count(name, by)


def warn(text: str, example: object = None) -> None:
    """Report something odd in a function of a stream, without failing the batch. `example` shows one case.

    The warnings of the committed attempt of each batch are in its progress event, ``steps[...]["warnings"]``: each text
    with its ``number`` and the first ``example``, shortened. The metric ``trident_user_warnings_total`` counts them. A
    step has at most 50 texts in a batch, so leave values out of the text: they belong into the example. Called outside
    of a step, it writes to the log.

    Raises
    ------
    TypeError
        `text` is not a text.

    >>> from trident import TridentTopology, warn
    >>> from trident.spouts import FixedBatchSpout
    >>> def euro(price):
    ...     if price < 0:
    ...         warn("a price below 0", price)
    ...     return price * 0.9
    >>> topology = TridentTopology()
    >>> prices = topology.newStream("prices", FixedBatchSpout("price double", [[1.0, -2.0, -3.0]]))
    >>> _ = prices.each("price", euro, "euro double").peek(lambda t: None)
    >>> with topology.start(engine="embedded", name="warned") as running:
    ...     running.processAllAvailable()
    ...     print(running.lastProgress["steps"][0]["warnings"])
    {'a price below 0': {'number': 2, 'example': '-2.0'}}
    """
    if not isinstance(text, str):
        raise TypeError(f"warn({brief(text)}): expected a text")
    if (notes := _current.get()) is None:
        logger.warning("%s%s", text, "" if example is None else f"; for example {brief(example)}")
    else:
        notes.warn(text, example)


def _kept(name: str, known: dict[str, Any]) -> str:
    if name in known:
        return name
    name = shorten(name)
    return name if name in known or len(known) < MOST else OTHER
