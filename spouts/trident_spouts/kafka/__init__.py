"""Kafka as a source: ranges of offsets, planned by the driver and read by Spark's connector or by confluent-kafka."""
