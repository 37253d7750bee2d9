"""The spouts of topologies: ``from trident.spouts import FileSpout``.

Ready to use, from the strongest promise to the weakest: `FileSpout` and `FixedBatchSpout` (transactional),
`PollingSpout` (opaque), `FeederBatchSpout` and `IterableSpout` (non-transactional). For a spout of your own, extend
`PartitionedSpout`, `OpaquePartitionedSpout`, `TridentSpout` or `BatchSpout`.
"""

from trident.base.attempt import TransactionAttempt
from trident_spouts.emission import ArrowEmission, UnionEmission
from trident_spouts.executor import Emission, Metadata, Spout, SpoutExecutor, SpoutKind
from trident_spouts.feeder import FeederBatchSpout
from trident_spouts.files.parquet import FilesEmission
from trident_spouts.files.spout import FileSpout
from trident_spouts.fixed import FixedBatchSpout
from trident_spouts.iterable import IterableSpout
from trident_spouts.polling_spout import PollingSpout
from trident_spouts.protocols import (
    BatchCoordinator,
    BatchSpout,
    Emitter,
    OpaquePartitionedSpout,
    PartitionedSpout,
    TridentSpout,
)

__all__ = [
    "ArrowEmission",
    "BatchCoordinator",
    "BatchSpout",
    "Emission",
    "Emitter",
    "FeederBatchSpout",
    "FileSpout",
    "FilesEmission",
    "FixedBatchSpout",
    "IterableSpout",
    "Metadata",
    "OpaquePartitionedSpout",
    "PartitionedSpout",
    "PollingSpout",
    "Spout",
    "SpoutExecutor",
    "SpoutKind",
    "TransactionAttempt",
    "TridentSpout",
    "UnionEmission",
]
