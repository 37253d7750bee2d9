"""Any combination of verbs makes a topology that can be cut, explained and drawn, without a JVM."""

import contextlib
import io
import xml.etree.ElementTree as xml
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.topologies import DeclaredSpout, DeclaredState, node
from trident import Count, Debug, MapGet, Stream, Sum, TridentState, TridentTopology, expr
from trident.compiler.stages import cut
from trident.plan.nodes import sources_of, walk
from trident_spouts.executor import SpoutKind
from trident_state.state_shape import StateKind


class Builder:
    """Puts random verbs together, each of them fitting."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.topology = TridentTopology()
        self.streams: list[Stream] = []
        self.states: list[TridentState] = []
        self.fresh = 0

    def pick(self, what: list[Any]) -> Any:
        return self.data.draw(st.sampled_from(what))

    def name(self, begin: str) -> str:
        self.fresh += 1
        return f"{begin}{self.fresh}"

    def begin(self) -> Stream:
        spout = DeclaredSpout(self.pick(list(SpoutKind)), "word string, n long")
        return self.topology.newStream(self.name("s"), spout)

    def each(self) -> Stream:
        return self.pick(self.streams).each("word", len, f"{self.name('f')} long")

    def native(self) -> Stream:
        return self.pick(self.streams).each(expr("n + 1"), f"{self.name('f')} long")

    def keep(self) -> Stream:
        return self.pick(self.streams).filter(lambda t: True)

    def look(self) -> Stream:
        return self.pick([lambda s: s.peek(print), lambda s: s.each(Debug())])(self.pick(self.streams))

    def project(self) -> Stream:
        return self.pick(self.streams).project("word", "n")

    def partition(self) -> Stream:
        return self.pick(self.streams).partitionBy("word")

    def merge(self) -> Stream:
        return self.topology.merge(*[self.pick(self.streams).project("word, n") for _ in range(2)])

    def join(self) -> Stream:
        a, b = (self.pick(self.streams).project("word, n") for _ in range(2))
        return self.topology.join([a, b], "word", f"word, n, {self.name('f')}")

    def aggregate(self) -> Stream:
        return self.pick(self.streams).groupBy("word").aggregate("n", Sum(), "n")  # type: ignore[no-any-return]

    def persist(self) -> Stream:
        state = (
            self.pick(self.streams)
            .groupBy("word")
            .persistentAggregate(DeclaredState(self.pick(list(StateKind))), "n", Sum(), "n", name=self.name("state"))
        )
        self.states.append(state)
        return state.newValuesStream(everyChange=True)  # type: ignore[no-any-return]

    def count(self) -> Stream:
        self.pick(self.streams).persistentAggregate(DeclaredState(), Count(), "n", name=self.name("state"))
        return self.pick(self.streams)  # type: ignore[no-any-return]

    def ask(self) -> Stream:
        if not self.states:
            return self.begin()
        return self.pick(self.streams).stateQuery(self.pick(self.states), "word", MapGet(), self.name("f"))  # type: ignore[no-any-return]

    def request(self) -> None:
        asked = self.topology.newDRPCStream(self.name("ask"), "word string, n long")
        for state in self.states[:2]:
            asked = asked.stateQuery(state, "word", MapGet(), self.name("f"))

    def build(self) -> TridentTopology:
        self.streams.append(self.begin())
        verbs = [self.begin, self.each, self.native, self.keep, self.look, self.project, self.partition, self.merge]
        verbs += [self.join, self.aggregate, self.persist, self.persist, self.count, self.ask]
        for _ in range(self.data.draw(st.integers(0, 10))):
            self.streams.append(self.pick(verbs)())
        if self.data.draw(st.booleans()):
            self.request()
        return self.topology


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_any_topology_holds_together(data: st.DataObject) -> None:
    builder = Builder(data)
    topology = builder.build()
    nodes = topology.nodes

    made = builder.topology._ends()
    assert len({each.step for each in walk(*made)}) == len(walk(*made)), "two steps of one name"
    for each in walk(*made):
        assert len(set(each.schema.names)) == len(each.schema.names)
    for at, each in enumerate(nodes):
        assert all(any(source is before for before in nodes[:at]) for source in sources_of(each))

    program = cut(topology)
    written = [output.name for group in program.groups for stage in group.stages for output in stage.outputs]
    assert len(set(written)) == len(written)
    assert {state.state.name for state in topology.states} <= set(written)
    assert len(program.requests) == len(topology.requests)

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        topology.explain()
    for each in walk(*made):
        assert each.step in said.getvalue()
    xml.fromstring(topology.draw())
    for stream in builder.streams[-2:]:
        assert node(stream).step in topology.draw("json")
