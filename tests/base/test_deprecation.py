"""Names that go still work, and warn the line that uses them."""

import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from trident.base.deprecation import deprecated, warn_deprecated

STUB = '''"""A library."""
from shop.sums import Sum as Sum
from shop.sums import Sum as Total  # since 0.3
'''
MODULE = """
from trident.base.lazy_names import lazy_names
__getattr__, __dir__, __all__ = lazy_names(__name__, lambda name: "")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a package with a name that was renamed."""
    (tmp_path / "shop").mkdir()
    for name, text in (("__init__.py", MODULE), ("__init__.pyi", STUB), ("sums.py", "class Sum: ...\n")):
        (tmp_path / "shop" / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("shop")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def test_a_former_name_is_the_present_one_and_warns_each_line_that_uses_it(shop: Any) -> None:
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match=r"^shop\.Total is deprecated since version 0\.3, and") as warned:
            former = shop.Total
        assert former is shop.Sum
        assert [each.filename for each in warned] == [__file__]


def test_an_import_of_a_former_name_warns_the_line_of_the_import(shop: Any, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("from shop import Total\n")
    with pytest.warns(DeprecationWarning, match=r"version 0\.5 removes it: use shop\.Sum$") as warned:
        import_module("program")
    assert {each.filename for each in warned} == {str(tmp_path / "program.py")}
    del sys.modules["program"]


def test_a_former_name_is_not_listed(shop: Any) -> None:
    assert shop.__all__ == ["Sum"] and "Total" not in dir(shop)


def test_a_deprecated_method_warns_its_caller_and_works() -> None:
    class Till:
        @deprecated("Till.sum", since="0.3")
        def total(self, a: int, b: int) -> int:
            """Return the sum."""
            return a + b

    with pytest.warns(DeprecationWarning, match=r"^total is deprecated .* use Till\.sum$") as warned:
        assert Till().total(1, b=2) == 3
    assert [each.filename for each in warned] == [__file__]
    assert Till.total.__doc__ == "Return the sum."


def test_an_argument_that_goes_warns_the_caller() -> None:
    def each(inputs: str | None = None) -> None:
        if inputs is not None:
            warn_deprecated("each(inputs=)", "inputFields=", since="0.9")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        each()
    with pytest.warns(DeprecationWarning, match=r"^each\(inputs=\) .* version 0\.11 removes it") as warned:
        each("a")
    assert [each.filename for each in warned] == [__file__]
