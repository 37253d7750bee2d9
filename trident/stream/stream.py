"""The fluent skin, put together from its families of verbs."""

from trident.stream.aggregate import AggregateVerbs
from trident.stream.assembly import AssemblyVerbs
from trident.stream.base import StreamBase
from trident.stream.dead_letters import LetterVerbs
from trident.stream.extremes import ExtremeVerbs
from trident.stream.joins import CombineVerbs
from trident.stream.map import MapVerbs
from trident.stream.outputs import OutputVerbs
from trident.stream.persist import PersistVerbs
from trident.stream.preview import LookVerbs
from trident.stream.query import QueryVerbs
from trident.stream.repartition import RepartitionVerbs
from trident.stream.split import SplitVerbs
from trident.stream.window import WindowVerbs


class Stream(
    MapVerbs,
    RepartitionVerbs,
    AggregateVerbs,
    ExtremeVerbs,
    PersistVerbs,
    QueryVerbs,
    CombineVerbs,
    SplitVerbs,
    OutputVerbs,
    LetterVerbs,
    LookVerbs,
    WindowVerbs,
    AssemblyVerbs,
):
    """A description of what happens to every batch; `TridentTopology.newStream` begins one.

    Immutable: each verb gives a new stream, and a stream may be used as often as you like. Nothing runs before
    `TridentTopology.start`. Meaning: ``org.apache.storm.trident.Stream``.
    """

    __slots__ = ()

    def _by_group(self) -> tuple[StreamBase, tuple[str, ...]]:
        return self, ()
