"""What annotations say of what a callable gives."""

import datetime
import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional

import pytest
from pyspark.sql import Column

from trident.operations.annotations import Returns, read_returns, type_of

if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore[import-not-found]


class Pair(NamedTuple):
    word: str
    n: int


@pytest.mark.parametrize(
    ("hint", "ddl"),
    [
        (str, "string"),
        (int, "bigint"),
        (float, "double"),
        (bool, "boolean"),
        (bytes, "binary"),
        (datetime.date, "date"),
        (datetime.datetime, "timestamp"),
        (Decimal, "decimal(38,18)"),
        (Optional[int], "bigint"),  # noqa: UP045
        (int | None, "bigint"),
        (Annotated[str, "a word"], "string"),
        (list[str], "array<string>"),
        (Sequence[int | None], "array<bigint>"),
        (dict[str, list[int]], "map<string,array<bigint>>"),
    ],
)
def test_a_hint_stands_for_a_type(hint: Any, ddl: str) -> None:
    found = type_of(hint)
    assert found is not None and found.simpleString() == ddl


@pytest.mark.parametrize("hint", [Any, object, complex, list, dict, int | str, set[int], dict[str, object], Pair, None])
def test_other_hints_stand_for_no_type(hint: Any) -> None:
    assert type_of(hint) is None


def returns(hint: Any) -> Returns:
    def function() -> None: ...

    function.__annotations__["return"] = hint
    return read_returns(function)


def names(found: Returns, count: int) -> list[str] | None:
    types = found.types(count)
    return None if types is None else [kind.simpleString() for kind in types]


@pytest.mark.parametrize("hint", [Iterator[str], Iterable[str], Generator[str, None, None], "Iterator[str]"])
def test_an_iterator_gives_many(hint: Any) -> None:
    found = returns(hint)
    assert found.lazy and names(found, 1) == ["string"]


def test_a_tuple_is_several_values() -> None:
    assert names(returns(tuple[str, int]), 2) == ["string", "bigint"]
    assert names(returns(Iterator[tuple[str, int]]), 2) == ["string", "bigint"]
    assert names(returns(Pair), 2) == ["string", "bigint"]
    assert returns(tuple[str, int]).arity == 2
    assert names(returns(tuple[str, int]), 3) is None
    assert names(returns(tuple[str, object]), 2) is None
    assert returns(tuple[str, ...]).arity is None


def test_a_list_is_one_value_whose_elements_can_be_asked_for() -> None:
    found = returns(list[str])
    assert found.eager and not found.lazy
    assert names(found, 1) == ["array<string>"]
    assert names(found.element, 1) == ["string"]


def test_none_and_nothing_are_told_apart() -> None:
    assert returns(None).nothing
    assert returns("None").nothing
    assert read_returns(lambda: 1) == Returns()


def test_a_column_is_known_also_by_its_written_name() -> None:
    def late(c): ...  # type: ignore[no-untyped-def]

    late.__annotations__["return"] = "F.Column"
    assert returns(Column).column
    assert read_returns(late).column


def test_an_annotation_that_cannot_be_read_says_why() -> None:
    def function() -> "Nothing": ...

    assert read_returns(function).problem == "'Nothing': name 'Nothing' is not defined"


def test_other_annotations_need_not_be_readable() -> None:
    def function(a: "Nothing") -> "int": ...

    assert names(read_returns(function), 1) == ["bigint"]


def test_a_local_name_in_a_written_annotation_is_found() -> None:
    Local = str

    def function() -> "list[Local]":
        return [Local()]

    assert names(read_returns(function), 1) == ["array<string>"]


class Callables:
    def method(self) -> int: ...  # type: ignore[empty-body]

    @staticmethod
    def static() -> int: ...  # type: ignore[empty-body]

    def __call__(self, *args: object) -> int: ...  # type: ignore[empty-body]


def wrapped(function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def wrapper(*args: object) -> int:
        return function(*args)

    return wrapper


def lru(n: object) -> int: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    "target",
    [
        Callables().method,
        Callables.static,
        Callables(),
        functools.partial(Callables(), 1),
        functools.partial(functools.partial(Callables().method)),
        wrapped(Callables().method),
        functools.lru_cache(lru),
        int,
    ],
)
def test_every_kind_of_callable_is_read(target: Callable[..., Any]) -> None:
    assert names(read_returns(target), 1) == ["bigint"]


@pytest.mark.parametrize("target", [len, str.upper, [].append, dict, Callables])
def test_a_callable_that_tells_nothing_is_no_error(target: Callable[..., Any]) -> None:
    assert read_returns(target) == Returns()
