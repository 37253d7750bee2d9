"""Copies of spouts with changed options: some arguments of their calls are replaced."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.spark_types import ddl
from trident_spouts.adapters.adapter_choice import UserSpout, as_spout
from trident_spouts.configurable import call_of
from trident_spouts.executor import Spout


def with_options(where: str, spout: Spout, options: Mapping[str, Any]) -> Spout:
    """Return a spout like `spout` with other values of some options. `where` begins the message of an error.

    A user's spout is copied by its method ``withOptions(**options)``; a dataclass does not need the method.

    Raises
    ------
    TopologyError
        The spout has no such option, or its options cannot be changed, or the value is not accepted, or the copy has
        other fields, another kind or other streams: the steps of the program are made for those.
    """
    given = spout.spout if isinstance(spout, UserSpout) else spout
    make = _maker(where, given, options)
    try:
        changed = as_spout(make())
    except (TopologyError, TypeError, ValueError) as error:
        raise TopologyError(f"{where}: {error}") from error
    for part, before, after in zip(("fields", "kind", "streams"), _made_for(spout), _made_for(changed), strict=True):
        if before != after:
            raise TopologyError(
                f"{where}: the {part} would change from {before} to {after}, but the steps of the program need "
                f"{before}; change the program instead"
            )
    return changed


def _maker(where: str, spout: Any, options: Mapping[str, Any]) -> Callable[[], Any]:
    """Return the call that creates the copy. Raises TopologyError if the spout has no such options."""
    name = type(spout).__name__
    if (call := call_of(spout)) is not None:
        _check_names(where, name, options, list(inspect.signature(type(spout)).parameters))
        return lambda: type(spout)(**{**call, **options})
    own: Callable[..., Any] | None = getattr(spout, "withOptions", None)
    if own is not None:
        return lambda: own(**options)
    if dataclasses.is_dataclass(type(spout)) and vars(type(spout))["__dataclass_params__"].init:
        _check_names(where, name, options, [each.name for each in dataclasses.fields(spout) if each.init])
        return lambda: dataclasses.replace(spout, **options)
    raise TopologyError(
        f"{where}: {name} has no options that can be changed from outside; give it a method withOptions(**options) "
        f"that returns the changed spout, or let its open(self, context) read context.config"
    )


def _check_names(where: str, name: str, options: Mapping[str, Any], known: list[str]) -> None:
    for option in options:
        if option not in known:
            raise TopologyError(
                f"{where}: {name} has no option {option!r}{did_you_mean(option, known)}; its options are "
                f"{', '.join(known)}"
            )


def _made_for(spout: Spout) -> tuple[str, str, list[str]]:
    """Return the properties that the steps of a program rely on: the spout's fields, kind and named streams."""
    streams = [name for name, _ in getattr(spout, "emitted_streams", ())]
    return ddl(spout.schema), spout.kind.value, streams
