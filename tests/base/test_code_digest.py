"""The digest of a function's code: the same for the same instructions, whatever its names, lines and comments are."""

import functools
from collections.abc import Callable

from trident import FilterNull, Function
from trident.base.code_digest import code_digest, same_code


def large(value: int) -> bool:
    """Return whether a value is large."""
    return value > 1


def named(number: int) -> bool:
    # The same, under other names.
    return number > 1


def among(value: int) -> bool:
    return [each for each in (1, 2) if each == value] != [] and value in {"a", "b", "c", "d"}


def test_names_lines_and_docstrings_do_not_count() -> None:
    assert (
        code_digest(large)
        == code_digest(named)
        == code_digest(lambda x: x > 1)
        == code_digest(functools.partial(large))
    )


def test_other_constants_names_and_inner_functions_count() -> None:
    functions = [lambda x: x > 1, lambda x: x > 2, lambda x: x.a, lambda x: x.b, lambda x: [y > 1 for y in x], among]
    functions += [lambda x: [y > 2 for y in x]]
    assert len({code_digest(function) for function in functions}) == len(functions)


def test_the_function_behind_decorators_counts() -> None:
    def decorated(function: Callable[..., bool]) -> Callable[..., bool]:
        @functools.wraps(function)
        def call(*args: int) -> bool:
            return function(*args)

        return call

    assert code_digest(decorated(large)) == code_digest(large) != code_digest(decorated(among))


def test_the_methods_of_an_object_count_and_its_attributes_do_not() -> None:
    class Add(Function):
        def __init__(self, number: int) -> None:
            self.number = number

        def execute(self, tuple: object, collector: object) -> None:
            print(tuple, self.number)

    class AddMore(Add):
        def execute(self, tuple: object, collector: object) -> None:
            print(tuple, 2 * self.number)

    assert code_digest(Add(1)) == code_digest(Add(2)) != code_digest(AddMore(1))


def test_code_of_the_library_and_of_c_is_not_known() -> None:
    assert code_digest(FilterNull()) == code_digest(len) == code_digest(str.upper) == ""
    assert same_code("", code_digest(large)) and same_code("cpython-310:a", "cpython-311:b")
