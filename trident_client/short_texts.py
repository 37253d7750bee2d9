"""Values and texts as errors show them: recognizable, and never long."""

import inspect
import re

_LONGEST = 80
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def shorten(text: str) -> str:
    r"""Return the text, cut if it is too long for one line of an error, with lone surrogates as escapes.

    A message that holds half of a character can be neither sent nor logged.

    >>> shorten("moon"), len(shorten("moon" * 100)), shorten("\ud800")
    ('moon', 80, '\\ud800')
    """
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return text.encode(errors="backslashreplace").decode()


def brief(value: object) -> str:
    """Return a value in the form in which an error shows it: a function's name, or any other value's shortened repr.

    >>> brief(brief), brief(5)
    ("function 'brief'", '5')
    """
    if inspect.isroutine(value):
        return f"function {value.__name__!r}"
    text = short_repr(value)
    if " object at 0x" in text:
        return f"an object of class {type(value).__name__!r}"
    return text


def short_repr(value: object) -> str:
    """Return a value's shortened repr, also of a value that Python cannot show.

    >>> short_repr("a"), short_repr(10**5000)
    ("'a'", 'a value of class int that cannot be shown')
    """
    try:
        return shorten(repr(value))
    except Exception:  # a number of over 4,300 digits, a deep list, an object of the user
        return f"a value of class {type(value).__name__} that cannot be shown"


def typed_brief(value: object) -> str:
    """Return a value's shortened repr with its type.

    >>> typed_brief(7)
    '7 (int)'
    """
    return f"{short_repr(value)} ({type(value).__name__})"


def error_text(error: BaseException) -> str:
    r"""Return the text of any exception of a user, also of one that Python cannot show.

    Lone surrogates, such as those in names of files that are not UTF-8, can be neither stored nor sent. They become
    escapes.

    >>> error_text(OSError("\ud800.txt"))
    '\\ud800.txt'
    """
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:  # its own __str__ raises
        return "its text cannot be shown"


def raised(error: BaseException) -> str:
    """Return the words "raised ..." with which a message reports the error of a user's function.

    >>> raised(ValueError("no number")), raised(ValueError())
    ('raised ValueError: no number', 'raised ValueError')
    """
    text = error_text(error)
    return f"raised {type(error).__name__}{f': {text}' if text else ''}"


def one_line(error: BaseException) -> str:
    r"""Return the text of an error in one line, without the colour codes that some packages add.

    >>> one_line(OSError("no\n  \x1b[31mroom"))
    'no room'
    """
    return " ".join(_COLOURS.sub("", str(error)).split())
