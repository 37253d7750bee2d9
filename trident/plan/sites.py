"""The user's functions that steps call, for errors and limits that name them."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from trident.base.callsite import CallSite
from trident.base.step import is_ours
from trident.plan.nodes import Node


def sites_in(nodes: Iterable[Node]) -> tuple[CallSite, ...]:
    """The functions of the user that these steps call, each once."""
    found: dict[CallSite, None] = {}
    for node in nodes:
        for each in fields(node):
            value = getattr(node, each.name) if each.name != "site" else ()  # that is where the verb was called
            for part in value if isinstance(value, tuple) else (value,):
                found |= dict.fromkeys(_sites_of_part(part))
    return tuple(found)


def _sites_of_part(part: Any) -> Iterable[CallSite]:
    """The call sites of an operation, an aggregation, a member of an aggregate, or a function's own."""
    if isinstance(part, Node):
        return
    for holder in (part, getattr(part, "how", None)):
        site = holder if isinstance(holder, CallSite) else getattr(holder, "site", None)
        if isinstance(site, CallSite) and site.file and not is_ours(site.file):
            yield site
