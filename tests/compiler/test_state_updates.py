"""Every update of a state, and every form of an update in partitionPersist, has a function that runs it."""

import importlib
import pkgutil
from typing import get_args

import trident.operations
from trident.compiler.state_updates import FORMS, UPDATES
from trident.operations.update_forms import UpdateForm
from trident.plan import nodes


def test_every_update_has_a_function() -> None:
    assert set(UPDATES) == set(get_args(nodes.StateUpdate))


def test_every_form_of_an_update_has_a_function() -> None:
    for module in pkgutil.iter_modules(trident.operations.__path__, "trident.operations."):
        importlib.import_module(module.name)
    # Two classes of one name are one: a dataclass with slots is made twice, and the first may still be there.
    # `ColumnUpdater` is only a base.
    assert {kind.__name__ for kind in forms_below(UpdateForm)} - {"ColumnUpdater"} == {kind.__name__ for kind in FORMS}


def forms_below(kind: type[UpdateForm]) -> set[type[UpdateForm]]:
    """Return the forms that this library derives from one."""
    own = {below for below in kind.__subclasses__() if below.__module__.startswith("trident.")}
    return own.union(*map(forms_below, own))
