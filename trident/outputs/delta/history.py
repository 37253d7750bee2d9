"""The versions of a table since an output last looked: whether it was restored, and the output's own files."""

import os
from pathlib import Path

from trident.base.durable_files import fsync_folder
from trident.files.delta_folder import TableFolder
from trident_spouts.delta.commits import LOG, Commit, commit_path, read_commit


class TableHistory:
    """The commits of a table, from the one that this output has seen last."""

    def __init__(self, folder: TableFolder, application: str) -> None:
        self._folder, self._application = folder, application
        self._seen = -1
        self.applications = frozenset[str]()
        """The applications of the commits that `begin` has read: of all that the log has, if none is of the output."""

    def begin(self, version: int) -> None:
        """Begin before the output's last version up to `version`, or after `version` if the log has none."""
        self._seen = version
        for at in range(version, -1, -1):
            commit = self._commit(at)
            if commit is None:
                return
            self.applications |= commit.applications
            if self._application in commit.applications:
                self._seen = at - 1
                return

    def look(self, version: int) -> int | None:
        """Return the version up to `version` that restored the table since the last look; None if there is none.

        The output's own versions are made durable, if the table is on a file system.
        """
        restored = None
        for at in range(self._seen + 1, version + 1):
            commit = self._commit(at)
            if commit is None:
                continue  # it was cleaned up
            if commit.restores:
                restored = at
            if self._folder.local and self._application in commit.applications:
                self._sync(commit)
        if restored is None:
            self._seen = version
        return restored

    def _commit(self, version: int) -> Commit | None:
        content = self._folder.read(commit_path(version))
        return None if content is None else read_commit(version, content, self._folder.shown)

    def _sync(self, commit: Commit) -> None:
        """Write a version to the disk: its files, their names, and its commit. Readers begin with a checkpoint."""
        root = Path(self._folder.uri)
        files = [root / file.path for file in (*commit.files, *commit.change_files)]
        files += sorted((root / LOG).glob(f"{commit.version:020}.*"))
        files += [path for path in (root / LOG / "_last_checkpoint",) if path.exists()]
        for path in files:
            if path.exists():  # the table may have been compacted and cleaned up since
                _fsync(path)
        folders = {folder for path in files for folder in path.parents if folder == root or root in folder.parents}
        for folder in sorted(folders, reverse=True):
            fsync_folder(folder)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
