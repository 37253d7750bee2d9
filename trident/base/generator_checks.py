"""Checks for generators and coroutines: the body of a function that returned one has not run yet."""

from types import AsyncGeneratorType, CoroutineType, GeneratorType

NEVER_RUN: dict[type, str] = {
    GeneratorType: "generator",
    CoroutineType: "coroutine",
    AsyncGeneratorType: "async generator",
}
"""The types of these results, each with its name."""


def check_ran(returned: object, instead: str) -> None:
    """Raise TypeError if a function returned a generator or a coroutine and nothing would run its body.

    `instead` names the replacement. A verb refuses a generator function at once. If the function is in a wrapper, only
    its result shows the generator.

    >>> check_ran((n for n in [1]), "write a loop")
    Traceback (most recent call last):
    TypeError: it returned a generator, whose body never runs: write a loop
    """
    if returned is not None and (kind := NEVER_RUN.get(type(returned))) is not None:
        raise TypeError(f"it returned a {kind}, whose body never runs: {instead}")
