"""Names from PySpark, Storm and other libraries with their replacements here, for error messages."""

_FEW = "applyAssembly(FirstN(n, 'field')) for the first n of a batch in an order"
_STATE = "groupBy('key').persistentAggregate(state, aggregator, 'value'), or statefulEach with your own operation"
_RENAMED = "rename('old', 'new'), or rename({'old': 'new', ...}) for several"
_OVER_ALL = "persistentAggregate(...) over all batches"
_START = "start(name=..., checkpointLocation=...)"
_BATCH = "transform(lambda df: ..., schema='a long') for Spark's own functions over a batch"
_WINDOW = "window(TumblingEventTimeWindow('1 hour', 'at', lateness='5 minutes'), ...): a window carries its watermark"
_COMPUTED = "each({'new': col('n') * 2}, replace=True), or each('n', function, 'new type')"
_RESOURCES = "Spark's own confs (spark.executor.memory and the like)"

STREAM = {
    **dict.fromkeys(("awaitTermination", "execute", "run", "start"), f"topology.{_START}"),
    "agg": f"{_OVER_ALL}, aggregate({{'n': Count(), 'sum': Sum('field')}}) over each batch",
    "alias": "rename('old', 'new') for a field, name('...') for a step",
    "avg": f"{_OVER_ALL}, or aggregate('field', Average(), 'mean') over each batch",
    "cache": "nothing: a step that several others read is evaluated once",
    "coalesce": "parallelismHint(n) after shuffle() or partitionBy(...)",
    "collect": "take(n) for the first batch, and start the topology to run it",
    "columns": "fields",
    "console": "peek(print), or each(Debug())",
    "count": f"{_OVER_ALL}, or aggregate(Count(), 'count') over each batch",
    "crossJoin": "join, on a field that has one value in both",
    "distinct": "dropDuplicates() over all batches; within one batch "
    "groupBy(fields).aggregate(Count(), 'count') and project(fields)",
    "dropDuplicatesWithinWatermark": "dropDuplicates(fields, timestampField='at', within='10 minutes')",
    "dropna": "filter('field', FilterNull())",
    "dtypes": "schema",
    "explode": "each('field', generator, 'item string'), which keeps the other fields; flatMap(...) keeps none",
    "expr": "each({'new': col('n') * 2}), or SQL that only Spark runs: each(expr(...), 'new type')",
    "first": "take(1)",
    "foreach": "peek(function), or foreachBatch(function)",
    "foreachPartition": "each with a Function that has prepare(context) and cleanup()",
    "getOutputFields": "fields",
    "having": "filter('count', ...) after aggregate",
    "head": "take(n)",
    "late": "late() of the stream that window(...) returns",
    "leftJoin": "joinTable(state, keys, joinType='left') with a table, join(..., joinType='left') within one batch",
    "limit": _FEW,
    "mapInArrow": _BATCH,
    "mapInPandas": _BATCH,
    "mapPartitions": "each with a Function that has prepare(context) and cleanup()",
    "mean": f"{_OVER_ALL}, or aggregate('field', Average(), 'mean') over each batch",
    "median": f"{_OVER_ALL}, or aggregate('field', Median(), 'median') over each batch",
    "multiReduce": "topology.multiReduce([s, t], ...)",
    "newDRPCStream": "topology.newDRPCStream('function')",
    "newStream": "topology.newStream('name', spout)",
    "newValuesStream": "newValuesStream() of the state that persistentAggregate or partitionPersist returns",
    "orderBy": _FEW,
    "persist": "persistentAggregate(...)",
    "print": "peek(print), or show(n) for the first batch",
    "printSchema": "schema",
    "reduce": f"{_OVER_ALL}, or aggregate(...) with a ReducerAggregator over each batch",
    "reduceByKey": f"groupBy('key').{_OVER_ALL}, or groupBy('key').aggregate(...) over each batch",
    "repartition": "shuffle() or partitionBy('field'), and parallelismHint(n)",
    "sample": "filter(lambda t: ...)",
    "saveAsTable": "foreachBatch(lambda df, txid, attempt: ...)",
    "select": "project('field'), or map({'new': col('n') * 2}) for computed fields",
    "selectExpr": "map({'new': col('n') * 2}), or SQL that only Spark runs: map(expr(...), 'new type')",
    "setCPULoad": _RESOURCES,
    "setMemoryLoad": _RESOURCES,
    "sort": _FEW,
    "sum": f"{_OVER_ALL}, or aggregate('field', Sum(), 'sum') over each batch",
    "toDF": _RENAMED,
    "toPandas": "take(n) for the first batch, foreachArrow(...) for all of them",
    "toStream": "the stream itself: it has no groups",
    "transformWithState": _STATE,
    "union": "merge(...)",
    "unionAll": "merge(...)",
    "unionByName": "merge(...), which matches fields by position: use project first to give them one order",
    "updateStateByKey": _STATE,
    "watermark": "watermark() of the stream that window(...) returns",
    "where": "filter(col('n') > 3), or filter('n', function)",
    "withColumn": _COMPUTED,
    "withColumnRenamed": _RENAMED,
    "withColumnsRenamed": _RENAMED,
    "withColumns": "each({'new': col('n') * 2, 'more': col('n') + 1}, replace=True)",
    "withWatermark": _WINDOW,
    "writeStream": "writeParquet(path) or foreachBatch(function), and topology.start(...)",
}

