"""The examination of parts of a program in one of Spark's workers, which imports little for it."""

import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import pyarrow as pa

from trident.base.finding import Examined
from trident.doctor.examination import examined

COLUMNS = "about string, found string, matters string, todo string, grave boolean"
"""The fields of a finding, as a schema of Spark."""

_SCHEMA = pa.schema([*((name, pa.string()) for name in ("about", "found", "matters", "todo")), ("grave", pa.bool_())])


@dataclass(frozen=True, slots=True)
class Examination:
    """The examination of parts as a function over Arrow batches. It yields a row for each finding."""

    parts: tuple[tuple[str, Examined], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        found = [astuple(finding) for about, part in self.parts for finding in examined(about, part, time.time)]
        columns = [pa.array([row[number] for row in found], field.type) for number, field in enumerate(_SCHEMA)]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
