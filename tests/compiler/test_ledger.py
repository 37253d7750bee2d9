"""The ledger of one attempt, by itself: Storm's XOR, and what it says of lost, doubled, shuffled and stale reports."""

import random

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident.base.errors import LedgerError
from trident.compiler.tracking.ledger import Ledger, Report, Root, Taken, report_in
from trident.compiler.tracking.tokens import Edge, Tally, row_ids

SECRET = b"secret"


def report(ledger: Ledger, step: str, arrived: list[str], sent: list[str]) -> None:
    """Take the report of a step that got one tuple over each edge of `arrived`, and sent one over each of `sent`.

    An edge of the ledger leads from one step: a step with several edges reports once for each.
    """
    got = {edge: {0: (1, token(ledger, edge))} for edge in arrived}
    for edge in sent or [f"{step} ends"]:
        rows, value = (1, token(ledger, edge)) if sent else (0, 0)
        assert ledger.take(Report(edge, 0, ledger.edge(edge).seal(0), rows, value, got)) is Taken.COUNTED
        got = {}


def token(ledger: Ledger, edge: str) -> int:
    return ledger.edge(edge).tally(row_ids(0, 0, 1)).value


def test_the_value_goes_through_storms_five_steps_to_0() -> None:
    ledger = Ledger(SECRET, "1:0")
    t = [0, *(token(ledger, f"T{n}") for n in range(1, 8))]
    values = []
    for step, arrived, sent in (
        ("spout", [], ["T1", "T2"]),
        ("bolt 1", ["T1"], ["T3", "T4"]),
        ("bolt 2", ["T2"], ["T5", "T6", "T7"]),
        ("bolt 3", ["T3", "T4"], []),
        ("bolt 4", ["T5", "T6", "T7"], []),
    ):
        report(ledger, step, arrived, sent)
        values.append(ledger.value)
        assert ledger.done is (step == "bolt 4")
    assert values == [
        t[1] ^ t[2],
        t[2] ^ t[3] ^ t[4],
        t[3] ^ t[4] ^ t[5] ^ t[6] ^ t[7],
        t[5] ^ t[6] ^ t[7],
        0,
    ]


def job(ledger: Ledger, sizes: list[list[int]]) -> tuple[list[Report], list[tuple[str, numpy.ndarray]]]:
    """Return the reports of a job and what came to the driver.

    Partition p sends `sizes[p][q]` rows to partition q of the next step, which sends as many on to the driver.
    """
    between, sink = ledger.edge("between"), ledger.sink("sink")
    receivers = len(sizes[0])
    arrived: list[dict[int, tuple[int, int]]] = [{} for _ in range(receivers)]
    reports = []
    for sender, row in enumerate(sizes):
        start, total = 0, Tally()
        for receiver, rows in enumerate(row):
            tally = between.tally(row_ids(sender, start, start + rows))
            start, total = start + rows, total + tally
            if rows:
                arrived[receiver][sender] = (tally.rows, tally.value)
        reports.append(Report("between", sender, between.seal(sender), total.rows, total.value))
    came = []
    for receiver in range(receivers):
        ids = row_ids(receiver, 0, sum(rows for rows, _ in arrived[receiver].values()))
        tally = sink.tally(ids)
        got = {"between": arrived[receiver]}
        reports.append(Report("sink", receiver, sink.seal(receiver), tally.rows, tally.value, got))
        came.append(("sink", ids))
    return reports, came


SIZES = st.integers(1, 4).flatmap(
    lambda wide: st.lists(st.lists(st.integers(0, 5), min_size=wide, max_size=wide), min_size=1, max_size=4)
)


@given(SIZES, st.randoms(), st.booleans(), st.booleans(), st.booleans())
def test_a_ledger_is_done_exactly_when_each_report_and_row_came_once(
    sizes: list[list[int]], chance: random.Random, lose: bool, double: bool, stale: bool
) -> None:
    ledger = Ledger(SECRET, "3:1")
    reports, came = job(ledger, sizes)
    chance.shuffle(reports)
    late = job(Ledger(SECRET, "3:0"), sizes)[0] if stale else []
    lost = reports.pop() if lose else None
    again = [chance.choice(reports)] if double and reports else []
    taken = [ledger.take(each) for each in chance.sample([*reports, *late], len(reports) + len(late))]
    taken += [ledger.take(each) for each in again]
    for name, ids in came:
        ledger.arrive(name, ids)
    assert taken.count(Taken.STALE) == ledger.stale == len(late)
    assert taken.count(Taken.DUPLICATE) == len(again)
    matters = lost is not None and (lost.rows > 0 or any(lost.arrived.values()))
    assert ledger.done is (not matters and not again)
    if not ledger.done:
        with pytest.raises(
            LedgerError,
            match=r"the ledger of attempt 3:1 is not settled, so rows were lost or repeated: (between|sink), partition",
        ):
            ledger.check()


