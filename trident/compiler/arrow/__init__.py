"""The embedded engine and DRPC: plans evaluated over columns in this process."""
