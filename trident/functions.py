"""Functions of expressions that both engines compute: ``from trident import functions as F``.

They have the names and meanings of ``pyspark.sql.functions`` in ANSI mode. Times are in UTC. A string as the first
argument names a field, as in PySpark. `trident.col`, `trident.lit` and `trident.when` begin an expression.

>>> from trident import col, functions as F
>>> F.upper(F.trim("city")) == "BERLIN"
upper(trim(col('city'))) == 'BERLIN'
"""

from trident.base.lazy_names import lazy_names
from trident.base.names import did_you_mean

_HINT = "; an expression of Spark is expr('...'), and any other function is a Python function"


def _hint(name: str) -> str:
    return did_you_mean(name, __all__) or _HINT


__getattr__, __dir__, __all__ = lazy_names(__name__, _hint)
