"""Verbs of a user's own are called, named and refused like built-in ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from trident import Count, Stream, TridentTopology, verb
from trident.base.errors import FieldNotFoundError, TopologyError, UserFunctionError
from trident.spouts import FixedBatchSpout


@pytest.fixture(autouse=True)
def built_in_verbs_only() -> Iterator[None]:
    """Remove the verbs that a test adds."""
    before = set(vars(Stream))
    yield
    for name in set(vars(Stream)) - before:
        delattr(Stream, name)


def words() -> Any:
    return TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "horse", "cow"]]))


def test_a_verb_in_a_few_lines() -> None:
    @verb
    def longerThan(stream: Any, field: str, length: int = 2) -> Any:
        """Keep the long ones."""
        return stream.filter(field, lambda text: len(text) > length)

    assert [row.word for row in words().longerThan("word", length=3).take(9)] == ["horse"]
    assert Stream.longerThan.__doc__ == "Keep the long ones."  # type: ignore[attr-defined]
    assert [row.word for row in longerThan(words(), "word").take(9)] == ["horse", "cow"]


def test_its_steps_carry_its_name_in_explain_and_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    @verb
    def countBy(stream: Any, *fields: str) -> Any:
        return stream.groupBy(*fields).aggregate(Count(), "count")

    @verb
    def top(stream: Any, field: str) -> Any:
        return stream.countBy(field).filter("count", lambda count: count > 1)

    found = words().top("word")
    assert repr(found).startswith("Stream(words/2:top.filter(<lambda>): ")
    found.explain()
    assert "words/1:top.countBy.aggregate(Count)" in capsys.readouterr().out
    assert "top.countBy.aggregate(Count)" in found.draw("mermaid")


def test_an_error_names_the_verb_and_the_line_that_called_it() -> None:
    @verb
    def upper(stream: Any, field: str) -> Any:
        return stream.each(field, lambda text: text.upper(), "upper string")

    line = _line() + 2
    with pytest.raises(FieldNotFoundError) as raised:
        words().upper("wrd")
    message = str(raised.value)
    assert message.startswith("words/1:upper.each(<lambda>): no field 'wrd'") and "did you mean 'word'" in message
    assert f"called at test_custom_verbs.py:{line}]" in message


def test_what_a_function_inside_raises_says_where() -> None:
    @verb
    def broken(stream: Any) -> Any:
        return stream.each("word", lambda word: 1 / 0, "n long")

    with pytest.raises(UserFunctionError, match=r"words/1:broken\.each\(<lambda>\): .*ZeroDivisionError"):
        words().broken().take(1)


def test_a_typo_suggests_it() -> None:
    @verb
    def longerThan(stream: Any, length: int) -> Any:
        return stream

    with pytest.raises(AttributeError, match="did you mean 'longerThan'"):
        words().longer_than(3)


def test_a_cell_may_run_again_and_another_function_may_not_take_the_name() -> None:
    def make(length: int) -> Any:
        def longer(stream: Any) -> Any:
            return stream.filter("word", lambda text: len(text) > length)

        return longer

    verb(make(2))
    verb(make(4))
    assert [row.word for row in words().longer().take(9)] == ["horse"]

    def longer(stream: Any) -> Any:
        return stream

    with pytest.raises(TopologyError, match=r"a stream already has a verb 'longer' \(.*made by .*make.*longer\)"):
        verb(longer)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (5, "needs a named function, not 5"),
        (Count, "needs a named function, not"),
        (lambda stream: stream, "needs a named function, not"),
    ],
)
def test_what_can_be_no_verb(wrong: Any, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        verb(wrong)


def test_a_built_in_verb_stays() -> None:
    def each(stream: Any) -> Any:
        return stream

    def _hidden(stream: Any) -> Any:
        return stream

    with pytest.raises(TopologyError, match=r"a stream already has a verb 'each' \(it is built in\)"):
        verb(each)
    with pytest.raises(TopologyError, match="begins with '_'"):
        verb(_hidden)


def _line() -> int:
    import sys

    return sys._getframe(1).f_lineno
