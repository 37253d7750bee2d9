"""The nodes of map, flatMap and transform."""

from collections.abc import Iterator
from typing import Any

from tests.support.topologies import node, split, stream
from trident import Function, expr
from trident.base.spark_types import ddl
from trident.operations.functions import Call
from trident.plan import nodes


def test_map_replaces_the_tuple() -> None:
    mapped = stream("word string, n long").map(lambda t: t.n / 2, "half double")
    assert isinstance(node(mapped), nodes.Map)
    assert (node(mapped).inputs, node(mapped).function.call) == (("word", "n"), Call.TUPLE)
    assert ddl(mapped.schema) == "half double"
    assert node(stream("word string, n long").map("n", lambda n: n / 2, "half double")).inputs == ("n",)


def test_without_output_fields_the_fields_that_it_saw_keep_their_names() -> None:
    words = stream("word string, n long")
    assert ddl(words.map(lambda t: t).schema) == "word string, n bigint"
    assert ddl(words.map("n", lambda n: n + 1).schema) == "n bigint"


def test_without_output_fields_annotated_types_replace_the_old_ones() -> None:
    def half(n: int) -> float:
        return n / 2

    assert ddl(stream("word string, n long").map("n", half).schema) == "n double"


def test_flat_map_takes_whatever_can_be_iterated() -> None:
    def pairs(line: str) -> list[tuple[str, int]]:
        return [(line, 1)]

    def lazily(line: str) -> Iterator[list[str]]:
        yield line.split()

    assert ddl(stream().flatMap("line", pairs, "word, n").schema) == "word string, n bigint"
    assert ddl(stream().flatMap("line", lazily, "words").schema) == "words array<string>"
    assert ddl(stream().flatMap("line", str.split, "word string").schema) == "word string"
    assert ddl(stream().flatMap("line", split).schema) == "line string"
    for function in (pairs, lazily):
        assert node(stream().flatMap("line", function, "a string, b long" if function is pairs else "a array<string>"))


def test_flat_map_gives_many_whatever_the_function_is() -> None:
    class Split(Function):
        def execute(self, tuple: Any, collector: Any) -> None: ...

    assert node(stream().flatMap("line", str.split, "word string")).function.many
    assert node(stream().flatMap("line", Split(), "word string")).function.many
    assert node(stream().flatMap(expr("explode(split(line, ' '))"), "word string")).function.call is Call.EXPRESSION


def test_transform_keeps_the_function_and_the_static_frames() -> None:
    def enrich(batch: Any, users: Any) -> Any:
        raise AssertionError("a plan calls nothing")

    users = object()
    found = node(stream().transform(enrich, "line string, name string", users=users))
    assert isinstance(found, nodes.Transform)
    assert (found.function.call, found.frames) == (Call.FRAME, (("users", users),))
    assert ddl(found.schema) == "line string, name string"
    assert ddl(stream().transform(lambda df: df.distinct()).schema) == "line string"
