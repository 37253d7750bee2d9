"""The names that stores use for aggregators."""

import re
from collections.abc import Mapping

from trident.base.names import quote
from trident.operations.aggregates.base import NAMES, BuiltinAggregator
from trident.operations.bundles import Bundle
from trident.operations.filtered_aggregators import as_written
from trident.operations.retractions import KeepingTuples, Retracting
from trident.operations.signed_sums import SignedSums


def aggregator_name(aggregator: object) -> str:
    """Return the name of an aggregator's class.

    For a user's class with the name of a built-in one, the name includes the module: stored states contain this name,
    and a reader without the topology must not take the class for the built-in one. A bundle is named after its members.
    """
    aggregator = as_written(aggregator)
    if isinstance(aggregator, SignedSums):
        names = {name: aggregator_name(how) for name, how, _ in aggregator.shows}
        return f"{bundle_text(names) if aggregator.several else next(iter(names.values()))} over changes"
    if isinstance(aggregator, Bundle):
        return bundle_text(
            {m.aggregation.output: aggregator_name(m.aggregation.aggregator) for m in aggregator.members}
        )
    if isinstance(aggregator, Retracting):
        return f"{aggregator_name(aggregator.inner)} over changes"
    if isinstance(aggregator, KeepingTuples):
        return aggregator_name(aggregator.inner)
    kind = type(aggregator)
    name = kind.__qualname__.rpartition("<locals>.")[2]
    if kind.__module__.startswith("trident.operations."):
        variant = f" {aggregator.variant}" if isinstance(aggregator, BuiltinAggregator) and aggregator.variant else ""
        return f"{name}{variant}" if name in NAMES else f"trident.{name}{variant}"
    foreign = not isinstance(aggregator, BuiltinAggregator)
    return f"{kind.__module__}.{name}" if foreign and name in NAMES else name


def bundle_text(aggregators: Mapping[str, str]) -> str:
    """Return the name of a bundle: the names of its aggregators, each after the name of its field.

    >>> bundle_text({"n": "Count", "total": "Sum"})
    '{n: Count, total: Sum}'
    """
    members = ", ".join(f"{quote(field)}: {name}" for field, name in aggregators.items())
    return f"{{{members}}}"


def bundle_names(text: str) -> dict[str, str] | None:
    """Return the names of a bundle's aggregators by field, parsed from its name; None for any other aggregator.

    >>> bundle_names("{n: Count, `the total`: Sum}"), bundle_names("Count")
    ({'n': 'Count', 'the total': 'Sum'}, None)
    """
    if not (text.startswith("{") and text.endswith("}")):
        return None
    pairs = _MEMBER.findall(text[1:-1])
    return {(quoted.replace("``", "`") or plain): name for quoted, plain, name in pairs}


_MEMBER = re.compile(r"(?:`((?:[^`]|``)+)`|(\w+)): ([^,`]+)(?:, |$)")
