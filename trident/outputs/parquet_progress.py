"""The progress of a Parquet output: a record of its last batch, which remains when readers remove batches.

    _trident/progress/00000000000000000007   batch 7, and all before it, were published

An older copy of the output has an older record, which distinguishes it from an output that readers have emptied. A
record is written after its batch is durable, so it never names an unpublished batch. The newest record counts.
"""

from trident.files.store import FileStore
from trident.outputs.parquet_folder import OWN_FOLDER

PROGRESS = f"{OWN_FOLDER}/progress"


def record_name(txid: int) -> str:
    """Return the name of the record of a batch."""
    return f"{PROGRESS}/{txid:020}"


def last_noted(place: FileStore) -> int:
    """Return the txid of the newest record; 0 if there is no record."""
    names = [file.name.rpartition("/")[2] for file in place.files(PROGRESS)]
    return max((int(name) for name in names if name.isdigit()), default=0)
