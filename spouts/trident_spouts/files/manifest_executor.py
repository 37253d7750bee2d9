"""The executor of a FileSpout whose files are named by a manifest."""

from trident.base.attempt import TransactionAttempt
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.executor import Metadata, ReadSoFar
from trident_spouts.files.executor import FileExecutor, FileSource, read_metadata
from trident_spouts.files.manifest import ManifestFile
from trident_spouts.files.manifest_planner import ManifestPlanner, ManifestPosition


class ManifestExecutor(FileExecutor):
    """The executor of a FileSpout over the files that a manifest names."""

    def __init__(self, spout: FileSource, manifest: ManifestFile) -> None:
        super().__init__(spout, manifest.place)
        self._manifest_planner = ManifestPlanner(manifest, self._planner, spout.watch.completeAfterSecs)

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        planned = self._manifest_planner.next(_manifest_position(previous), time, budget)
        if planned is None:
            return None
        ranges, after = planned
        return {"files": [range_.to_json() for range_ in ranges], "manifest": after.to_json(), "as": self._spout.form}

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        read = _manifest_position(position).read
        return ReadSoFar(read, max(read, self._manifest_planner.named), "files")


def _manifest_position(previous: Metadata) -> ManifestPosition:
    return ManifestPosition() if previous is None else read_metadata(previous, "manifest", ManifestPosition.of_json)