@given(SIZES, st.randoms(), st.sampled_from(["lost", "doubled", "swapped"]))
def test_one_row_more_or_less_is_found_and_its_partition_named(
    sizes: list[list[int]], chance: random.Random, what: str
) -> None:
    ledger = Ledger(SECRET, "1:0")
    reports, came = job(ledger, sizes)
    filled = [at for at, (_, ids) in enumerate(came) if len(ids) > (what == "swapped")]
    if not filled:
        return
    at = chance.choice(filled)
    name, ids = came[at]
    first, *rest = ids.tolist()
    changed = {"lost": rest, "doubled": [first, first, *rest], "swapped": [*rest[:1], *rest]}[what]
    came[at] = name, numpy.array(changed, numpy.int64)
    for each in reports:
        ledger.take(each)
    for name, ids in came:
        ledger.arrive(name, ids)
    assert ledger.value != 0
    said = {
        "lost": "1 are lost",
        "doubled": "1 too many",
        "swapped": "but not the same ones: some were lost, some arrived twice",
    }[what]
    with pytest.raises(LedgerError, match=f"sink, partition {at}: .*{said}"):
        ledger.check()


def test_a_sink_of_which_nothing_came_is_not_settled() -> None:
    ledger = Ledger(SECRET, "1:0")
    ledger.sink("counts to the driver")
    with pytest.raises(LedgerError, match="counts to the driver: none of its rows reached"):
        ledger.check()
    ledger.arrive("counts to the driver", row_ids(0, 0, 0))
    ledger.check()


@pytest.mark.parametrize(
    ("expected", "problem"), [(5, None), (None, None), (6, "emitted 6 rows, 5 arrived: 1 are lost")]
)
def test_the_rows_of_a_source_are_compared_by_number(expected: int | None, problem: str | None) -> None:
    ledger = Ledger(SECRET, "1:0")
    ledger.enter(Root("words to each", expected), 5)
    if problem is None:
        ledger.check()
    else:
        with pytest.raises(LedgerError, match=f"words to each: the source {problem}"):
            ledger.check()


def test_a_partition_that_sent_rows_and_no_report_is_named() -> None:
    ledger = Ledger(SECRET, "1:0")
    reports, came = job(ledger, [[3]])
    ledger.take(reports[0])
    ledger.arrive(*came[0])
    with pytest.raises(LedgerError, match="sink, partition 0: it did not report how many rows it sent; 3 rows arrived"):
        ledger.check()


def test_a_report_travels_as_a_line() -> None:
    sent = Report("words/3 \U0001f600 to the driver", 4, 2**64 - 1, 5, 2**63, {"a": {0: (2, 4), 7: (1, 2**64 - 1)}})
    assert report_in(sent.line()) == sent


def test_a_ledger_grows_with_partitions_and_not_with_rows() -> None:
    def size(rows: int) -> int:
        ledger = Ledger(SECRET, "1:0")
        reports, came = job(ledger, [[rows] * 3] * 4)
        for each in reports:
            ledger.take(each)
        for name, ids in came:
            ledger.arrive(name, ids)
        assert ledger.done
        return sum(map(len, ledger._senders.values()))

    assert size(100_000) == size(10) == 4 + 3


def test_tokens_of_another_attempt_or_edge_do_not_cancel() -> None:
    edges = [Edge.of(SECRET, attempt, name) for attempt in ("1:0", "1:1") for name in ("a", "b")]
    assert len({edge.tally(row_ids(0, 0, 9)).value for edge in edges}) == 4
    assert len({edge.seal(2) for edge in edges}) == 4
    many = numpy.concatenate([row_ids(partition, 0, 5) for partition in (3, 1, 2)])
    numpy.random.default_rng(1).shuffle(many)
    found = dict(edges[0].by_sender(many))
    assert found == {partition: edges[0].tally(row_ids(partition, 0, 5)) for partition in (1, 2, 3)}
