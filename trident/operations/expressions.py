"""SQL expressions as operations: expr."""

from dataclasses import dataclass

from trident.base.errors import TopologyError


@dataclass(frozen=True)
class Expression:
    """A SQL expression as plain data. It can be created, pickled and printed without a session."""

    text: str

    def __repr__(self) -> str:
        return f"expr({self.text!r})"


def expr(text: str) -> Expression:
    """Return an operation that Spark runs natively: an expression in Spark SQL over the stream's fields.

    A generator (``explode(...)``) gives many tuples. Only Spark can infer an expression's type, and it is not used
    while a topology is built, so write the type with the output field. Meaning: ``pyspark.sql.functions.expr``.

    >>> expr("explode(split(line, ' '))")
    expr("explode(split(line, ' '))")
    """
    if not isinstance(text, str) or not text.strip():
        raise TopologyError(f"expr takes a SQL expression as text, such as expr('upper(line)'), not {text!r}")
    return Expression(text)