GROUPED = {name: hint for name, hint in STREAM.items() if name != "toStream"} | {
    "applyInArrow": "aggregate(...) with an Aggregator, which emits any number of tuples",
    "applyInPandas": "aggregate(...) with an Aggregator, which emits any number of tuples",
    "applyInPandasWithState": _STATE,
    "dropDuplicates": "toStream().dropDuplicates(fields): it has no groups",
    "flatMapGroups": "aggregate(...) with an Aggregator, which emits any number of tuples",
    "mapGroups": "aggregate(...) with an Aggregator, which emits any number of tuples",
    "mapGroupsWithState": _STATE,
    "max": f"{_OVER_ALL}, aggregate('field', Max(), 'max') over each batch, or toStream().max(comparator)",
    "min": f"{_OVER_ALL}, aggregate('field', Min(), 'min') over each batch, or toStream().min(comparator)",
}

_ASKED = "running.state('name') of a running topology, openState(...) of any, or stream.stateQuery(state, ...)"

STATE = {
    **dict.fromkeys(("get", "items", "keys", "multiGet", "query", "toArrow", "toPandas", "value", "values"), _ASKED),
    **dict.fromkeys(("awaitTermination", "execute", "run", "start"), f"topology.{_START}"),
    "parallelismHint": "it on the stream before: a state accepts a batch from any number of partitions",
    "stateQuery": "stream.stateQuery(state, 'key', MapGet(), 'value')",
}

_RUNNING = "the running topology that start(...) returns"

TOPOLOGY = {
    **dict.fromkeys(("build", "execute", "run", "submit", "submitTopology"), _START),
    **dict.fromkeys(("awaitTermination", "drpc", "processAllAvailable", "state", "stop"), _RUNNING),
    **dict.fromkeys(("setResourceDefaults", "setNumWorkers"), _RESOURCES),
    **dict.fromkeys(("setBolt", "addBolt"), "a verb of a stream: each('field', function, 'new string'), for example"),
    **dict.fromkeys(("setSpout", "newTransactionalStream", "newDRPCSpout"), "newStream('name', spout)"),
    "setMaxTaskParallelism": "start(parallelismHints={'words': 4}) for the partitions of each step",
    "setNumAckers": "start(ledger=True): a batch has one ledger in place of ackers",
    "newValuesStream": "newValuesStream() of the state that persistentAggregate or partitionPersist returns",
    "readStream": "newStream('name', spout)",
    "static": "newStaticState(...)",
    "union": "merge(...)",
}

MODULE = {
    "ArgMax": "MaxBy('value', 'by')",
    "ArgMin": "MinBy('value', 'by')",
    "AnyValue": "First",
    "BaseWindowedBolt": "stream.window(...)",
    "Consumer": "a function, given to peek",
    "DRPCClient": "running.drpc",
    "Fields": "text such as 'word, count'",
    "FlatMapFunction": "a function, given to flatMap",
    "InMemoryWindowsStoreFactory": "trident.state.MemoryMapState.opaque()",
    "LocalDRPC": "running.drpc",
    "LRUMemoryMapState": "trident.state.MemoryMapState.opaque(ttlSecs=...), whose values expire by age",
    "MapFunction": "a function, given to map",
    "Mean": "Average",
    "Percentile": "Median",
    "Predicate": "a function, given to filter",
    "StdDevSamp": "StdDev",
    "StormSubmitter": "topology.start(...), or `trident submit module:topology` in the shell",
    "VarSamp": "Variance",
    "VariancePop": "VarPop",
    "TridentUtils": "nothing: fields are text such as 'word, count', and each call checks its own",
    "Values": "a tuple or list: collector.emit([...])",
    "WindowConfig": "TumblingCountWindow, SlidingEventTimeWindow and similar",
    "from_avro": "FromAvro('user bigint', schema=...)",
    "from_json": "FromJson('user bigint')",
    "start_local": "trident.testing.local.start_local",
}
