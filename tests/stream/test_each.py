"""The nodes of each, filter, peek, project, drop and rename."""

import functools
from collections.abc import Iterator

import pytest

from tests.support.topologies import node, split, stream
from trident import Count, Debug, Filter, FilterNull, Function, TridentTuple, expr
from trident.base.spark_types import ddl, parse_schema
from trident.operations.functions import Call
from trident.plan import nodes


def test_each_appends_what_the_function_is_declared_to_give() -> None:
    each = stream().each("line", len, "size long")
    found = node(each)
    assert isinstance(found, nodes.Each)
    assert (found.inputs, found.function.target, found.function.call) == (("line",), len, Call.VALUES)
    assert ddl(each.schema) == "line string, size bigint"
    assert each.fields == ("line", "size")
    assert repr(each) == "Stream(lines/1:each(len): line string, size bigint)"


def test_types_come_from_annotations_where_the_outputs_have_none() -> None:
    def both(line: str) -> tuple[str, int | None]:
        return line, len(line)

    assert ddl(stream().each("line", split, "word").schema) == "line string, word string"
    assert ddl(stream().each("line", both, "copy, size").schema) == "line string, copy string, size bigint"
    assert ddl(stream().each("line", both, ["copy", "size"]).schema) == "line string, copy string, size bigint"


def test_a_written_type_goes_before_an_annotated_one() -> None:
    def both(line: str) -> tuple[str, int]:
        return line, len(line)

    assert ddl(stream().each("line", both, "copy, size int").schema) == "line string, copy string, size int"


def test_an_operation_s_own_output_type_goes_before_its_annotation() -> None:
    class Halves:
        outputType = "float, float"

        def __call__(self, line: str) -> tuple[int, int]: ...  # type: ignore[empty-body]

    assert ddl(stream().each("line", Halves(), "a, b").schema) == "line string, a float, b float"


def test_outputs_may_be_a_schema_and_names_may_be_odd() -> None:
    schema = parse_schema("`a, b` string, n decimal(5,2)")
    assert stream().each("line", lambda line: (line, 1), schema).fields == ("line", "a, b", "n")
    assert stream("`a, b` string, c string").each(["a, b"], len, "n long").fields == ("a, b", "c", "n")
    assert node(stream("`a, b` string, c string").each("`a, b`, c", lambda a, c: 1, "n long")).inputs == ("a, b", "c")


def test_without_input_fields_a_callable_gets_one_tuple_of_all_fields() -> None:
    found = node(stream("a long, b long").each(lambda t: t.a + t.b, "c long"))
    assert (found.inputs, found.function.call) == (("a", "b"), Call.TUPLE)


def test_everything_may_come_by_keyword() -> None:
    by_keyword = stream().each(inputFields="line", function=split, outputFields="word string")
    assert repr(by_keyword) == repr(stream().each("line", split, "word string"))
    assert repr(stream().each("line", function=split, outputFields="word")) == repr(by_keyword)
    assert repr(stream().each("line", "word", function=split)) == repr(by_keyword)
    assert repr(stream().each("line", split, outputFields="word")) == repr(by_keyword)
    assert node(stream().each(filter=lambda t: True)).inputs == ("line",)
    assert repr(stream().filter(inputFields="line", filter=str.isalpha)).startswith(
        "Stream(lines/1:filter(str.isalpha)"
    )


@pytest.mark.parametrize("many", [split, functools.partial(split), lambda line: (yield line)])
def test_a_generator_gives_many(many: object) -> None:
    assert node(stream().each("line", many, "word string")).function.many


def test_an_iterator_annotation_gives_many_and_a_list_is_one_value() -> None:
    def pieces(line: str) -> Iterator[str]:
        return iter(line.split())

    def together(line: str) -> list[str]:
        return line.split()

    assert node(stream().each("line", pieces, "word")).function.many
    assert not node(stream().each("line", together, "words")).function.many
    assert ddl(stream().each("line", together, "words").schema) == "line string, words array<string>"


def test_trident_s_own_objects_are_known_by_their_methods() -> None:
    class Split(Function):
        outputType = "string"

        def execute(self, tuple, collector):  # type: ignore[no-untyped-def]
            for word in tuple.line.split():
                collector.emit([word])

    class Long(Filter):
        def isKeep(self, tuple: TridentTuple) -> bool:
            return len(tuple.word) > 7

    words = stream().each("line", Split(), "word")
    assert (node(words).function.call, node(words).function.many) == (Call.FUNCTION, True)
    assert repr(words) == "Stream(lines/1:each(Split): line string, word string)"
    kept = words.each("word", Long())
    assert isinstance(node(kept), nodes.Filter)
    assert node(kept).predicate.call is Call.FILTER
    assert node(words.filter("word", FilterNull())).predicate.call is Call.FILTER


