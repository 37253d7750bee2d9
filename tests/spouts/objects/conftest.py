"""A bucket of a real S3 server, with a prefix of its own for each test."""

from tests.support.objects import Objects, objects, s3_server

__all__ = ["Objects", "objects", "s3_server"]
