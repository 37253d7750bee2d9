"""Files that a run keeps and that many machines reach: on a disk, on an object store, or on HDFS."""
