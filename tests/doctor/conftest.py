"""The servers that the doctor examines."""

from tests.support.objects import s3_server as s3_server
from tests.support.postgres_fixtures import postgres as postgres
