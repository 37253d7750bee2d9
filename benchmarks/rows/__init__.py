"""The measurements: one file for each family of rows."""
