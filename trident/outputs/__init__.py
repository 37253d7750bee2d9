"""Outputs, by which tuples leave the topology: functions, Parquet files, best-effort branches."""
