"""The engine that chooses, stage by stage, between the driver's process and Spark."""
