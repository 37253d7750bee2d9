"""The modules that every package shares: errors, types and fields, attempts, call sites, the clock."""
