"""The servers that stored checkpoints need."""

from tests.support.postgres_fixtures import postgres

__all__ = ["postgres"]
