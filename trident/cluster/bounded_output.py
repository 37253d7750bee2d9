"""The output of a driver that a submit started. It is limited: old output is removed."""

import os
import shutil
import sys
from pathlib import Path

MOST_BYTES = 16 << 20
"""The most bytes of the file. The file for earlier output has at most as many."""


class BoundedOutput:
    """Limits the size of a file to which this process and its children append their output.

    The content is copied aside and the file is emptied, because Spark's JVM and other children would continue to write
    to the renamed file. A line that is printed between the copy and the truncation is lost.
    """

    def __init__(self, file: Path, most: int = MOST_BYTES) -> None:
        self._file, self._most = file, most

    @property
    def former(self) -> Path:
        """The file for earlier output."""
        return self._file.with_name(f"{self._file.name}.1")

    def bound(self) -> None:
        """Move the file's content aside if it is too long, and if this process prints into the file."""
        try:
            status = self._file.stat()
            printing = os.path.samestat(status, os.fstat(sys.__stderr__.fileno())) if sys.__stderr__ else False
        except (OSError, ValueError):  # the topology was removed, or stderr is closed
            return
        if printing and status.st_size > self._most:
            shutil.copyfile(self._file, self.former)
            os.truncate(self._file, 0)
