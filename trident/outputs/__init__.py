"""Outputs, by which tuples leave the topology: functions, Parquet files, Kafka topics, best-effort branches."""
