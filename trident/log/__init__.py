"""The transaction log, in a file or in Redis: ``from trident.log import RedisLog``."""

from trident.log.factory import RedisLog as RedisLog
