"""The check that the driver finds the files of executors, before a record names them.

A test at the beginning of a run shows that some executors reach the driver's store of files. An executor that joins
later may not: on its machine the same path may lead to another folder.
"""

from collections.abc import Callable, Mapping

from trident.base.errors import SparkFailedError
from trident.files.store import FileStore


def check_found(
    files: FileStore, written: Mapping[str, int], writer: Callable[[str], str] = lambda name: "an executor"
) -> None:
    """Raise SparkFailedError unless the driver finds all files in `written`, which executors have reported.

    `written` has the size of each file in bytes, by its name in `files`. `writer` names the writer of a file, for the
    message.
    """
    found = files.sizes(written)
    lacking = [name for name, size in written.items() if found.get(name) != size]
    if not lacking:
        return
    name = lacking[0]
    size = "no such file" if name not in found else f"{found[name]} bytes"
    raise SparkFailedError(
        f"executors wrote {len(written)} files into {files.address}, but the driver does not find {len(lacking)} of "
        f"them there: of {name} {writer(name)} wrote {written[name]} bytes, and the driver finds {size}. The path "
        f"leads to another folder on the machine of this executor, which may have joined the cluster after the start. "
        f"Nothing of the batch was stored. Mount the driver's folder there; or put the checkpointLocation on a disk "
        f"that all machines share, or give a filesLocation that they reach"
    )
