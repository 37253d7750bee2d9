"""The check of a user's object against a protocol, which is the same in all versions of Python."""

from typing import Any


def offers(value: object, protocol: type[Any]) -> bool:
    """Return whether an object has all methods of a protocol, also those that its ``__getattr__`` passes on.

    In Python 3.12 and later, isinstance does not find methods of that kind. A conditional put behind such a wrapper
    would not be used.

    >>> from typing import Protocol
    >>> class Sized(Protocol):
    ...     def size(self): ...
    >>> class Wrapper:
    ...     def __getattr__(self, name): return len
    >>> offers(Wrapper(), Sized), offers(1, Sized)
    (True, False)
    """
    bases: list[Any] = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = {name for base in bases for name in vars(base) if not name.startswith("_")}
    return all(hasattr(value, name) for name in names)
