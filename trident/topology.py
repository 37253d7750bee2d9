"""The topology: what was written, put together, and set to work."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from trident.base.errors import TopologyError
from trident.base.step import caller
from trident.operations.error_policy import KeepLetters
from trident.picture.explain import Known, explain_nodes
from trident.plan.nodes import BestEffort, Node, RequestSource, StateWriter, walk
from trident.plan.register import Register
from trident.stream import Stream, TridentState, foreign_names
from trident.stream.base import unknown_verb
from trident.stream.dead_letters import letters_of, taken_out, with_letters
from trident.stream.joins import merged
from trident.stream.sources import Beginnings
from trident.stream.topology_joins import Meetings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trident.log import RedisLog
    from trident.run.running import RunningTopology


class TridentTopology(Beginnings, Meetings):
    """Streams, and the states that they update: written once, then run batch by batch.

    Nothing here needs a JVM before `start`. Meaning: ``org.apache.storm.trident.TridentTopology``.

    >>> from trident import Count, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",), ("cat",)]]))
    >>> words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    TridentState('counts': word string, count bigint; opaque)
    >>> topology
    TridentTopology(streams: words; states: counts)
    """

    def __init__(self) -> None:
        self._register = Register()

    # --- what failed ------------------------------------------------------------------------------------------------

    def deadLetters(self) -> Stream:
        """The dead letters of all steps written so far, as one stream: see `Stream.deadLetters`.

        Write it behind the last step with ``onError="deadLetter"``. As `merge` does, it brings the streams of all these
        steps into one batch group; for groups that are to stay apart, ask a stream of each.
        """
        failing = with_letters(self._register.nodes)
        if not failing:
            site = caller("deadLetters")
            raise TopologyError(
                f"deadLetters (called at {site.location}): no step makes dead letters yet; give one "
                "onError='deadLetter', and write this behind it"
            )
        return letters_of(self._register, failing, self._stream)

    def deadLetterState(self, stateFactory: object, *, name: str = "deadLetters", most: int = 10_000) -> TridentState:
        """Keep the dead letters of all steps written so far in a state, the newest `most` of them.

        It is a state like any other: ``running.state("deadLetters").toPandas()``, `openState` while the topology is
        stopped, `stateQuery`; a factory with ``ttlSecs=`` lets letters pass away by their age. The key is the letter's
        id, the value the rest of it.

        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> topology = TridentTopology()
        >>> lines = topology.newStream("lines", FixedBatchSpout("line string", [["1", "x"]]))
        >>> numbers = lines.each("line", int, "n long", onError="deadLetter")
        >>> topology.deadLetterState(MemoryMapState.opaque()).name
        'deadLetters'
        """
        letters = self.deadLetters()
        back = taken_out(self._register, self._stream)
        everything = merged(self._register, [letters, *back], None, None) if back else letters
        return everything.partitionPersist(stateFactory, KeepLetters(most), name=name)

    def _stream(self, node: Node, label: str) -> Stream:
        return Stream(self._register, node, label)

    # --- what there is to run -------------------------------------------------------------------------------------

    @property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that update states."""
        return tuple(self._register.states.values())

    @property
    def sinks(self) -> tuple[Node, ...]:
        """What has an effect: the steps that update states or write, and those peeks and Debugs that lead to none."""
        return (*self.states, *self._register.sinks.values(), *self._register.leaves())

    @property
    def requests(self) -> dict[str, tuple[RequestSource, Node]]:
        """The DRPC functions: where each begins, and the step whose tuples are its answer.

        Raises TopologyError where two steps could be the answer.
        """
        return self._register.requests()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every step that leads to an effect or to an answer, each after those that it reads."""
        return tuple(walk(*self.sinks, *(leaf for _, leaf in self.requests.values())))

    # --- setting to work ------------------------------------------------------------------------------------------

    def start(
        self,
        spark: "SparkSession | None" = None,
        *,
        name: str | None = None,
        checkpointLocation: str | Path | None = None,
        **options: Any,
    ) -> "RunningTopology":
        """Set the topology to work and return its handle at once.

        Parameters
        ----------
        spark : SparkSession, optional
            The session to run on; else the active one, else a local one. Its runtime confs are copied to sessions of
            the run's own, and it is never changed.
        name : str, optional
            The topology's identity: with the names of states and streams it says what belongs together over restarts.
        checkpointLocation : path, optional
            Where the transaction log and the memory states live. Without it nothing survives the run.
        log : RedisLog, optional
            Keep the transaction log in Redis instead, for a driver that may move to another machine.
        availableNow : bool
            Run what there is, then stop.
        processingTime : str or float
            Begin a batch at most this often: ``"1 second"``, or seconds.
        requireExactlyOnce : bool
            Refuse states that are promised less; `explain` shows what each is promised.
        maxAttempts : int
            A batch that failed so often stops its group with the cause. Default 5.
        maxSpoutPending : int
            How many batches may be on their way, planned and not yet committed; they commit in order. Default 2.
        messageTimeoutSecs : float
            How long an attempt, and each call of your code, may take; twice as long at each further try. What takes
            longer has failed. Default 300.
        commitRetrySecs : float or None
            How long a store that is away or full is asked again before the group stops; the batch stays frozen and the
            next start commits it. Default 300, None for ever.
        rewindBytes : int
            How much frozen content the log keeps for a store that lost its last writes. Default 2 GB.
        replace : bool
            Stop the topology of this name that runs in this process, and take its place.

        Raises
        ------
        GuaranteeError, TopologyActiveError, LogError, StateError
            Where it cannot start; the message names the way out.
        """
        if not self._register.streams:
            raise TopologyError(
                "the topology has no stream from a spout, so there is nothing to run; begin with newStream"
            )
        if not self.sinks and not self._register.functions:
            raise TopologyError(
                "no stream of the topology has an effect: end one in persistentAggregate, or look at it with "
                "each(Debug()), peek(...) or show()"
            )
        from trident.run.start import start

        given = {"name": name, "checkpointLocation": checkpointLocation}
        options |= {key: value for key, value in given.items() if value is not None}
        return start(self, spark, **options)

    def reset(
        self,
        name: str,
        checkpointLocation: str | Path | None = None,
        *,
        log: "RedisLog | None" = None,
        force: bool = False,
    ) -> None:
        """Drop the transaction log of `name` and every state that this topology declares, together. Say where they
        are as `start` was told. Warns of states that the log knows and this topology does not declare: those on a
        server stay.

        Parameters
        ----------
        force
            Drop the states though there is no log at that place.

        Raises
        ------
        LogError
            There is no log at that place, and states of the topology stand: the place may be a slip. Nothing was
            touched.
        TopologyActiveError
            While it runs in this process.
        StateOwnedError
            Where a state's place holds another topology's state. Nothing was touched.
        """
        from trident.run.reset import reset

        reset(self, name, checkpointLocation, log, force)

    # --- looking at it --------------------------------------------------------------------------------------------

    def explain(self) -> None:
        """Print every stream's steps (who runs them: Spark itself, Python in its workers, the driver; in how many
        partitions, where that was asked for), the batch groups and stages they run in, and what each state is promised.

        Starts no JVM. `Stream.explainSpark` prints what Spark makes of a stream.
        """
        from trident.compiler.runners import stage_lines, whereabouts
        from trident.compiler.stages import cut

        program = cut(self)
        answers = {id(leaf): function for function, (_, leaf) in self.requests.items()}
        print(explain_nodes(self._ends(), Known(answers, whereabouts(program), stage_lines(program))))

    def _ends(self) -> Sequence[Node]:
        ends = self._register.ends()
        branches = [node.branch.ends() for node in ends if isinstance(node, BestEffort)]
        return [*ends, *(end for branch in branches for end in branch)]

    def __repr__(self) -> str:
        register = self._register
        parts = (("streams", [*register.streams]), ("DRPC", [*register.functions]), ("states", [*register.states]))
        told = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
        return f"TridentTopology({told})"

    def __getattr__(self, name: str) -> NoReturn:
        message = unknown_verb(self, name, foreign_names.TOPOLOGY)
        if not name.startswith("_") and hasattr(Stream, name) and name not in foreign_names.TOPOLOGY:
            message = f"'TridentTopology' has no verb {name!r}; a stream has: newStream('name', spout).{name}"
        raise AttributeError(message, name=name, obj=self)
