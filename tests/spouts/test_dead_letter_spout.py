"""The spout of dead letters that come back: its batches stay right, whichever of them is planned again."""

from typing import Any

import pytest

from trident.base.attempt import TransactionAttempt
from trident.base.errors import StateUnavailableError, TopologyError
from trident.base.spark_types import parse_schema
from trident.spouts.dead_letters import ReplaySpout

A, B = ("1.a", '{"line":"a","n":1,"more":[1]}'), ("1.b", '{"line":null,"n":null}')


class Letters:
    """A state of letters, as of some txid."""

    def __init__(self, as_of: int, *letters: tuple[str, str]) -> None:
        self.as_of, self.letters, self.away = as_of, list(letters), False

    def __call__(self) -> tuple[int, list[tuple[str, str]]]:
        if self.away:
            raise StateUnavailableError("away")
        return self.as_of, self.letters


@pytest.fixture
def spout() -> ReplaySpout:
    return ReplaySpout(parse_schema("line string, n long"), "lines", "lines/2:each(f)")


def ids(metadata: Any) -> list[str]:
    return [letter[0] for letter in metadata["letters"]]


def test_a_batch_names_its_letters_and_emits_them_from_its_plan_alone(spout: ReplaySpout) -> None:
    executor = spout.open()
    assert executor.plan(TransactionAttempt(1, 0), None, 0.0) is None
    assert spout.ask(Letters(0, A, B)) == 2
    plan = executor.plan(TransactionAttempt(2, 0), None, 0.0)
    another = ReplaySpout(parse_schema("line string, n long"), "lines", "lines/2:each(f)").open()
    rows = another.emit(TransactionAttempt(2, 1), plan).arrow().to_pylist()
    assert [(row["letter.id"], row["letter.step"], row["line"], row["n"]) for row in rows] == [
        ("1.a", None, "a", 1),
        ("1.b", None, None, None),
    ]


def test_what_is_planned_comes_in_no_later_batch_and_again_where_its_plan_was_discarded(spout: ReplaySpout) -> None:
    executor = spout.open()
    spout.ask(Letters(1, A))
    plan = executor.plan(TransactionAttempt(2, 0), None, 0.0)
    assert executor.plan(TransactionAttempt(3, 0), plan, 0.0) is None
    assert ids(executor.plan(TransactionAttempt(2, 0), None, 0.0)) == ["1.a"], (
        "the plan of 2 was void, so it is planned again"
    )
    executor.success(2, plan)
    assert executor.plan(TransactionAttempt(3, 0), None, 0.0) is None, (
        "it is committed, whatever the next batch starts from"
    )


def test_letters_are_only_read_where_the_last_replay_is_committed(spout: ReplaySpout) -> None:
    """Else one that is on its way would be found once more, because it is in its state until then."""
    executor, letters = spout.open(), Letters(1, A)
    spout.ask(letters)
    plan = executor.plan(TransactionAttempt(2, 0), None, 0.0)
    spout.ask(letters)
    assert executor.plan(TransactionAttempt(3, 0), plan, 0.0) is None
    letters.as_of, letters.letters = 2, [B]
    assert ids(executor.plan(TransactionAttempt(3, 0), plan, 0.0)) == ["1.b"]


def test_so_it_is_with_a_replay_of_an_earlier_run(spout: ReplaySpout) -> None:
    executor, letters = spout.open(), Letters(4, A)
    before = {"run": "another", "number": 9, "txid": 5, "letters": [list(A)]}
    spout.ask(letters)
    assert executor.plan(TransactionAttempt(6, 0), before, 0.0) is None
    letters.as_of, letters.letters = 5, [B]
    assert ids(executor.plan(TransactionAttempt(6, 0), before, 0.0)) == ["1.b"]


def test_a_replay_of_an_earlier_run_in_another_batch_group_holds_no_later_one_back(spout: ReplaySpout) -> None:
    """Its txid is none of the group that the stream is in now: it came before the first batch of this run."""
    executor, letters = spout.open(), Letters(2, B)
    before = {"run": "another", "number": 9, "txid": 32, "letters": [list(A)]}
    spout.ask(letters)
    assert executor.plan(TransactionAttempt(4, 0), before, 0.0) is None
    letters.as_of = 3
    assert ids(executor.plan(TransactionAttempt(5, 0), before, 0.0)) == ["1.b"]


def test_a_state_that_is_away_is_asked_again_by_the_next_batch(spout: ReplaySpout) -> None:
    executor, letters = spout.open(), Letters(1, A)
    spout.ask(letters)
    letters.away = True
    assert executor.plan(TransactionAttempt(2, 0), None, 0.0) is None
    letters.away = False
    assert ids(executor.plan(TransactionAttempt(2, 0), None, 0.0)) == ["1.a"]


def test_another_run_knows_nothing_of_what_was_asked(spout: ReplaySpout) -> None:
    spout.open()
    spout.ask(Letters(1, A))
    assert spout.open().plan(TransactionAttempt(2, 0), None, 0.0) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"line":"a"}',
            r"dead letter 7 cannot be replayed into lines/2:each\(f\): its tuple has no field 'n', but the stream",
        ),
        (
            '{"line":"a","n":"many"}',
            r"dead letter 7 cannot be replayed into lines/2:each\(f\): its tuple does not fit the fields there \(line",
        ),
    ],
)
def test_a_letter_of_other_fields_is_refused_when_it_is_asked_for(spout: ReplaySpout, text: str, says: str) -> None:
    spout.open()
    with pytest.raises(TopologyError, match=says):
        spout.ask(Letters(1, ("7", text)))
    assert spout.open().plan(TransactionAttempt(2, 0), None, 0.0) is None
