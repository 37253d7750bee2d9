"""Limits for the measures of the code: no function has too many branches, and few modules know the Spark engine."""

from tests.house.measure import functions, spark_imports

MOST_BRANCHES = 20
"""No function of the library is more complex."""
OVER_15 = 14
"""The functions of a complexity over 15, today. A change may lower the limit."""
MOST_SPARK_IMPORTS = 14
MOST_PARAMETERS = {"trident/run/start.py:start_on": 5, "spouts/trident_spouts/files/spout.py:__init__": 9}
"""The parameters of the calls that once took an option each."""


def test_no_function_has_too_many_branches() -> None:
    over = {each.where: each.complexity for each in functions() if each.complexity > MOST_BRANCHES}
    assert over == {}


def test_few_functions_have_many_branches() -> None:
    over = sorted((-each.complexity, each.where) for each in functions() if each.complexity > 15)
    assert len(over) <= OVER_15, over


def test_few_modules_outside_the_spark_engine_import_it() -> None:
    found = spark_imports()
    assert len(found) <= MOST_SPARK_IMPORTS, found


def test_calls_with_many_options_have_few_parameters() -> None:
    counts = {each.where: each.parameters for each in functions() if each.where in MOST_PARAMETERS}
    assert {*counts} == {*MOST_PARAMETERS}
    assert {where: count for where, count in counts.items() if count > MOST_PARAMETERS[where]} == {}
