"""The settings of a driver's Spark.

A secret is given as ``env:NAME`` or ``file:path``, and read on the driver's machine.
"""

import re
from collections.abc import Mapping

from trident.base.errors import TopologyError
from trident.base.redis_address import redacted
from trident.base.secret_references import SOURCES, read_secret

_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""The names of settings that Spark treats as secrets (spark.redaction.regex)."""

_PLAIN = re.compile(r"secretKeyRef|[.]secrets[.]|(file|path|enabled|provider|class)$", re.IGNORECASE)
"""The names among these whose values are not secrets: a path to a secret, or how to use it."""

_ASSIGNED = re.compile(r"(secret|password|token|access[.]?key)[^=\s]*=\S", re.IGNORECASE)
"""A secret within a value, such as ``-Dpassword=...``."""


def check_confs(confs: Mapping[str, str]) -> None:
    """Raise TopologyError for a name that is not Spark's, and for a secret, which would be stored and shown."""
    for conf, value in confs.items():
        if not conf.startswith("spark."):
            raise TopologyError(f"--spark-conf {conf}: the name of a Spark setting begins with 'spark.'")
        if value.startswith("env:") or (_is_secret(conf) and value.startswith(SOURCES)):
            continue
        if _is_secret(conf) or _ASSIGNED.search(value) or ("://" in value and redacted(value) != value):
            raise TopologyError(
                f"--spark-conf {conf}: the value is a secret: it would be stored, and other users of the machine "
                f"can see a command line. Write {conf}=env:NAME, the name of a variable on the driver's machine; if "
                f"the setting's name says that it is a secret (spark.my.password), file:path is possible too"
            )


def read_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with the secrets to which they refer. Raises TopologyError if a variable or file is missing.

    A url may begin with ``file:``, too, so only settings that are secrets are read from files.
    """
    return {
        conf: read_secret(conf, value) if value.startswith("env:") or _is_secret(conf) else value
        for conf, value in confs.items()
    }


def _is_secret(conf: str) -> bool:
    return bool(_SECRET.search(conf)) and not _PLAIN.search(conf)
