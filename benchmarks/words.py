"""How a line becomes words: once as Spark's own expression, once by one Python function, in every engine alike."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

Way = Literal["native", "python"]

EXPRESSION = "explode(split(line, ' '))"


def split(line: str) -> Iterator[str]:
    """The words of a line, one by one; what the "python" table runs in every engine."""
    yield from line.split(" ")


def _split_all(line: str) -> list[str]:
    return list(split(line))


@dataclass(frozen=True)
class Splitter:
    """One of the two ways, as a plan over a DataFrame of lines."""

    way: Way

    def words(self, lines: DataFrame) -> DataFrame:
        """Field ``word``."""
        return lines.select(self._column().alias("word"))

    def counts(self, lines: DataFrame) -> DataFrame:
        """Fields ``word, count``."""
        return self.words(lines).groupBy("word").count()

    def _column(self) -> Column:
        if self.way == "native":
            return F.expr(EXPRESSION)
        return F.explode(F.udf(_split_all, ArrayType(StringType()))("line"))
