"""Delta tables as a source: the package deltalake plans on the driver, and the workers read the Parquet files."""
