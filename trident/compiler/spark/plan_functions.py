"""Python functions over DataFrames, sent to the JVM in a few calls."""

import logging
import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from trident.compiler.spark.plan_calls import like, names_of, sent_columns
from trident.compiler.spark.sessions import is_connect
from trident.compiler.spark.sql_names import all_quoted
from trident.compiler.spark.worker_functions import WorkerFunction

logger = logging.getLogger(__name__)

_PICKLES = CloudPickleSerializer()  # type: ignore[no-untyped-call]

_MOST_BYTES = 512 << 10
"""The largest pickled function that is sent here. PySpark makes a broadcast of one over a megabyte."""


def mapped(frame: DataFrame, function: WorkerFunction, schema: StructType) -> DataFrame:
    """Return ``frame.mapInArrow(function, schema)``.

    PySpark makes some fifty calls to the JVM for it; the first function of a schema is made by PySpark and is the
    template for the others, which differ from it only in their pickled bytes.
    """
    if is_connect(frame.sparkSession):
        return frame.mapInArrow(function, schema)
    context: Any = frame.sparkSession.sparkContext
    templates = _templates.setdefault(context, {})
    files = tuple(context._python_includes)  # noqa: SLF001
    key = type(function).__name__, schema.json(), files, tuple(context.environment.items())
    if key not in templates:
        templates[key] = _template(frame, function, schema)
    template = templates[key]
    pickled: bytes = _PICKLES.dumps((function, schema))  # type: ignore[no-untyped-call]
    broadcasts = [*context._pickled_broadcast_vars]  # noqa: SLF001
    context._pickled_broadcast_vars.clear()  # noqa: SLF001
    if template is None or broadcasts or len(pickled) > _MOST_BYTES:
        return frame.mapInArrow(function, schema)
    column = template.udf(pickled).apply(sent_columns(frame, all_quoted(names_of(frame))))
    return like(frame, frame._jdf.mapInArrow(column, False, None))  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class _Template:
    """The parts of a function in the JVM that do not depend on its bytes."""

    functions: Any
    environment: tuple[Any, ...]
    like: Any
    parts: tuple[Any, ...]

    def udf(self, pickled: bytes) -> Any:
        """Return the function of these bytes."""
        function = self.functions(bytearray(pickled), *self.environment)
        return self.like.copy(self.parts[0], function, *self.parts[2:])


_templates: "weakref.WeakKeyDictionary[object, dict[Hashable, _Template | None]]" = weakref.WeakKeyDictionary()
"""For each Spark context, the templates by the name of a function's class, its schema, and what workers get.
None: make none."""


def _template(frame: DataFrame, function: WorkerFunction, schema: StructType) -> _Template | None:
    """Return the template for functions of a schema; None if this version of PySpark creates them differently."""
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    try:
        udf: Any = UserDefinedFunction(function, schema, evalType=kind)._judf  # noqa: SLF001
        parts = tuple(udf.productElement(at) for at in range(udf.productArity()))
        environment = tuple(parts[1].productElement(at) for at in range(1, parts[1].productArity()))
        context: Any = frame.sparkSession.sparkContext
        functions = context._jvm.SimplePythonFunction  # noqa: SLF001
        template = _Template(functions, environment, udf, parts)
        template.udf(b"")
    except (AttributeError, IndexError, Py4JError):
        logger.debug("each function over a DataFrame is sent to the JVM in many calls", exc_info=True)
        return None
    return template
