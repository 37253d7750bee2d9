"""A source of the rows of a database table: ranges of a column, planned by the driver and read by the workers."""
