"""Files that a run keeps and that many machines reach: on a disk, or on an object store."""
