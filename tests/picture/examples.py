"""The topologies in the golden files."""

from tests.support.topologies import DeclaredSpout, DeclaredState, split
from trident import Count, Debug, FilterNull, MapGet, Max, Sum, TridentTopology, expr
from trident_spouts.executor import SpoutKind
from trident_state.state_shape import StateKind


def starts(name: str) -> bool:
    return name > ""


def word_count() -> TridentTopology:
    """Return the word count with its query."""
    topology = TridentTopology()
    lines = topology.newStream("sentences", DeclaredSpout(SpoutKind.TRANSACTIONAL, "line string"))
    words = lines.each("line", split, "word string").groupBy("word")
    counts = words.persistentAggregate(DeclaredState(), Count(), "count", name="counts")
    (
        topology.newDRPCStream("words")
        .each("args", split, "word string")
        .groupBy("word")
        .stateQuery(counts, "word", MapGet(), "count")
        .each("count", FilterNull())
        .aggregate("count", Sum(), "sum")
    )
    return topology


def visits() -> TridentTopology:
    """Return a topology with the other steps: merge, join, several stages, kinds of states, effects, another group."""
    topology = TridentTopology()
    clicks = topology.newStream("clicks", DeclaredSpout(SpoutKind.OPAQUE, "user long, url string, at timestamp"))
    old = topology.newStream("users", DeclaredSpout(SpoutKind.TRANSACTIONAL, "id long, name string"))
    new = topology.newStream("joiners", DeclaredSpout(SpoutKind.TRANSACTIONAL, "id long, name string"))
    users = old.merge(new).filter("name", starts).each(Debug("users"))
    visits = topology.join([clicks, users], ["user", "id"]).each(expr("parse_url(url, 'HOST')"), "host string")
    hits = visits.groupBy("host", "name").persistentAggregate(
        DeclaredState(StateKind.TRANSACTIONAL), Count(), "hits", name="hits"
    )
    hits.newValuesStream(everyChange=True).groupBy("host").persistentAggregate(
        DeclaredState(survives="checkpoint"), "hits", Max(), "most", name="most"
    )
    users.persistentAggregate(DeclaredState(StateKind.NON_TRANSACTIONAL), Count(), "n", name="people")
    visits.project("url").map(lambda t: len(t.url), "size long").peek(print)
    beats = topology.newStream("beats", DeclaredSpout(SpoutKind.NON_TRANSACTIONAL, "at timestamp"))
    beats.persistentAggregate(DeclaredState(survives="process", fenced=False), Count(), "beats", name="beats")
    topology.newDRPCStream("top", "host string, name string").stateQuery(hits, MapGet(), "hits")
    topology.newDRPCStream("echo")
    return topology
