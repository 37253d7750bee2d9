"""The public names of this module, each with the module that defines it."""

from trident.base.attempt import TransactionAttempt as TransactionAttempt
from trident.outputs.recorded_spout import RecordedSpout as RecordedSpout
from trident_spouts.budget import Budget as Budget
from trident_spouts.emission import ArrowEmission as ArrowEmission
from trident_spouts.emission import UnionEmission as UnionEmission
from trident_spouts.executor import Emission as Emission
from trident_spouts.executor import Metadata as Metadata
from trident_spouts.executor import ReadSoFar as ReadSoFar
from trident_spouts.executor import Spout as Spout
from trident_spouts.executor import SpoutExecutor as SpoutExecutor
from trident_spouts.executor import SpoutKind as SpoutKind
from trident_spouts.feeder import FeederBatchSpout as FeederBatchSpout
from trident_spouts.files.parquet import FilesEmission as FilesEmission
from trident_spouts.files.spout import FileSpout as FileSpout
from trident_spouts.fixed import FixedBatchSpout as FixedBatchSpout
from trident_spouts.iterable import IterableSpout as IterableSpout
from trident_spouts.polling_spout import PollingSpout as PollingSpout
from trident_spouts.protocols import BatchCoordinator as BatchCoordinator
from trident_spouts.protocols import BatchSpout as BatchSpout
from trident_spouts.protocols import Emitter as Emitter
from trident_spouts.protocols import OpaquePartitionedSpout as OpaquePartitionedSpout
from trident_spouts.protocols import PartitionedSpout as PartitionedSpout
from trident_spouts.protocols import TridentSpout as TridentSpout
from trident_spouts.rate import RateSpout as RateSpout
from trident_spouts.redis_streams.spout import RedisStreamSpout as RedisStreamSpout
from trident_spouts.shares import SharesEmission as SharesEmission
