"""Warnings of fields that the first files or lines of a run do not have.

Such a field may be misspelt; all its values are null.
"""

import logging
from collections.abc import Sequence

from trident.base.names import did_you_mean
from trident.base.short_texts import shorten
from trident_spouts.files.file_ranges import PlannedFile
from trident_spouts.files.json_lines import keys_of
from trident_spouts.files.line_reader import Stretch, first_lines
from trident_spouts.files.parquet_reader import column_of

_log = logging.getLogger("trident.spouts")

_FIRST_BYTES = 256 << 10
"""The number of bytes of JSON lines that are searched for the names of fields."""


class AbsentFields:
    """The search for the fields of a stream in the first batch of a run that has names of fields.

    Later files and lines are not searched, because the columns of a source may change over time.
    """

    def __init__(self) -> None:
        self._looked = False

    def look_in_files(self, fields: Sequence[str], files: Sequence[PlannedFile], columns: Sequence[str]) -> None:
        """Log a warning for each field that no Parquet file of a batch has. `columns` are those of all files."""
        if not self._looked and columns:
            self._looked = True
            where = f"{files[0]} has" if len(files) == 1 else f"{files[0]} and {len(files) - 1} more have"
            absent = [name for name in fields if column_of(name, columns) is None]
            _warn(absent, f"{where} no column", "which is read as null; the columns there are", columns)

    def look_in_lines(self, fields: Sequence[str], stretch: Stretch) -> None:
        """Log a warning for each field that none of the first lines of JSON has."""
        if not self._looked:
            self._looked = True
            lines = first_lines(stretch, _FIRST_BYTES)
            keys = keys_of(lines)
            absent = [name for name in fields if name not in keys] if keys else []
            where = f"none of the first {len(lines)} line(s) of {stretch.path} has the field"
            _warn(absent, where, "which is read as null there; the lines have", keys)


def _warn(absent: Sequence[str], where: str, there: str, names: Sequence[str]) -> None:
    for name in absent:
        shown, hint = shorten(", ".join(map(repr, names))), did_you_mean(name, names)
        _log.warning("FileSpout: %s %r, %s %s%s", where, name, there, shown, hint)
