"""The class TridentTopology: a program declares its streams and states with it, and starts it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, Unpack, get_args

from trident.base.errors import TopologyError
from trident.base.verb_call import caller
from trident.configuration.start_options import StartOptions, shows_options
from trident.operations.dead_letters import KeepLetters
from trident.picture.explain import Known, explain_nodes
from trident.plan.nodes import BestEffort, Node, RequestSource, StateWriter, walk
from trident.plan.parallelism_hints import Hints, hints_in, named_hints
from trident.plan.step_register import Register
from trident.plan.topology_protocol import EngineName
from trident.stream import Stream, TridentState, names_elsewhere
from trident.stream.base import unknown_verb
from trident.stream.dead_letters import dead_letters_of, replayed_letters, steps_with_dead_letters
from trident.stream.joins import merged
from trident.stream.sources import SourceVerbs
from trident.stream.topology_joins import TopologyJoinVerbs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trident.log import RedisLog
    from trident.run.running import RunningTopology


Guarantee = Literal["exactly-once", "at-least-once"]


class TridentTopology(SourceVerbs, TopologyJoinVerbs):
    """The streams of a program and the states that they update.

    They are declared once, then run batch by batch by `start`.

    Only `start` on Spark needs a JVM. Meaning: ``org.apache.storm.trident.TridentTopology``.

    >>> from trident import Count, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",), ("cat",)]]))
    >>> words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    TridentState('counts': word string, count bigint; opaque)
    >>> topology
    TridentTopology(streams: words; states: counts)

    Parameters
    ----------
    guarantee : "exactly-once" or "at-least-once"
        Default ``"exactly-once"``: each state has the kind of its factory, and `explain` shows the promise.
        ``"at-least-once"``: every state is kept as ``nonTransactional``, so the same program writes only values,
        without txid and previous value. A batch that a crash left half-written may then count twice; nothing is lost.
        The kind of a stored state is fixed when it is created: to change the guarantee of a state, drop it.

    Notes
    -----
    Meaning of the guarantee: JStorm's ``transaction.exactly.once.mode``.
    """

    def __init__(self, guarantee: Guarantee = "exactly-once") -> None:
        if guarantee not in get_args(Guarantee):
            raise TopologyError(f"guarantee={guarantee!r}: expected 'exactly-once' or 'at-least-once'")
        self._register = Register(atLeastOnce=guarantee == "at-least-once")

    # --- dead letters ------------------------------------------------------------------------------------------------

    def deadLetters(self) -> Stream:
        """Return one stream of the dead letters of all steps written so far: see `Stream.deadLetters`.

        Call it after the last step with ``onError="deadLetter"``. Like `merge`, it unites the streams of all these
        steps in one batch group. To keep the groups separate, call `Stream.deadLetters` in each group instead.
        """
        failing = steps_with_dead_letters(self._register.nodes)
        if not failing:
            site = caller("deadLetters")
            raise TopologyError(
                f"deadLetters (called at {site.location}): no step before it keeps dead letters; set "
                "onError='deadLetter' on one"
            )
        return dead_letters_of(self._register, failing, self._stream)

    def deadLetterState(self, stateFactory: object, *, name: str = "deadLetters", most: int = 10_000) -> TridentState:
        """Keep the dead letters of all steps written so far in a state, the newest `most` of them.

        Read this state like any other: by ``running.state("deadLetters").toPandas()``, by `openState` while the
        topology is stopped, or by `stateQuery`. Its key is a letter's id, its value the letter's other fields. A
        factory with ``ttlSecs=`` lets the letters expire.

        If there are more than `most`, the oldest are removed, and cannot be replayed. A warning in the log, the events
        (``states[name]["evicted"]``) and the metric ``trident_dead_letters_evicted_total`` give their number.

        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> topology = TridentTopology()
        >>> lines = topology.newStream("lines", FixedBatchSpout("line string", [["1", "x"]]))
        >>> numbers = lines.each("line", int, "n long", onError="deadLetter")
        >>> topology.deadLetterState(MemoryMapState.opaque()).name
        'deadLetters'
        """
        letters = self.deadLetters()
        replayed = replayed_letters(self._register, self._stream)
        changes = merged(self._register, [letters, *replayed], None, None) if replayed else letters
        return changes.partitionPersist(stateFactory, KeepLetters(most), name=name)

    def _stream(self, node: Node, label: str) -> Stream:
        return Stream(self._register, node, label)

    # --- the plan -------------------------------------------------------------------------------------

    @property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that update states."""
        return tuple(self._register.states.values())

    @property
    def sinks(self) -> tuple[Node, ...]:
        """The steps with an effect: writers of states, outputs, and each peek or Debug that leads to no other effect.

        Peeks and Debugs within a DRPC function are excluded.
        """
        return (*self.states, *self._register.sinks.values(), *self._register.loose_effects())

    @property
    def requests(self) -> dict[str, tuple[RequestSource, Node]]:
        """The DRPC functions by name, each with the source of its requests and the step with the tuples of the answer.

        Raises TopologyError if two steps of one function could be the answer.
        """
        return self._register.requests()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All steps that lead to an effect or to a DRPC answer, each after the steps that it reads."""
        return tuple(walk(*self.sinks, *(leaf for _, leaf in self.requests.values())))

    # --- start and reset ------------------------------------------------------------------------------------------

    @shows_options
    def start(self, spark: "SparkSession | None" = None, **options: "Unpack[StartOptions]") -> "RunningTopology":
        """Start the topology, and return the handle of the run without waiting for a batch.

        An option that the call leaves out has its value from the environment or from the file ``trident.toml``,
        otherwise its default; ``trident config`` shows these values.

        Parameters
        ----------
        spark : SparkSession, optional
            The session to run on. Omitted: the active session, or a new local session if none is active. The run makes
            separate sessions, which copy the runtime confs of this session, and never changes this session.
        engine : "spark", "embedded" or "auto"
            Default ``"spark"``: each batch is a Spark job. ``"embedded"``: batches are computed in this process over
            Arrow columns, without a JVM, for development, tests, and small topologies that must answer within
            milliseconds. Log, states, guarantees and meaning are the same, and a topology may change its engine between
            two starts. Steps that only Spark can run (``expr``, Columns, udfs, ``transform``, ``foreachBatch``) are
            refused. ``"auto"``: each stage of a batch runs in this process or on Spark, whichever is expected to be
            faster. Spark is started only when a stage needs it, or may be faster on it.
        name : str, optional
            The topology's identity. A restarted program finds its states and positions by this name and by the names of
            its states and streams.
        checkpointLocation : path, optional
            The folder of the transaction log and of the memory states. Without it, neither survives the run.
        log : RedisLog, optional
            Keep the transaction log in Redis instead, for a driver that may move to another machine.
        filesLocation : str, optional
            Keep the run's files (large frozen results, snapshots of memory states) on an object store or HDFS, by a URL
            such as ``"s3://bucket/prefix"`` or ``"hdfs://namenode:8020/folder"``, instead of under the
            checkpointLocation: so the machines of a cluster need no shared disk. Needs a log that lasts: `log`, or a
            `checkpointLocation` for it.
        filesStorage : dict of str, optional
            The options of an object store, such as ``{"region": "eu-central-1", "secret_access_key": "env:MINE"}``, as
            for `FileSpout(storage=)`. Each of Spark's workers reads ``env:`` and ``file:`` values by itself.
        availableNow : bool
            Process the data that the sources have now, then stop. An INACTIVE topology waits for ``running.activate()``
            first.
        processingTime : duration
            The shortest time between the beginnings of two batches.
        requireExactlyOnce : bool
            Refuse to start if any state is promised less than exactly once; `explain` shows the promise for each state.
        maxAttempts : int or None
            After this many failures of a batch, its batch group stops with the cause. Default 5; None tries for ever,
            as Storm does. The pauses between attempts grow to a minute.
        retrySecs : duration, optional
            For how long a failing batch is tried again, regardless of the number of attempts: the sum of the pauses. By
            default 60 seconds after a connection error or a timeout in your code, and no time after other errors.
        maxSpoutPending : int
            How many batches may be under way: planned, and not yet committed. Batches commit in order. Default 2.
        messageTimeoutSecs : duration
            How long an attempt, and each call of your code, may take before it counts as failed. The time doubles at
            each retry. Default 300.
        commitRetrySecs : duration or None
            How long a commit is retried while a store does not answer or is full, before the batch group stops. The
            batch stays frozen, and the next start commits it. Default 300; None retries for ever.
        rewindBytes : int
            How many bytes of frozen batches the log keeps, to heal a store that lost its last writes. Default 2 GB.
        targetBatchSecs : duration, optional
            Size the batches so that each takes about this long from its plan to its commit, under any load. Without it,
            only the limits of each spout decide. A planned batch is never reduced.
        autoRows : int
            With ``engine="auto"``: the most tuples that this process reads for a stage. A larger input runs on Spark.
            Default 10,000,000.
        autoBytes : int
            With ``engine="auto"``: the most bytes that this process reads for a stage. Default 512 MB.
        driverRows : int
            With ``engine="spark"``: this process computes a stage that calls none of your code, from at most this many
            tuples that it has in memory. Larger stages are Spark jobs. 0: every stage is a Spark job. Default 20,000.
        active : bool
            False: start INACTIVE. Frozen batches are committed, and states and DRPC functions answer, but no new batch
            is planned before ``running.activate()``. Default True.
        parallelismHints : dict of str and int, optional
            Numbers of partitions in place of those in the program: ``{"words": 8}`` for each `parallelismHint` of the
            stream "words", ``{"words/2": 8}`` for one step. ``running.rebalance`` changes them in a run.
        spouts : dict of dict, optional
            Options of spouts in place of those in the program, by stream: ``{"orders": {"maxOffsetsPerBatch": 1000}}``.
            They are the arguments of the spout's class. The fields, the kind and the streams of a spout stay.
        ledger : bool
            Keep a ledger of each batch: every partition reports the rows that it sent and received, and an attempt that
            lost or doubled a row fails with a LedgerError that names the step and the partition, and is tried again. On
            Spark it does not count the input rows of Spark's native steps; a warning at the start names these steps.
        debug : bool or list of str
            True: log a line when a batch begins and one when it is committed. Names of steps, such as ``["words/2"]``
            (``"words"``: all steps of the stream): also a line for each tuple that leaves them, at most 100 of a step
            and batch, as `Debug` in the program would. The logger is ``trident.debug``, the level INFO. Default False.
        waitStrategy : WaitStrategy, optional
            Decides how long to wait before the spouts are polled again, after they had no rows, and while
            `maxSpoutPending` batches are in progress. Default: 1 ms, then twice as long each time, up to half a second.
        acceptSteps : list of str, optional
            The names of states that keep their rows although steps between them and the changes of which they are made
            are others than before, such as a filter. Without it such a start is refused. Give it for one start, if the
            new steps give the same rows as the former ones.
        user : dict, optional
            User configuration, such as ``{"region": "eu"}``: texts, numbers, booleans, and lists and tables of
            these. An operation reads it as ``context.config`` in its `prepare`, a spout in its `open`. A key
            takes the place of the same key in ``[user]`` of ``trident.toml``, and of ``TRIDENT_USER_...``. ``env:NAME``
            and ``file:path`` are read where this process runs.
        replace : bool
            If a topology of this name runs in this process, stop it and start this topology in its place.
        standby : bool
            Wait until the driver that holds the log, perhaps in another process or on another machine, has stopped, or
            has not renewed its lease for `leaseSecs`; then start as usual. The call returns when it has taken over.
            There may be several standbys; one of them takes over. Needs `checkpointLocation` or `log`.
        takeover : bool, optional
            True: take over at once, and fence a driver that still holds the log. This is what a start without `standby`
            does, too.
        leaseSecs : duration
            How long a standby waits for a renewal of the driver's lease before it takes over: the greater of its
            `leaseSecs` and the driver's. A driver renews its lease at least four times in that time. Default 10.

        A duration is ``"5 minutes"``, ``"5m"``, a number of seconds, or a ``timedelta``, here as in all options.

        Raises
        ------
        GuaranteeError, TopologyActiveError, LogError, StateError
            The topology cannot start. The message gives advice.
        MissingSessionError
            The embedded engine cannot run some steps. The message names each of them, and nothing was changed.
        """
        if not self._register.streams and not self._register.functions:
            raise TopologyError(
                "nothing to run: the topology has no stream from a spout and no DRPC function; begin with "
                "newStream or newDRPCStream"
            )
        if self._register.streams and not self.sinks:
            raise TopologyError(
                "no stream of the topology has an effect: end one with persistentAggregate, or print it with "
                "each(Debug()), peek(...) or show()"
            )
        from trident.configuration.layers import with_configured

        given = with_configured(options)
        warm_up = None
        if given.get("engine", "spark") == "spark":
            from trident.compiler.spark.warm_up import WarmUp

            warm_up = WarmUp.begin(spark, self.nodes)  # first of all, because the imports below take long
        from trident.run.start import start

        return start(self, spark, warm_up, **given)

    def reset(
        self,
        name: str,
        checkpointLocation: str | Path | None = None,
        *,
        log: "RedisLog | None" = None,
        force: bool = False,
        filesLocation: str | None = None,
        filesStorage: Mapping[str, str] | None = None,
    ) -> None:
        """Drop the transaction log of the topology `name`, together with every state that this topology declares.

        Give the log's location by the arguments that `start` got. If the log has states that this topology does not
        declare, a warning names them; such states on a server are not dropped.

        Parameters
        ----------
        force
            Drop the states even if there is no log at that location, or if a state belongs to another log. A fork also
            forgets which outputs and sources belong to the topology from which it was forked.

        Raises
        ------
        LogError
            There is no log at that location, but states of the topology exist: the location may be wrong. Nothing was
            changed.
        TopologyActiveError
            The topology runs in this process.
        StateOwnedError
            A state of another topology is stored under the name of a state of this topology. Nothing was changed.
        """
        from trident.run.reset import reset

        reset(self, name, checkpointLocation, log, force, filesLocation, filesStorage)

    # --- explain and display -------------------------------------------------------------------------------------

    def explain(
        self,
        engine: EngineName = "spark",
        parallelismHints: Hints | None = None,
        ledger: bool = False,
        *,
        name: str | None = None,
        checkpointLocation: str | Path | None = None,
        log: "RedisLog | None" = None,
    ) -> None:
        """Print the steps of every stream, the batch groups and stages that run the steps, and each state's promise.

        Each step is printed with its runner (Spark itself, Python in Spark's workers, or the driver) and, if the
        program sets one, its number of partitions. With ``engine="embedded"`` the runner is the driver, or "only on
        Spark" for a step that a start on this engine refuses. With ``engine="auto"`` a step that both engines can run
        has both runners, such as "driver or Spark". `parallelismHints` are those of a start or a rebalance. With
        ``ledger=True`` a line names the steps whose input rows a ledger does not count on Spark. No JVM is started.
        `Stream.explainSpark` prints Spark's plan of a stream.

        With the `name` and the `checkpointLocation` or `log` of a start, more lines say what that start would do with
        each stored state: continue it, change its values (`Evolution`), or refuse it. Nothing is written.
        """
        from trident.access.start_preview import start_lines
        from trident.compiler.engine_choice import check_engine_name
        from trident.compiler.stages import cut
        from trident.compiler.step_descriptions import (
            reasons_of_drivers,
            runners_of_steps,
            stage_lines,
            writers_of_states,
        )
        from trident.compiler.tracking.uncounted_steps import unseen_text

        check_engine_name(engine)
        program = cut(self)
        answers = {id(leaf): function for function, (_, leaf) in self.requests.items()}
        hints = named_hints("parallelismHints", parallelismHints or {}, hints_in(self.nodes))
        runners, writers = runners_of_steps(program, engine), writers_of_states(program, engine)
        lines = stage_lines(program, engine)
        if ledger and engine != "embedded" and (text := unseen_text(program)):
            lines.append(text)
        known = Known(answers, runners, writers, reasons_of_drivers(program, engine), lines, hints)
        print("\n".join([explain_nodes(self._ends(), known), *start_lines(program, name, checkpointLocation, log)]))

    def _ends(self) -> Sequence[Node]:
        ends = self._register.ends()
        branches = [node.branch.ends() for node in ends if isinstance(node, BestEffort)]
        return [*ends, *(end for branch in branches for end in branch)]

    def __repr__(self) -> str:
        register = self._register
        parts = (("streams", [*register.streams]), ("DRPC", [*register.functions]), ("states", [*register.states]))
        text = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in parts if names)
        return f"TridentTopology({text})"

    if not TYPE_CHECKING:  # see `StreamBase`

        def __getattr__(self, name: str) -> NoReturn:
            message = unknown_verb(self, name, names_elsewhere.TOPOLOGY)
            if not name.startswith("_") and hasattr(Stream, name) and name not in names_elsewhere.TOPOLOGY:
                message = f"'TridentTopology' has no verb {name!r}; a stream has it: newStream('name', spout).{name}"
            raise AttributeError(message, name=name, obj=self)
