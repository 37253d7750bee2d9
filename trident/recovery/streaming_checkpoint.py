"""The checkpoint of a Structured Streaming query, given in place of a folder for a topology.

A start there would begin a new log beside the position of the query, and read each source from its beginning.
"""

from trident.base.errors import TopologyError
from trident.files.store import FileStore

_METADATA = "metadata"
_FOLDERS = ("offsets", "commits", "sources")

GUIDE = "docs/guide/from-foreachbatch.md"


def is_query_checkpoint(files: FileStore) -> bool:
    """Return whether a folder is the checkpoint of a Structured Streaming query."""
    return files.size(_METADATA) is not None and not {*_FOLDERS}.isdisjoint(files.folders(""))


def check_no_query(option: str, *places: FileStore) -> None:
    """Raise TopologyError if one of the locations that `option` names is the checkpoint of a query.

    `option`: the option with its value, for the message.
    """
    for files in places:
        if is_query_checkpoint(files):
            parts = ", ".join([_METADATA, *(f"{name}/" for name in _FOLDERS if name in files.folders(""))])
            raise TopologyError(
                f"{option}: {files.address} is the checkpoint of a Structured Streaming query (it has {parts}), and a "
                f"topology cannot continue it: a start would begin a new log beside it, and read its sources from "
                f"their beginning. Give a folder of its own. To begin where the query stopped, give the spout the "
                f"position in its offsets/, such as startingOffsets= of KafkaSpout: see {GUIDE}. Nothing was changed"
            )
