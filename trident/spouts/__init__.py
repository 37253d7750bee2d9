"""The spouts of topologies: ``from trident.spouts import FileSpout``.

Ready to use, from the strongest promise to the weakest: `FileSpout` and `FixedBatchSpout` (transactional),
`PollingSpout` (opaque), `FeederBatchSpout` and `IterableSpout` (non-transactional). For a spout of your own, extend
`PartitionedSpout`, `OpaquePartitionedSpout`, `TridentSpout` or `BatchSpout`.
"""

import sys
from typing import TYPE_CHECKING

from trident.base.attempt import TransactionAttempt
from trident.base.missing_names import missing_name
from trident.base.names import by_any_case, did_you_mean
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

_OWN = "an OpaquePartitionedSpout or PartitionedSpout of your own, which reads a range of offsets again and again"

_FOREIGN = {
    "FileStreamSource": "FileSpout(path)",
    "KafkaSource": _OWN,
    "KafkaSpout": _OWN,
    "KafkaTridentSpoutOpaque": _OWN,
    "MemoryStream": "FeederBatchSpout(fields)",
    "OpaqueTridentKafkaSpout": _OWN,
    "RateSource": "PollingSpout(...) or IterableSpout(fields, function)",
}
"""Names that others use, each with what one writes here."""


def _hint(name: str) -> str:
    foreign = by_any_case(name, _FOREIGN)
    near = did_you_mean(name, __all__) or f"; it has {', '.join(__all__)}"
    return near if foreign is None else f"; use {_FOREIGN[foreign]}"


def _attribute(name: str) -> object:
    raise missing_name(__name__, name, lambda: _hint(name), sys._getframe(1))  # noqa: SLF001


if not TYPE_CHECKING:  # a type checker would take every misspelt name for an object
    __getattr__ = _attribute
