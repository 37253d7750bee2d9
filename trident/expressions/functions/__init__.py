"""Functions of expressions, under the names that they have in ``pyspark.sql.functions``."""
