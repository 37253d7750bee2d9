"""Descriptions of the states that verbs declare: factory, name and watermark, checked at the call."""

from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql.types import DataType, StructField, StructType

from trident.base.short_texts import brief
from trident.base.verb_call import Step
from trident.operations.evolution import read_evolutions
from trident.operations.initial_state import read_initial
from trident.operations.watermark_records import record_type
from trident.operations.windows import Clocked
from trident.plan import nodes, step_checks
from trident.plan.evolutions import formers_of
from trident.plan.step_register import Register
from trident.stream.arguments import check_factory, name_of
from trident.stream.backfills import with_backfill
from trident_state.memory.factory import MemoryMapState
from trident_state.state_shape import StateKind
from trident_state.store import StateFactory

WriterT = TypeVar("WriterT", nodes.PersistentAggregate | nodes.PersistentReduce, nodes.PartitionPersist)


def check_no_requests(source: nodes.Node, step: Step) -> None:
    """Raise an error if tuples of DRPC requests would update a state."""
    if step_checks.is_request(source):
        raise step.wrong("DRPC requests cannot update a state; they read states with stateQuery")


def factory_or_memory(factory: object, step: Step, usage: str) -> Any:
    """Return `factory`, or ``MemoryMapState.opaque()`` if it is None. Raises an error if it is not a state factory."""
    factory = MemoryMapState.opaque() if factory is None else factory
    check_factory(factory, step, usage)
    return factory


def state_spec(
    register: Register, name: str | None, factory: StateFactory, step: Step, default: str | None = None
) -> nodes.StateSpec:
    """Return the description of a state named `name`, or `default` if `name` is None.

    Raises DuplicateNameError if the topology has a state of this name, and TopologyError for an invalid name.
    """
    state = name_of("a state", name, step, default)
    register.check_free(state, step)
    return nodes.StateSpec(state, _at_least_once(factory, step) if register.atLeastOnce else factory)


def _at_least_once(factory: StateFactory, step: Step) -> Any:
    """Return a nonTransactional factory made from `factory`. Raises TopologyError if that is impossible."""
    try:
        return replace(factory, kind=StateKind.NON_TRANSACTIONAL)  # type: ignore[type-var]
    except (TypeError, ValueError) as error:
        raise step.wrong(
            f"guarantee='at-least-once' makes every state nonTransactional, which {brief(factory)} does not support: "
            f"{error}"
        ) from None


def with_past(node: WriterT, evolve: object, initialState: object, backfill: object, step: Step) -> WriterT:
    """Return the step `node` with the former shapes and the initial content of its state, as the verb declares them.

    Raises TopologyError if values of a former shape cannot become values of the state, or if earlier tuples of its
    streams cannot be read again.
    """
    if evolve is None and initialState is None and backfill is False:
        return node
    if node.state.factory.kind is StateKind.NON_TRANSACTIONAL:
        raise step.wrong(
            f"{_past_of(initialState, backfill)}= needs an opaque or transactional state: after a crash all values "
            "are written again, and a nonTransactional state would add them twice"
        )
    initial = None if initialState is None else read_initial(initialState, step)
    node = replace(node, state=replace(node.state, evolve=read_evolutions(evolve, step), initial=initial))
    formers_of(node, step)
    return with_backfill(node, backfill, step)


def _past_of(initialState: object, backfill: object) -> str:
    """Return the name of the argument that gives a state its initial content."""
    return "initialState" if initialState is not None else "evolve" if backfill is False else "backfill"


def add_watermark(
    register: Register,
    label: str,
    source: nodes.Node,
    timing: Clocked,
    spec: nodes.StateSpec,
    kind: DataType,
    step: Step,
) -> nodes.Watermark:
    """Add the step that maintains, in the state `spec`, the watermark of the tuples of `source`. Return the step.

    `timing` defines the watermark; `kind` is its type.
    """
    watermark = nodes.Watermark(
        source,
        timing,
        StructType([]),
        spec,
        **step.gives(StructType([StructField("watermark", record_type(kind))]), ".watermark"),
    )
    register.add(label, watermark, part=True)
    return watermark


def add_update(
    register: Register,
    label: str,
    node: nodes.EmittingUpdate,
    outputs: StructType,
    step: Step,
) -> nodes.Emitted:
    """Add the step `node`, which updates a state, and a step for the tuples that it emits. Return the second step."""
    register.add(label, node)
    emitted = nodes.Emitted(node, **step.gives(outputs, ".results"))
    register.add(label, emitted, part=True)
    register.emitted[node] = emitted
    return emitted
