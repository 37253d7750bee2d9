"""Source locations of users' functions and of calls of verbs."""

import functools

import pytest

from trident.base import callsite
from trident.base.callsite import CallSite, site_of
from trident.base.errors import TopologyError
from trident.base.verb_call import Step, caller


def function() -> None: ...


class Something:
    def method(self) -> None: ...

    def __call__(self) -> None: ...


def line_of(text: str) -> int:
    with open(__file__) as source:
        return 1 + next(at for at, line in enumerate(source) if line.startswith(text))


def test_functions_methods_and_partials_are_found_by_file_and_line() -> None:
    here = CallSite("function", __file__, line_of("def function"))
    assert site_of(function) == site_of(functools.partial(function)) == here
    assert str(here) == f"function (test_callsite.py:{here.line})"
    assert site_of(Something().method).name == "Something.method"


def test_an_object_is_named_by_its_class() -> None:
    assert site_of(Something()) == site_of(Something) == CallSite("Something", __file__, line_of("class Something"))


def test_the_file_of_a_class_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local: ...

    parsed = []
    monkeypatch.setattr(callsite, "_parsed", lambda owner: parsed.append(owner) or CallSite(owner.__name__))
    assert [site_of(Local()), site_of(Local), site_of(Local())] == [CallSite("Local")] * 3
    assert parsed == [Local]


def test_a_class_without_a_hash_is_found_and_one_that_took_its_id_is_another() -> None:
    class Unhashable(type):
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            return True

    first, second = Unhashable("First", (), {}), Unhashable("Second", (), {})
    callsite._classes[id(second)] = callsite.ref(first), CallSite("First")
    assert (site_of(first).name, site_of(second()).name) == ("First", "Second")


def test_a_function_within_another_is_named_by_itself() -> None:
    def inner() -> None: ...

    class Local: ...

    assert (site_of(inner).name, site_of(Local()).name, site_of(lambda: 1).name) == ("inner", "Local", "<lambda>")


def test_what_python_cannot_place_has_a_name_only() -> None:
    assert site_of(len) == CallSite("len")
    assert site_of(str.upper) == CallSite("str.upper")
    assert str(site_of(str)) == "str"


def test_a_cell_of_a_notebook_is_called_one() -> None:
    assert str(CallSite("split", "/tmp/ipykernel_71/1837465.py", 3)) == "split (cell line 3)", "outside that kernel"
    assert str(CallSite("split", "<ipython-input-4-a1b2>", 3)) == "split (cell line 3)"


def test_the_caller_is_the_line_outside_the_package() -> None:
    assert caller("each") == CallSite("each", __file__, line_of("    assert caller("))


def test_an_error_names_step_function_and_call() -> None:
    step = Step("s/1:each", CallSite("each", "/home/me/job.py", 7)).with_function(CallSite("split", "/home/me/f.py", 3))
    assert (
        str(step.error(TopologyError, "it is wrong"))
        == "s/1:each(split): it is wrong [split (f.py:3), called at job.py:7]"
    )
    bare = Step("s/1:project", CallSite("project", "/home/me/job.py", 7))
    assert str(bare.error(TopologyError, "no")) == "s/1:project: no [called at job.py:7]"
