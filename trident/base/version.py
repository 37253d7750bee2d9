"""The version of the installed library."""

from importlib.metadata import version

__version__ = version("trident-pyspark")
