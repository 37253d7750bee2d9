"""The formats of stored bytes that have a number, each with the module that knows the number."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Format:
    """A format: its name in ``docs/compatibility.md``, and the constant with its number."""

    name: str
    module: str
    constant: str = "FORMAT"

    @property
    def number(self) -> object:
        return getattr(import_module(self.module), self.constant)


FORMATS = (
    Format("log in SQLite", "trident.log.sqlite_log"),
    Format("log in Redis", "trident.log.redis_log"),
    Format("snapshot of a state in memory", "trident_state.memory.segments"),
    Format("state in Redis", "trident_state.redis.meta"),
    Format("state in a map, SQLite or PostgreSQL", "trident_state.backing.meta"),
    Format("state in a Delta table", "trident_state.delta.record"),
    Format("Parquet output", "trident.outputs.parquet_folder"),
    Format("Delta output", "trident.outputs.delta.record", "_FORMAT"),
    Format("JDBC output", "trident.outputs.jdbc.record", "_FORMAT"),
    Format("Kafka output", "trident.outputs.kafka.record", "_FORMAT"),
    Format("savepoint", "trident.recovery.savepoint", "_FORMAT"),
    Format("stored topology", "trident.cluster.stored_topology"),
)

LOGS = ("log in SQLite", "log in Redis")


def changed_behind_the_log(former: Mapping[str, object], present: Mapping[str, object]) -> list[str]:
    """Return the formats whose number changed while a log kept its number.

    A start reads the log first. If its number changes with every other one, a former version refuses what a later one
    wrote before it touches anything.

    >>> former = {"log in SQLite": "log 6", "log in Redis": "log 5", "savepoint": 1}
    >>> changed_behind_the_log(former, {**former, "savepoint": 2})
    ['savepoint']
    >>> changed_behind_the_log(former, {"log in SQLite": "log 7", "log in Redis": "log 6", "savepoint": 2})
    []
    """
    if all(former[log] != present[log] for log in LOGS):
        return []
    return [name for name in present if former.get(name) != present[name]]
