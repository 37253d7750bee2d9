"""Options of other systems, each with its replacement here, or the reason why a start has no such option."""

_ACKERS = (
    "there are no ackers: ledger=True gives each batch one ledger, with an entry for each partition, and a RichSpout's "
    "attribute tracking decides when its messages are acknowledged (tracking = 'emission' is like 0 ackers)"
)
_CHECKPOINT = (
    "every committed batch is a checkpoint of all states; processingTime='1 second' is the shortest time between "
    "the starts of two batches"
)
_WORKERS = (
    "Spark runs the processes: trident submit --master and --spark-conf spark.executor.instances=4, or "
    "spark.executor.cores; the partitions of a step are its parallelismHint(n)"
)
_CAP = (
    "there is no limit for hints: parallelismHints={'words': 4} sets the partitions of each step, and Spark's cores "
    "limit the tasks that run at once (--master 'local[4]', spark.cores.max)"
)
_QUEUES = "there are no queues between tasks; maxSpoutPending=2 limits the batches in flight"
_STATE = "each step names a state: persistentAggregate(stateProvider('redis', config), ...) of trident.state"
_METRICS = (
    "running.metrics has all counters, running.serve() shows them at /metrics, and running.progress.listen() calls"
)
_EXACTLY = "exactly-once is the default; requireExactlyOnce=True refuses a topology that is not exactly-once"

_BY_NAME = {
    **dict.fromkeys(("ackers", "numackers", "ackerexecutors", "tracking"), _ACKERS),
    **dict.fromkeys(("statecheckpointintervalms", "checkpointinterval", "checkpointintervalms"), _CHECKPOINT),
    **dict.fromkeys(("workers", "numworkers", "tasks", "setnumworkers"), _WORKERS),
    **dict.fromkeys(("maxtaskparallelism",), _CAP),
    **dict.fromkeys(("transferbuffersize", "executorreceivebuffersize", "executorsendbuffersize"), _QUEUES),
    **dict.fromkeys(("stateprovider", "stateproviderconfig"), _STATE),
    **dict.fromkeys(("metricsconsumerregister", "builtinmetricsbucketsizesecs"), f"{_METRICS} with each event"),
    **dict.fromkeys(("autotaskhooks",), f"{_METRICS} with each committed, failed or skipped batch"),
    **dict.fromkeys(("exactlyoncemode", "transactionexactlyoncemode"), _EXACTLY),
    "statssamplerate": "nothing is sampled: running.metrics counts every batch and tuple",
    "enablemessagetimeouts": "a batch always has a time limit; messageTimeoutSecs= sets it, and may be large",
    "ticktuplefreqsecs": "a step gets no ticks: processingTime='1 second' paces batches, window(...) closes by time",
    "workerchildopts": "--spark-conf spark.driver.extraJavaOptions=..., or spark.executor.extraJavaOptions",
    "guarantee": "the guarantee belongs to the topology: TridentTopology(guarantee='at-least-once')",
    "maxrowspending": "rows are limited by the source: set maxPending of the RichSpout, or the similar option of "
    "another spout",
}
"""By the plain name: in lower case, without punctuation and without a prefix such as ``topology.``."""

_PREFIXES = ("topology.", "transaction.", "storm.")


def elsewhere(option: str, known: tuple[str, ...]) -> str | None:
    """Return the replacement of another system's option; None if it is unknown.

    `known`: the options of a start. Storm spells some of them differently.

    >>> elsewhere("topology.max.spout.pending", ("maxSpoutPending",))
    'write maxSpoutPending='
    """
    prefix = next((prefix for prefix in _PREFIXES if option.startswith(prefix)), "")
    plain = _plain(option.removeprefix(prefix))
    own = next((name for name in known if _plain(name) == plain), None) if "." in option else None
    return f"write {own}=" if own is not None else _BY_NAME.get(plain)


def _plain(name: str) -> str:
    return name.replace(".", "").replace("_", "").replace("-", "").lower()
