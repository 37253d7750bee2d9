"""Modules that every package uses: errors, types and fields, attempts, call sites, the clock."""
