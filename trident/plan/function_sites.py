"""The locations of the user's functions that steps call, for errors and limits."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from trident.base.callsite import CallSite
from trident.base.verb_call import is_ours
from trident.plan.nodes import Node


def sites_in(nodes: Iterable[Node]) -> tuple[CallSite, ...]:
    """Return the locations of the user's functions that these steps call, each once."""
    sites: dict[CallSite, None] = {}
    for node in nodes:
        for field in fields(node):
            value = getattr(node, field.name) if field.name != "site" else ()  # `site` is where the verb was called
            for part in value if isinstance(value, tuple) else (value,):
                sites |= dict.fromkeys(_sites_of_part(part))
    return tuple(sites)


def _sites_of_part(part: Any) -> Iterable[CallSite]:
    """Yield the locations of the user's functions in an operation, an aggregation or a member of an aggregate."""
    if isinstance(part, Node):
        return
    for holder in (part, getattr(part, "how", None)):
        site = holder if isinstance(holder, CallSite) else getattr(holder, "site", None)
        if isinstance(site, CallSite) and site.file and not is_ours(site.file):
            yield site
