"""The choice of files for the next batch, among the files that a manifest names."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from trident.base.errors import SourceUnreadableError
from trident_spouts.batch_budget import Budget
from trident_spouts.files.file_ranges import FileRange
from trident_spouts.files.listing import check_readable
from trident_spouts.files.manifest import ManifestFile
from trident_spouts.files.planner import MOST_FILES, Planner
from trident_spouts.files.read_files import ReadFiles
from trident_spouts.files.storage import ListedFile, StaleListingError

_LOOKS = 5
"""The most times that one plan looks up the files, if they change meanwhile."""


@dataclass(frozen=True, slots=True)
class ManifestPosition:
    """The position of a stream in its manifest: how many names were read completely, and the checksum of these names.

    `begun` has an entry for the next file if part of that file was read.
    """

    read: int = 0
    checksum: int = 0
    begun: ReadFiles = ReadFiles()

    @classmethod
    def of_json(cls, position: list[Any]) -> "ManifestPosition":
        """Return the position in the metadata of a batch."""
        read, checksum, begun = position
        return cls(int(read), int(checksum), ReadFiles.decode(begun))

    def to_json(self) -> list[Any]:
        """Return the position as JSON, for the metadata of a batch."""
        return [self.read, self.checksum, self.begun.encode()]


class ManifestPlanner:
    """The planner of the batches of one source, from the files that `manifest` names.

    `planner` divides the files into ranges.
    """

    def __init__(self, manifest: ManifestFile, planner: Planner, complete_after: float) -> None:
        self._manifest = manifest
        self._complete_after = complete_after
        # A manifest names only complete files; only the manifest itself may still be written.
        self._planner = replace(planner, limits=replace(planner.limits, complete_after=0.0))
        self.named = 0
        """The number of files that the manifest named at the last reading."""

    def next(
        self, position: ManifestPosition, time: float, budget: Budget
    ) -> tuple[list[FileRange], ManifestPosition] | None:
        """Return the ranges that the next batch reads, and the position after them; None if there is nothing to read.

        Raises SpoutContractError if the manifest does not begin with the names that were read.
        """
        names = self._manifest.names(time, self._complete_after)
        self._manifest.check_read(names, position.read, position.checksum)
        self.named = len(names)
        for _ in range(_LOOKS):
            with suppress(StaleListingError):
                return self._planned(names, position, time, budget)
        raise SourceUnreadableError(
            f"FileSpout: the files that {self._manifest} names change while they are read; the batch is planned again"
        )

    def _planned(
        self, names: list[str], position: ManifestPosition, time: float, budget: Budget
    ) -> tuple[list[FileRange], ManifestPosition] | None:
        files = self._coming(names[position.read :], position.begun)
        ranges, seen = self._planner.next(self._planner.recognize(position.begun, files), files, time, budget)
        if not ranges:
            return None
        ended = {range_.name for range_ in ranges if range_.end == range_.size}
        read = position.read
        for file in files:
            if file.name not in ended and position.begun.bytes_read(file) < file.size:
                break
            read += 1
        begun = {name: seen.entries[name] for name in names[read : read + 1] if name in seen.entries}
        return ranges, ManifestPosition(read, self._manifest.checksum(names[:read]), ReadFiles(entries=begun))

    def _coming(self, names: list[str], begun: ReadFiles) -> list[ListedFile]:
        """Look up the files of the next names, at least as many as fit into a batch. Return them in order."""
        limits, files, count, size = self._planner.limits, list[ListedFile](), 0, 0
        for file in self._manifest.files(names):
            files.append(file)
            count, size = count + bool(file.size), size + file.size - begun.bytes_read(file)
            if size >= limits.bytes or count >= (limits.files or MOST_FILES):
                break
        if self._planner.unpacks:
            check_readable(files, self._planner.place)
        return files
