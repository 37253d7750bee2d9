"""Data files of tables: Parquet files that a table's log names, read by the workers."""
