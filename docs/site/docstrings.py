"""Read the docstrings as they are written: doctests in the running text, and the source of a meaning."""

import re
from typing import Any

from griffe import Class, Extension, Object

_NOT_CALLED = {
    "trident.access.opened_state.OpenedState",
    "trident.drpc.local.DRPCResult",
    "trident.drpc.local.LocalDRPC",
    "trident.reads.state_view.StateView",
    "trident.run.running.RunningTopology",
    "trident.stream.aggregator_chain.ChainedAggregate",
    "trident.stream.base.StreamBase",
    "trident.stream.grouped.GroupedVerbs",
    "trident.stream.split.SplitStreams",
    "trident.stream.state.StateBase",
    "trident.stream.stream.WindowedStream",
}
"""Classes whose objects come from calls of others: how they are made is no concern of readers."""

_DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n(?!>>> )|\Z)", flags=re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^(\w+)\n-{3,}$", flags=re.MULTILINE)
_MEANING = re.compile(r"\s+Meaning: |\AMeaning: ")


class Docstrings(Extension):
    """Turns each docstring into the Markdown that the site shows."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        if cls.path in _NOT_CALLED:
            cls.members.pop("__init__", None)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Return a docstring with its doctests as blocks of code, and with "Meaning: ..." as a paragraph of its own.

    A doctest that follows another section of numpy's form, such as Parameters, gets the section Examples.
    """

    def block(doctest: re.Match[str]) -> str:
        sections = _SECTION.findall(docstring, 0, doctest.start())
        head = "Examples\n--------\n" if sections and sections[-1] != "Examples" else ""
        return f"{head}```pycon\n{doctest[0]}\n```"

    return _MEANING.sub("\n\n**Meaning:** ", _DOCTEST.sub(block, docstring))
