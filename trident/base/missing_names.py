"""The errors for a name that a module or a class lacks. A module's hint is also shown by ``import`` statements."""

from collections.abc import Callable
from importlib.util import find_spec
from opcode import opmap
from types import FrameType
from typing import NoReturn


def missing_name(module: str, name: str, hint: Callable[[], str], asker: FrameType) -> Exception:
    """Return the error for a name that a module lacks.

    `hint` returns a replacement. `asker` is the frame that called the module's ``__getattr__``.

    An import gets an ImportError: ``from module import name`` drops the message of an AttributeError. If Python
    itself asks for a submodule that is not imported yet, it gets a plain AttributeError and then imports the submodule.
    """
    plain = AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    listing = asker.f_code.co_name == "_handle_fromlist"
    if name.startswith("_") or (listing and find_spec(f"{module}.{name}") is not None):
        return plain
    if listing or asker.f_code.co_code[asker.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(f"cannot import name {name!r} from {module!r}{hint()}", name=module)
    return AttributeError(f"{plain}{hint()}", name=name)


class Missing:
    """A class attribute for a name of another library: every access raises an AttributeError with this hint."""

    def __init__(self, hint: str) -> None:
        self._hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner.__name__, name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(f"{self._owner!r} has no {self._name!r}; {self._hint}", name=self._name)
