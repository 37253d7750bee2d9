"""The Nexmark benchmark: its 23 queries on both engines, checked against DuckDB, and Structured Streaming beside."""
