"""The driver-side engine and DRPC: plans evaluated over columns in this process."""
