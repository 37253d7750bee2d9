"""What every package of this project shares: errors, types and fields, attempts, call sites, the clock."""
