"""Clients of a topology's server: those of `trident_client`, whose answers are PySpark's Rows and Arrow tables here."""

from trident.base.lazy_names import lazy_names
from trident.base.names import did_you_mean

__getattr__, __dir__, __all__ = lazy_names(__name__, lambda name: did_you_mean(name, __all__))
