"""The driver-side engine, and DRPC: a plan over columns in this process."""
