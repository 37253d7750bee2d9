"""The transaction log, in a file or in Redis: ``from trident.log import RedisLog``.

`RedisLog` is imported when it is first used, so the Redis client is imported only for Redis.
"""

import sys
from typing import TYPE_CHECKING

from trident.base.missing_names import missing_name
from trident.base.names import did_you_mean

if TYPE_CHECKING:
    from trident.log.factory import RedisLog

__all__ = ["RedisLog"]


def _attribute(name: str) -> object:
    if name not in __all__:
        raise missing_name(__name__, name, lambda: did_you_mean(name, __all__), sys._getframe(1))  # noqa: SLF001
    from trident.log.factory import RedisLog

    globals()[name] = RedisLog
    return RedisLog


if not TYPE_CHECKING:  # otherwise a type checker would accept every misspelt name
    __getattr__ = _attribute
