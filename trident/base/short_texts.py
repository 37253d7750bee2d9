"""Values and texts as errors show them: recognizable, and never long."""

import inspect

_LONGEST = 80


def shorten(text: str) -> str:
    """Return the text, cut if it is too long for one line of an error.

    >>> shorten("moon"), len(shorten("moon" * 100))
    ('moon', 80)
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def brief(value: object) -> str:
    """Return a value in the form in which an error shows it: a function's name, or any other value's shortened repr.

    >>> brief(brief), brief(5)
    ("function 'brief'", '5')
    """
    if inspect.isroutine(value):
        return f"function {value.__name__!r}"
    text = repr(value)
    if " object at 0x" in text:
        return f"an object of class {type(value).__name__!r}"
    return shorten(text)


def typed_brief(value: object) -> str:
    """Return a value's shortened repr with its type.

    >>> typed_brief(7)
    '7 (int)'
    """
    return f"{shorten(repr(value))} ({type(value).__name__})"
