"""Fields of log records: the topology, batch group, batch and attempt that a record is about.

All loggers of the library are below `trident`, so that a program has one name to configure. The library sets no handler
and no level. In a program that configures no logging, Python prints warnings and errors to stderr; a ``NullHandler``
would suppress them.
"""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

FIELDS = ("topology", "group", "txid", "attempt")
"""The names of the fields. A record has all of them (None for a field that does not apply), or none."""


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A module's logger. Its records carry the fields of one run.

    `known` are the fields that are the same in all records; a call adds others by ``extra``.

    >>> logger = RunLogger(logging.getLogger("trident.example"), topology="wc")
    >>> logger.process("", {"extra": {"txid": 7}})[1]["extra"]
    {'topology': 'wc', 'group': None, 'txid': 7, 'attempt': None}
    """

    def __init__(self, logger: logging.Logger, **known: Any) -> None:
        super().__init__(logger, {**dict.fromkeys(FIELDS), **known})

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the message unchanged, with the fields of the run and of the call."""
        fields: Mapping[str, object] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, {**kwargs, "extra": fields}
