"""Log records as lines of JSON, for programs that collect logs."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from trident.base.log_fields import FIELDS


class JsonFormatter(logging.Formatter):
    r"""Write each log record as one line of JSON: time (UTC), level, logger, message, and the subject of the record.

    The fields `topology`, `group`, `txid` and `attempt` are there if they apply, and `error` if there is a traceback.
    Pass it to `setFormatter` of a handler of the standard logging.

    >>> record = logging.LogRecord("trident.run", logging.INFO, "", 0, "batch %d\nis late", (7,), None)
    >>> record.created, record.group = 0.25, "words"
    >>> print(JsonFormatter().format(record))
    {"time": "1970-01-01T00:00:00.250Z", "level": "INFO", "logger": "trident.run",
     "message": "batch 7\nis late", "group": "words"}
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
