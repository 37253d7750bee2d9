"""The topologies that are simulated, cut by the real compiler, and what fake workers make of a batch of each."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from tests.simulator import meanings, verbs
from tests.simulator.in_world import InWorld, Worlds, checksum
from tests.simulator.memo import kept, remembered
from tests.simulator.spouts import Numbers, Tuple
from trident import Count, MapGet, Sum, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.compiler.arrow.engine import ArrowSlot
from trident.compiler.program import Program, Stage
from trident.compiler.stages import cut
from trident.plan.nodes import Node
from trident.plan.state_schema import present_of

Values = dict[str, dict[str, int]]
"""State, key, value."""

KEYS = ("apple", "avocado", "banana", "blueberry")
LETTERS = ("a", "b")

FLOWS = {
    **{"one": 25, "two": 20, "stages": 30, "query": 10, "merged": 10, "distinct": 5},
    **{"recent": 6, "table": 8, "several": 8, "stateful": 5},
    **{"sessions": 8, "sessions late": 3},
    **{"interval inner": 2, "interval left": 2, "interval right": 2, "interval full": 6},
}
"""And how often each is drawn."""


@cache
def program(flow: str) -> Program:
    """counts: how often each word came. sums: the sum of the checksums of its numbers, a word. totals, by the word's
    first letter, in a second stage: the sum of all counts right after ("stages") or before ("query") each batch; or
    ("distinct") the sum of the numbers of the first tuple of each word. seen: the txid in which each word first came.
    The others stand in `verbs.py`.
    """
    topology = TridentTopology()
    if flow in verbs.MADE:
        verbs.MADE[flow](lambda name: topology.newStream(name, _spout(name)), topology)
        return cut(topology)
    numbers = topology.newStream("numbers", _spout("numbers"))
    if flow == "merged":
        numbers = topology.merge(numbers, topology.newStream("others", _spout("others")))
    words = numbers.groupBy("word")
    counts = words.persistentAggregate(InWorld("counts"), Count(), "count", name="counts")
    if flow in ("two", "stages"):
        words.persistentAggregate(InWorld("sums"), "seq", Sum(), "sum", name="sums")
    if flow in ("stages", "merged"):
        letters = counts.newValuesStream(everyChange=True).each("word", first_letter, "letter string").groupBy("letter")
        letters.persistentAggregate(InWorld("totals"), "count", Sum(), "total", name="totals")
    if flow == "query":
        asked = numbers.stateQuery(counts, "word", MapGet(), "before").each("word", first_letter, "letter string")
        asked.groupBy("letter").persistentAggregate(InWorld("totals"), "before", Sum(), "total", name="totals")
    if flow == "distinct":
        distinct = numbers.dropDuplicates("word", InWorld("seen"), name="seen")
        letters = distinct.each("word", first_letter, "letter string").groupBy("letter")
        letters.persistentAggregate(InWorld("totals"), "seq", Sum(), "total", name="totals")
    return cut(topology)


def _spout(name: str) -> Any:
    return Numbers(name, Worlds)


def first_letter(word: str) -> str:
    return word[0]


def deltas(flow: str, txid: int, tuples: Iterable[Tuple], counts: Mapping[str, int]) -> Values:
    """What batch `txid` adds to each state; `counts` are those before it. The oracle's side."""
    found: Values = {"counts": {}, "sums": {}, "totals": {}, "seen": {}}
    if flow == "distinct":
        for word, seq in sorted(tuples):
            if word not in counts and word not in found["seen"]:
                found["seen"][word] = txid
                found["totals"][word[0]] = found["totals"].get(word[0], 0) + seq
    for word, seq in tuples:
        found["counts"][word] = found["counts"].get(word, 0) + 1
        found["sums"][word] = found["sums"].get(word, 0) + checksum(seq)
        if flow == "query" and word in counts:
            found["totals"][word[0]] = found["totals"].get(word[0], 0) + counts[word]
        elif flow == "query":
            found["totals"].setdefault(word[0], 0)
    if flow in ("stages", "merged"):
        for word, delta in found["counts"].items():
            found["totals"][word[0]] = found["totals"].get(word[0], 0) + counts.get(word, 0) + delta
    return {state: found[state] for state in states_of(flow)}


def streams_of(flow: str) -> tuple[str, ...]:
    return ("numbers", "others") if flow == "merged" else verbs.streams_of(flow)


@cache
def states_of(flow: str) -> tuple[str, ...]:
    return tuple(step.state.name for step in program(flow).groups[0].states)


@cache
def _engine(flow: str) -> ArrowSlot:
    """The driver's own engine; nothing stops it in the middle, so that one serves all schedules."""
    return ArrowSlot(program(flow).groups[0])


def computed(flow: str, stage: Stage, inputs: Mapping[Node, Any], attempt: TransactionAttempt) -> dict[str, pa.Table]:
    """What workers make of a stage of the programs in `verbs.py`."""
    return dict(_engine(flow).run(stage, inputs, attempt, Path("nowhere")).results)


def worked(stage: Stage, tuples: list[Tuple], inputs: Mapping[Node, Any]) -> dict[str, pa.Table]:
    """What workers make of a stage: of the tuples, or of what earlier stages gave."""
    results: dict[str, pa.Table] = {}
    for output in stage.outputs:
        names = tuple(output.schema.names)
        if stage.number == 1 and names == ("word", "seq"):  # enters a query
            rows = sorted(tuples)
            results[output.name] = table(names, tuple(w for w, _ in rows), tuple(s for _, s in rows))
            continue
        found: dict[str, int] = {}
        if stage.number == 1:
            for word, seq in tuples:
                found[word] = found.get(word, 0) + (1 if output.name == "counts" else checksum(seq))
        else:
            (entered,) = inputs.values()
            words, values = entered.column("word").to_pylist(), entered.column(entered.num_columns - 1).to_pylist()
            for word, value in zip(words, values, strict=True):
                found[word[0]] = found.get(word[0], 0) + (value or 0)
        results[output.name] = table(names, tuple(found), tuple(found.values()))
    return results


def _table(names: tuple[str, str], keys: tuple[str, ...], values: tuple[int, ...]) -> pa.Table:
    schema = pa.schema([(names[0], pa.string()), (names[1], pa.int64())])
    columns = [pa.array(keys, pa.string()), pa.array(values, pa.int64())]
    return kept(pa.Table.from_arrays(columns, schema=schema))


table = remembered(_table, lambda *asked: asked)
"""A table of text and numbers; equal ones are one object."""


@cache
def keys_of(flow: str, state: str) -> pa.Table | None:
    """All keys that a state may have, to be looked up; None where there are too many of them."""
    keys = program(flow).shapes[state].keys
    if keys.names == []:
        return kept(pa.table({"": pa.nulls(1)}).select([]))
    if len(keys) > 1:
        return None
    return kept(pa.table({keys.names[0]: pa.array(LETTERS if keys.names[0] == "letter" else KEYS, pa.string())}))


@cache
def presenting(flow: str, state: str) -> Any:
    """What makes of a stored value the one that users see."""
    (writer,) = (step for step in program(flow).groups[0].states if step.state.name == state)
    present = present_of(writer)

    def shown(value: Any) -> Any:
        value = value if present is None or value is None else present(value)
        value = _plain(value)
        if not isinstance(value, dict):
            return value
        return {name: meanings.rounded(each) for name, each in value.items()}

    return shown


def _plain(value: Any) -> Any:
    """A value without rows: each is a dict."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.asDict(recursive=True) if isinstance(value, Row) else value
