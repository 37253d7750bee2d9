"""What is measured: one file a family of rows."""
