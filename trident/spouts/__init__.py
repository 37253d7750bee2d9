"""The spouts of topologies: ``from trident.spouts import FileSpout``.

Ready to use, from the strongest promise to the weakest: `FileSpout`, `KafkaSpout`, `RedisStreamSpout`, `RecordedSpout`,
`RateSpout` and `FixedBatchSpout` (transactional), `PollingSpout` (opaque), `FeederBatchSpout` and `IterableSpout`
(non-transactional). To write a spout, extend `PartitionedSpout`, `OpaquePartitionedSpout`, `TridentSpout` or
`BatchSpout`.
"""

from trident.base.lazy_names import lazy_names
from trident.base.names import by_any_case, did_you_mean

_FOREIGN = {
    "FileStreamSource": "FileSpout(path)",
    "KafkaSource": "KafkaSpout(servers, topics)",
    "KafkaTridentSpoutOpaque": "KafkaSpout(servers, topics, kind='opaque')",
    "KafkaTridentSpoutTransactional": "KafkaSpout(servers, topics)",
    "MemoryStream": "FeederBatchSpout(fields)",
    "OpaqueTridentKafkaSpout": "KafkaSpout(servers, topics, kind='opaque')",
    "TransactionalTridentKafkaSpout": "KafkaSpout(servers, topics)",
    "RateSource": "RateSpout(rowsPerSecond)",
}
"""Names that other libraries use, each with its counterpart in this library."""


def _hint(name: str) -> str:
    foreign = by_any_case(name, _FOREIGN)
    near = did_you_mean(name, __all__) or f"; it has {', '.join(__all__)}"
    return near if foreign is None else f"; use {_FOREIGN[foreign]}"


__getattr__, __dir__, __all__ = lazy_names(__name__, _hint)