def test_without_output_fields_each_is_a_filter() -> None:
    kept = stream("word string, n long").each("word", lambda word: len(word) > 3)
    assert isinstance(node(kept), nodes.Filter)
    assert (node(kept).inputs, kept.fields) == (("word",), ("word", "n"))
    assert node(stream().filter(lambda t: bool(t.line))).predicate.call is Call.TUPLE
    assert node(stream().filter(expr("length(line) > 3"))).predicate.call is Call.EXPRESSION


def test_an_expression_is_plain_data_and_needs_no_session() -> None:
    found = node(stream().each(expr("upper(line)"), "up string"))
    assert (found.function.call, found.function.target) == (Call.EXPRESSION, expr("upper(line)"))
    assert found.step == "lines/1:each(expr)"


def test_a_callable_that_is_annotated_to_give_a_column_is_called_later() -> None:
    from pyspark.sql import Column

    def upper(line) -> Column:  # type: ignore[no-untyped-def]
        raise AssertionError("a plan calls nothing")

    found = node(stream().each("line", upper, "up string"))
    assert (found.function.call, found.inputs) == (Call.COLUMN_BUILDER, ("line",))


def test_debug_and_peek_leave_the_tuples_as_they_are() -> None:
    lines = stream()
    debugged = lines.each(Debug("mine", limit=3))
    assert isinstance(node(debugged), nodes.Debug)
    assert (node(debugged).label, node(debugged).limit, debugged.fields) == ("mine", 3, ("line",))
    assert node(lines.each("line", Debug())).label == "lines/2:each(Debug)"
    peeked = lines.peek("line", print)
    assert isinstance(node(peeked), nodes.Peek)
    assert (node(peeked).action.call, peeked.fields) == (Call.VALUES, ("line",))
    assert node(lines.peek(print)).action.call is Call.TUPLE


def test_each_replaces_fields_in_their_places() -> None:
    fields = stream("a long, b string, c date")
    assert ddl(fields.each("a", str, "b long", replace=True).schema) == "a bigint, b bigint, c date"
    assert ddl(fields.each("a", two, "d long, a string", replace=True).schema) == "a string, b string, c date, d bigint"
    assert ddl(fields.each("a", split, "a", replace=True).schema) == "a string, b string, c date"
    assert ddl(fields.each(expr("b"), "`b` string", replace=True).schema) == ddl(fields.schema)
    assert fields.each("a", str, "d string", replace=True).fields == ("a", "b", "c", "d")
    grouped = fields.groupBy("c").each("b", len, "b long", replace=True)
    assert (ddl(grouped.schema), grouped.groupFields) == ("a bigint, b bigint, c date", ("c",))
    assert grouped.toStream().each(str, "c string", replace=True).fields == ("a", "b", "c")


def two(a: int) -> tuple[int, str]:
    return a, str(a)


def test_project_keeps_and_reorders() -> None:
    fields = stream("a long, b string, c date")
    assert ddl(fields.project("c", "a").schema) == "c date, a bigint"
    assert ddl(fields.project("c, a").schema) == "c date, a bigint"
    assert ddl(fields.project(["b"], "a").schema) == "b string, a bigint"


def test_drop_keeps_all_other_fields_in_their_order() -> None:
    fields = stream("a long, b string, c date")
    assert ddl(fields.drop("b").schema) == "a bigint, c date"
    assert ddl(fields.drop("c, a").schema) == ddl(fields.drop("c", ["a"]).schema) == "b string"
    grouped = fields.groupBy("c").drop("b")
    assert (grouped.fields, grouped.groupFields) == (("a", "c"), ("c",))


def test_rename_leaves_fields_in_their_places() -> None:
    fields = stream("a long, b string, c date")
    assert ddl(fields.rename("b", "a.x").schema) == "a bigint, `a.x` string, c date"
    assert ddl(fields.rename({"a": "b", "b": "a", "c": "C"}).schema) == "b bigint, a string, C date"
    assert fields.rename({}).fields == fields.rename("a", "a").fields == fields.fields
    assert repr(fields.rename("a", "d")) == "Stream(lines/5:rename: d bigint, b string, c date)"


def test_group_fields_follow_their_new_names() -> None:
    grouped = stream("a long, b string, c date").groupBy("b, c").rename({"b": "c", "c": "d", "a": "b"})
    assert (grouped.fields, grouped.groupFields) == (("b", "c", "d"), ("c", "d"))
    assert grouped.aggregate(Count(), "n").fields == ("c", "d", "n")


def test_a_stream_is_never_changed_by_a_verb() -> None:
    lines = stream()
    lines.each("line", len, "size long")
    lines.project("line")
    assert repr(lines) == "Stream(lines/0:newStream(FixedBatchSpout): line string)"
    steps = [node(lines.filter(str.isalpha, inputFields="line")).step for _ in range(2)]
    assert steps == ["lines/3:filter(str.isalpha)", "lines/4:filter(str.isalpha)"]


def test_a_node_knows_where_it_was_written() -> None:
    each = stream().each("line", len, "size long")
    site = node(each).site
    assert site.file == __file__ and site.name == "each"
    with open(__file__) as source:
        assert source.readlines()[site.line - 1].strip() == 'each = stream().each("line", len, "size long")'
